"""Leftovers: what a tuner that died left running is ended, and what it had measured is kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from counterpoint.core.errors import CounterpointError
from counterpoint.runs.outcome import OutcomeKind
from counterpoint.runs.reader import is_run, read_run
from counterpoint.tune.executors.executor import Ended, EndedKind, Executor
from counterpoint.tune.journal.records import AllocationClosed, TrialEnded
from counterpoint.tune.study.ledger import Ledger, stamp
from counterpoint.tune.study.study import Trial
from counterpoint.tune.trial.measure import measure
from counterpoint.tune.trial.report import Failure, Report

_NOT_BY_ITSELF: Final = (OutcomeKind.RUNNING, OutcomeKind.LOST, OutcomeKind.INTERRUPTED)


def end_leftovers(
    ledger: Ledger, executor: Executor, where: Path, say: Callable[[str], None]
) -> None:
    """End gangs and allocations without an end; nothing where the tuner ended in order."""
    study = ledger.study
    whole = {it.started.number: _report(where / it.started.directory) for it in study.running}
    for trial in study.running:
        say(f"ending what is left of trial {trial.started.number}")
        if trial.gang is not None:
            executor.sweep(trial.gang)
    for it in study.allocations:
        if it.number in study.open_allocations:
            executor.sweep(it.identity)
    for trial in study.running:
        told = whole[trial.started.number]
        wall_s = _wall(where, trial) if told is not None else None
        interrupted = Report(failure=Failure.INTERRUPTED, detail="the tuner ended before it did")
        ledger.add(
            TrialEnded(
                number=trial.started.number,
                report=told if told is not None and wall_s is not None else interrupted,
                wall_s=wall_s or 0.0,
                at=stamp(),
            )
        )
    for number in ledger.study.open_allocations:
        ledger.add(AllocationClosed(number=number, at=stamp()))


def _report(directory: Path) -> Report | None:
    """Of a Run that came to its end without the tuner; looked at before anything is swept."""
    try:
        outcome = read_run(directory).outcome if is_run(directory) else None
    except CounterpointError:
        return None
    if outcome is None or outcome.kind in _NOT_BY_ITSELF:
        return None
    return measure(directory, Ended(kind=EndedKind.EXITED, exit_code=outcome.status))


def _wall(where: Path, trial: Trial) -> float | None:
    run = read_run(where / trial.started.directory)
    return None if run.ended is None else (run.ended - run.started).total_seconds()
