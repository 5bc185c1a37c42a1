"""Runs: the record that one execution of a workload leaves. No processes are started here.

run.py is the model, reader.py reads a Run directory, layout.py names its files. `runs.recording`
writes it, `runs.reports` reads XLA's logs, `runs.scores` takes its undisturbed steps, `runs.steady`
those after the warm-up, and `runs.timeline` reads the profiles of all ranks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterpoint.core import lazy
from counterpoint.runs import layout as layout

if TYPE_CHECKING:
    from counterpoint.runs.layout import find_runs as find_runs
    from counterpoint.runs.layout import is_run as is_run
    from counterpoint.runs.outcomes import Outcome as Outcome
    from counterpoint.runs.outcomes import OutcomeKind as OutcomeKind
    from counterpoint.runs.reader import list_runs as list_runs
    from counterpoint.runs.reader import read_run as read_run
    from counterpoint.runs.run import BURSTS as BURSTS
    from counterpoint.runs.run import Compile as Compile
    from counterpoint.runs.run import Rank as Rank
    from counterpoint.runs.run import Run as Run
    from counterpoint.runs.run import RunSettings as RunSettings
    from counterpoint.runs.run import StepStart as StepStart
    from counterpoint.runs.run import longest_compiles as longest_compiles
    from counterpoint.runs.run import module_of as module_of
    from counterpoint.runs.run import steps_apart as steps_apart

__getattr__ = lazy(__name__)
