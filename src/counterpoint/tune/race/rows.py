"""Rows: passes through the base and the arms in the race, and the order of the runs in a row."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from counterpoint.tune.arm import BASE
from counterpoint.tune.statistics.estimate import Observation
from counterpoint.tune.study.study import Study, Trial
from counterpoint.tune.trial.report import Purpose

RACE: Final = frozenset({Purpose.NOISE, Purpose.SCREEN, Purpose.RACE})
"""Purposes of trials that the race uses; the confirmation uses only its own."""
CONFIRM: Final = frozenset({Purpose.CONFIRM})
ABLATE: Final = frozenset({Purpose.ABLATE})
_BACK: Final = 0.5
"""Share of the even rows that run back.

Of 100 simulated studies of equal arms (benchmarks/tune_loads.py), 7 confirmed a gain if none did
(a run takes 2% longer after one of the arms), and 3 if all did (a load of four trials). With this
share it was 2 and 1 of 80.
"""


@dataclass(frozen=True, slots=True)
class RaceRow:
    """One pass, complete or not.

    All its trials belong to one allocation, or to several of this machine, if a tuner ended in it.
    """

    number: int
    purpose: Purpose
    allocations: tuple[int, ...]
    before: int  # number of trials before it
    trials: tuple[Trial, ...]

    def counted(self, arm: str) -> int:
        """Return the number of step times of an arm."""
        return sum(trial.counts for trial in self.trials if trial.started.arm == arm)


@dataclass(frozen=True)
class Rows:
    """All rows of a study that were begun, in order; with `before`, only those before that row."""

    study: Study
    before: int | None = None

    @cached_property
    def _rows(self) -> tuple[RaceRow, ...]:
        found: dict[int, RaceRow] = {}
        for at, trial in enumerate(self.study.trials):
            number = trial.started.row
            if number < 0 or (self.before is not None and number >= self.before):
                continue
            row = found.get(number)
            first, trials = (at, ()) if row is None else (row.before, row.trials)
            started = trials[0].started if trials else trial.started
            trials = (*trials, trial)
            places = tuple(dict.fromkeys(it.started.allocation for it in trials))
            found[number] = RaceRow(number, started.purpose, places, first, trials)
        return tuple(found[number] for number in sorted(found))

    def __iter__(self) -> Iterator[RaceRow]:
        return iter(self._rows)

    @property
    def last(self) -> RaceRow | None:
        return self._rows[-1] if self._rows else None

    def count(self, arm: str, purposes: frozenset[Purpose], base: str = BASE) -> int:
        """Return the number of rows in which both the arm and the base gave a step time."""
        return sum(
            row.purpose in purposes and row.counted(arm) > 0 and row.counted(base) > 0
            for row in self
        )

    def observations(self, purposes: frozenset[Purpose]) -> tuple[Observation, ...]:
        """Return the step times of trials for these purposes, in the order in which they ran."""
        return tuple(
            Observation(trial.started.arm, trial.started.row, trial.report.steady.median_s)
            for trial in self.study.trials
            if trial.started.purpose in purposes
            and trial.started.row >= 0
            and (self.before is None or trial.started.row < self.before)
            and trial.report is not None
            and trial.report.steady is not None
        )

    @cached_property
    def noise_known(self) -> bool:
        """True if the base ran twice in a row."""
        return any(row.purpose is Purpose.NOISE and row.counted(BASE) > 1 for row in self)


def row_order(arms: Sequence[str], row: int, seed: int) -> tuple[str, ...]:
    """Return the base and the arms in the order of this row: random, or the one before it, back.

    Any fixed order is a rhythm, and the arm that shares it with a load of the machine looks faster
    or slower than it is. Rows that run back cancel a drift, and what an arm leaves behind for the
    run after it; if all even rows did so, they would have a rhythm again.

    The order follows from the plan's seed, which the journal has, so that a study that is continued
    runs as it would have run. An arm that leaves does not change the order of the others.
    """
    odd, back = row, False
    if row % 2 == 0 and _draw(f"{seed} {row}") < _BACK:
        odd, back = row - 1, True
    return tuple(sorted({BASE, *arms}, key=lambda arm: _draw(f"{seed} {odd} {arm}"), reverse=back))


def _draw(key: str) -> float:
    return random.Random(key).random()  # noqa: S311  nothing secret
