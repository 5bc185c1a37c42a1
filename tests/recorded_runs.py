"""Runs as `counterpoint run` records them, of ranks that a test makes."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from counterpoint.runs.outcomes import Outcome, OutcomeKind
from counterpoint.runs.run import Rank, Run, RunSettings

ENDED = Outcome(OutcomeKind.OK, 0)


def run_of(rank: Rank) -> Run:
    """A run that ended well, with this rank alone."""
    return Run(
        path=Path("run"),
        name="run",
        command=("python", "train.py"),
        cwd="/",
        started=datetime(2026, 1, 1, tzinfo=UTC),
        ended=None,
        settings=RunSettings(),
        launcher="local",
        outcome=ENDED,
        ranks=(rank,),
    )
