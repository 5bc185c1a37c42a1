"""Purse: what is left of the budget, in trials, and what of it is kept for the confirmation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import median
from typing import Final

from counterpoint.tune.online.finals import next_finalists, rows_due, starts
from counterpoint.tune.online.rows import NOISE_TRIALS, SCREEN_ROWS
from counterpoint.tune.plan import Budget, Plan
from counterpoint.tune.study.study import Study
from counterpoint.tune.trial.report import Purpose

ONE_ARM: Final = 2 * SCREEN_ROWS
"""An arm beside the base, to the first look."""
LEAST: Final = NOISE_TRIALS + ONE_ARM
"""The base twice, and one arm beside it in two rows: with less nothing at all can be said."""
FEWEST_CONFIRM_ROWS: Final = 2
"""One row has no spread, so nothing could be claimed from it."""


@dataclass(frozen=True, slots=True)
class Purse:
    """`left` counts trials, infinite without a limit; `reserve` of them wait for the confirmation.

    Where the limit is in seconds, a trial is taken to last as long as the median one so far; as
    long as none has ended, nobody knows what fits.
    """

    left: float
    reserve: int
    trial_s: float | None
    seconds_left: float | None

    @property
    def for_the_race(self) -> float:
        return self.left - self.reserve


def purse(study: Study, plan: Plan) -> Purse:
    """What is left at this point of a study."""
    spent = charged(study, plan.budget)
    walls = [it.wall_s for it in study.trials if it.wall_s is not None]
    trial_s = trial_seconds(study)
    left = math.inf if plan.budget.trials is None else float(plan.budget.trials - spent)
    seconds_left: float | None = None
    if plan.budget.seconds is not None:
        seconds_left = plan.budget.seconds - sum(walls)
        if seconds_left <= 0:
            left = min(left, 0.0)
        elif trial_s:
            left = min(left, float(math.floor(seconds_left / trial_s)))
    best = next(iter(next_finalists(study, plan)), None)
    due = rows_due(study, plan, best and best.name)
    kept = reserve(spent + left, due)
    others = best is None and _has_raced(study) and not starts(study)
    kept = _fitting(kept, left - ONE_ARM if others else left)
    return Purse(max(left, 0.0), kept, trial_s, seconds_left)


def _has_raced(study: Study) -> bool:
    """Then it is known that nobody is up for fresh runs yet, and others may use their share."""
    return any(it.started.purpose in (Purpose.SCREEN, Purpose.RACE) for it in study.trials)


def charged(study: Study, budget: Budget) -> int:
    """Trials that the budget pays for.

    Those that failed without blame are made again for nothing, but never more than it has trials.
    """
    paid = sum(it.is_charged for it in study.trials)
    return paid if budget.trials is None else max(paid, len(study.trials) - budget.trials)


def trial_seconds(study: Study) -> float | None:
    """The median wall time of a trial; of those that gave a step time, if there are any."""
    ended = [(it.counts, it.wall_s) for it in study.trials if it.wall_s is not None]
    good = [wall_s for counts, wall_s in ended if counts]
    return median(good or [wall_s for _, wall_s in ended]) if ended else None


def reserve(total: float, rows: int) -> int:
    """Trials of so many fresh rows of a base and an arm, as far as the least leaves room."""
    wanted = 2 * rows
    if math.isinf(total):
        return wanted
    return _fitting(wanted, total - LEAST)


def _fitting(wanted: int, room: float) -> int:
    """Pairs of trials, as many as there is room for; fewer than the fewest are of no use."""
    fits = int(min(wanted, max(room, 0))) // 2 * 2
    return fits if fits >= 2 * FEWEST_CONFIRM_ROWS else 0
