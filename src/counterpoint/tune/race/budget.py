"""The budget of a study: its maximum cost, and what is left."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from counterpoint.core import UsageError
from counterpoint.tune.arm import Arm
from counterpoint.tune.plan import StudyPlan
from counterpoint.tune.statistics.estimate import looks

NOISE_TRIALS: Final = 2
SCREEN_ROWS: Final = 2
ONE_ARM: Final = 2 * SCREEN_ROWS
"""Trials of one arm and the base up to the first look."""
LEAST: Final = NOISE_TRIALS + ONE_ARM
"""The base twice, then one arm and the base in two rows: the minimum for any conclusion."""
FEWEST_CONFIRM_ROWS: Final = 2
"""Minimum of rows for a claim: a single row has no spread."""


@dataclass(frozen=True, slots=True)
class RemainingBudget:
    """The remaining budget, in trials.

    `left` is infinite without a limit; `reserve` of it is for the confirmation. A limit in seconds
    is converted with the median duration of a trial, which is unknown until the first trial has
    ended.
    """

    left: float
    reserve: int

    @property
    def for_the_race(self) -> float:
        return self.left - self.reserve


def reserve(total: float, rows: int) -> int:
    """Return the trials for so many fresh rows of base and arm, leaving room for LEAST."""
    wanted = 2 * rows
    if math.isinf(total):
        return wanted
    return whole_pairs(wanted, total - LEAST)


def whole_pairs(wanted: int, room: float) -> int:
    """Return how many of the wanted trials fit, in pairs; 0 if too few to confirm anything."""
    fits = int(min(wanted, max(room, 0))) // 2 * 2
    return fits if fits >= 2 * FEWEST_CONFIRM_ROWS else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyCost:
    """Cost in trials, and in seconds if a trial's duration is known; always within the budget."""

    expected_trials: int
    most_trials: int
    expected_seconds: float | None = None
    most_seconds: float | None = None
    left_out: int = 0  # arms for which the budget has no room


def refuse_small(plan: StudyPlan) -> None:
    """Raise UsageError if the budget is too small for any conclusion."""
    if 0 < plan.confirm_rows < FEWEST_CONFIRM_ROWS:
        raise UsageError(
            f"--confirm-rows {plan.confirm_rows} is too few",
            why="a range needs the spread of at least two pairs of fresh runs",
            next=f"use --confirm-rows {FEWEST_CONFIRM_ROWS}",
        )
    trials, least = plan.budget.trials, LEAST + 2 * plan.confirm_rows
    if trials is not None and trials < least:
        why = "the base runs twice, then the base and one arm in two rows"
        fresh = f" and in {plan.confirm_rows} fresh rows" if plan.confirm_rows else ""
        without = f" ({LEAST} with --confirm-rows 0)" if plan.confirm_rows else ""
        raise UsageError(
            f"--budget {trials} trials is too small",
            why=f"{why}{fresh}: at least {least} trials{without}, and more for several arms",
            next=f"use --budget {least} trials",
        )
    if plan.budget.seconds is not None and plan.budget.seconds <= 0:
        raise UsageError("--budget must be more than zero", next="use --budget 2h")


def cost(arms: Sequence[Arm], plan: StudyPlan, trial_s: float | None = None) -> StudyCost:
    """Return the cost of a study of these arms; `trial_s` is the duration of one trial."""
    count = min(len([arm for arm in arms if not arm.is_base]), plan.shortlist)
    if not count:
        return StudyCost(expected_trials=0, most_trials=0)
    limit = _limit(plan, trial_s)
    profiles = sum(arm.profile for arm in arms)
    fits = count
    while fits > 1 and _screening(fits) + reserve(limit, plan.confirm_rows) > limit:
        fits -= 1
    most = min(_most(fits, plan) + profiles, limit)
    expected = min(_expected(fits, plan) + profiles, most)
    return StudyCost(
        expected_trials=int(expected),
        most_trials=int(most),
        expected_seconds=None if trial_s is None else expected * trial_s,
        most_seconds=None if trial_s is None else most * trial_s,
        left_out=count - fits,
    )


def _limit(plan: StudyPlan, trial_s: float | None) -> float:
    trials = math.inf if plan.budget.trials is None else plan.budget.trials
    if plan.budget.seconds is None or not trial_s:
        return trials
    return min(trials, math.floor(plan.budget.seconds / trial_s))


def _screening(arms: int) -> float:
    return NOISE_TRIALS + SCREEN_ROWS * (1 + arms)


def _most(arms: int, plan: StudyPlan) -> float:
    """Assume that every arm needs all rows, also a combined one; two are confirmed, one ablated.

    If runs vary a lot, there are as many fresh rows as the cap. Few studies reach this maximum.
    """
    rows = plan.rule.cap
    combined = 3 * rows if arms > 1 else 0
    fresh = max(plan.confirm_rows, rows) if plan.confirm_rows else 0
    confirmed = (3 if arms > 1 else 2) * fresh
    apart = (1 + arms) * max(plan.confirm_rows, 2) if plan.ablate and arms > 1 else 0
    return NOISE_TRIALS + rows * (1 + arms) + combined + confirmed + apart


def _expected(arms: int, plan: StudyPlan) -> float:
    """Assume that half of the arms are decided at each look, as is usual, and one is confirmed."""
    spent = float(NOISE_TRIALS)
    before, left = 0, arms
    for at in looks(plan.rule):
        spent += (at - before) * (1 + left)
        before, left = at, math.ceil(left / 2)
    return spent + 2 * plan.confirm_rows
