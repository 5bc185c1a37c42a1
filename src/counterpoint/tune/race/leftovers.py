"""Leftovers: what a tuner that died left running is ended, and what it had measured is kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from counterpoint.core import CounterpointError
from counterpoint.flags.settings import Settings
from counterpoint.runs.layout import is_run
from counterpoint.runs.outcomes import OutcomeKind
from counterpoint.runs.reader import read_run
from counterpoint.tune.executors.executor import (
    Executor,
    GangEnd,
    GangEndKind,
)
from counterpoint.tune.race.jobs import changes_in
from counterpoint.tune.study.ledger import Ledger, stamp
from counterpoint.tune.study.records import AllocationClosed, TrialEnded
from counterpoint.tune.study.study import Trial
from counterpoint.tune.trial.measure import measure
from counterpoint.tune.trial.report import TrialFailure, TrialReport

_NOT_ENDED_BY_ITSELF: Final = (OutcomeKind.RUNNING, OutcomeKind.LOST, OutcomeKind.INTERRUPTED)


def end_leftovers(
    ledger: Ledger, executor: Executor, study_directory: Path, say: Callable[[str], None]
) -> None:
    """End gangs and allocations that a previous tuner left open, if any."""
    study = ledger.study
    whole = {
        trial.started.number: _report(
            study_directory / trial.started.directory, changes_in(study, trial)
        )
        for trial in study.running
    }
    for trial in study.running:
        say(f"ending the leftover processes of trial {trial.started.number}")
        if trial.gang is not None:
            executor.sweep(trial.gang)
    for allocation in study.allocations:
        if allocation.number in study.open_allocations:
            executor.sweep(allocation.identity)
    for trial in study.running:
        report = whole[trial.started.number]
        wall_s = _wall(study_directory, trial) if report is not None else None
        interrupted = TrialReport(
            failure=TrialFailure.INTERRUPTED, detail="the tuner ended before the trial"
        )
        ledger.add(
            TrialEnded(
                number=trial.started.number,
                report=report if report is not None and wall_s is not None else interrupted,
                wall_s=wall_s or 0.0,
                at=stamp(),
            )
        )
    for number in ledger.study.open_allocations:
        ledger.add(AllocationClosed(number=number, at=stamp()))


def _report(directory: Path, changes: Settings) -> TrialReport | None:
    """Return the report of a Run that ended without the tuner; call it before anything is swept."""
    try:
        outcome = read_run(directory).outcome if is_run(directory) else None
    except CounterpointError:
        return None
    if outcome is None or outcome.kind in _NOT_ENDED_BY_ITSELF:
        return None
    ended = GangEnd(kind=GangEndKind.EXITED, exit_code=outcome.status)
    return measure(directory, ended, changes)


def _wall(study_directory: Path, trial: Trial) -> float | None:
    run = read_run(study_directory / trial.started.directory)
    if run.ended is None:
        return None
    return max((run.ended - run.started).total_seconds(), 0.0)  # the clock may have been set back
