"""Runs: the record that one execution of a workload leaves. No processes are started here.

run.py is the model, reader.py reads a Run directory, layout.py names its files. `runs.writer`
writes it, `runs.reports` reads XLA's logs, `runs.scores` takes its undisturbed steps, `runs.steady`
those after the warm-up, and `runs.timeline` reads the profiles of all ranks.
"""

from __future__ import annotations

from counterpoint.runs import layout as layout
