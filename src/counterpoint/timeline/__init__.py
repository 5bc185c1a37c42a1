"""The Timeline: spans on lanes of devices over steps, measured or predicted.

model.py defines the type; reading.py finds the profiles that a user names (source.py)
and passes each to the reader of its format (formats.py). Readers yield Recordings
(`recording.py`), which `timeline.hosts` assembles into one Timeline; steps.py finds
the steps. `storage` writes Timelines.
"""
