"""Rows: passes through the base and the arms in the race."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from counterpoint.tune.arm import BASE
from counterpoint.tune.statistics.estimate import Observation
from counterpoint.tune.study.study import Study, Trial
from counterpoint.tune.trial.report import Purpose

RACE: Final = frozenset({Purpose.NOISE, Purpose.SCREEN, Purpose.RACE})
"""Purposes of trials that the race uses; the confirmation uses only its own."""
CONFIRM: Final = frozenset({Purpose.CONFIRM})
ABLATE: Final = frozenset({Purpose.ABLATE})

NOISE_TRIALS: Final = 2
SCREEN_ROWS: Final = 2


@dataclass(frozen=True, slots=True)
class RaceRow:
    """One pass, complete or not. All its trials belong to one allocation."""

    number: int
    purpose: Purpose
    allocation: int
    before: int  # number of trials before it
    trials: tuple[Trial, ...]

    def counted(self, arm: str) -> int:
        """Return the number of step times of an arm."""
        return sum(trial.counts for trial in self.trials if trial.started.arm == arm)


def rows(study: Study) -> tuple[RaceRow, ...]:
    """Return all rows that were begun, in order."""
    found: dict[int, RaceRow] = {}
    for at, trial in enumerate(study.trials):
        started = trial.started
        if started.row < 0:
            continue
        row = found.get(started.row) or RaceRow(
            started.row, started.purpose, started.allocation, at, ()
        )
        found[started.row] = RaceRow(
            row.number, row.purpose, row.allocation, row.before, (*row.trials, trial)
        )
    return tuple(found[number] for number in sorted(found))


def noise_known(study: Study) -> bool:
    """Return whether the base ran twice in a row."""
    return any(row.purpose is Purpose.NOISE and row.counted(BASE) > 1 for row in rows(study))


def observations(
    study: Study, purposes: Iterable[Purpose], before: int | None = None
) -> tuple[Observation, ...]:
    """Return step times of trials for these purposes; with `before`, only from earlier rows."""
    wanted = frozenset(purposes)
    return tuple(
        Observation(trial.started.arm, trial.started.row, trial.report.steady.median_s)
        for trial in study.trials
        if trial.started.purpose in wanted
        and trial.started.row >= 0
        and (before is None or trial.started.row < before)
        and trial.report is not None
        and trial.report.steady is not None
    )


def rows_of(
    study: Study,
    arm: str,
    purposes: Iterable[Purpose],
    base: str = BASE,
    before: int | None = None,
) -> int:
    """Return the number of rows in which both the arm and the base gave a step time."""
    wanted = frozenset(purposes)
    return sum(
        row.purpose in wanted
        and (before is None or row.number < before)
        and row.counted(arm) > 0
        and row.counted(base) > 0
        for row in rows(study)
    )
