"""Training loops, each with one trouble of known size, and some without any.

A program gets a Recorder. Its docstring is what is wrong with it. `fixed` runs it without that.
"""
