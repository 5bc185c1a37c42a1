"""Chips, links and Targets as data: each number with its unit and its source.

Read gpu.py, links.py and tpu.py, then target.py. `hardware.targets` parses user input (`8xH100`)
and TOML files, and compares a Target with the devices of a recording.
"""
