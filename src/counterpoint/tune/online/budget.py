"""Budget: what the online part of a study takes at most, and as expected; and what is too little.

arms, plan ──► trials ──seconds of a trial──► hours, where those are known
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from counterpoint.core.errors import UsageError
from counterpoint.tune.arm import Arm
from counterpoint.tune.online.purse import FEWEST_CONFIRM_ROWS, LEAST, reserve
from counterpoint.tune.online.rows import NOISE_TRIALS, SCREEN_ROWS
from counterpoint.tune.plan import Plan
from counterpoint.tune.statistics.levels import looks


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Trials, and seconds where a trial's length is known; within the budget in any case."""

    expected_trials: int
    most_trials: int
    expected_seconds: float | None = None
    most_seconds: float | None = None
    left_out: int = 0  # arms that the budget has no room for


def refuse_small(plan: Plan) -> None:
    """Stop before anything runs where nothing could be said in the end."""
    if 0 < plan.confirm_rows < FEWEST_CONFIRM_ROWS:
        raise UsageError(
            f"--confirm-rows {plan.confirm_rows} confirms nothing",
            why="a single pair of fresh runs has no spread, so no range can be told",
            next=f"--confirm-rows {FEWEST_CONFIRM_ROWS}",
        )
    trials, least = plan.budget.trials, LEAST + 2 * plan.confirm_rows
    if trials is not None and trials < least:
        why = "the base runs twice, and one arm beside it in two rows"
        fresh = f", and then in {plan.confirm_rows} fresh ones" if plan.confirm_rows else ""
        without = f" ({LEAST} with --confirm-rows 0)" if plan.confirm_rows else ""
        raise UsageError(
            f"--budget {trials} trials is too little",
            why=f"{why}{fresh}: {least} trials{without} at least, and more for several arms",
            next=f"--budget '{least} trials'",
        )
    if plan.budget.seconds is not None and plan.budget.seconds <= 0:
        raise UsageError("--budget: no time at all", next="--budget 2h")


def cost(arms: Sequence[Arm], plan: Plan, trial_s: float | None = None) -> Cost:
    """What a study of these arms takes; `trial_s` is how long one trial does."""
    count = min(len([it for it in arms if not it.is_base]), plan.shortlist)
    if not count:
        return Cost(expected_trials=0, most_trials=0)
    limit = _limit(plan, trial_s)
    profiles = sum(it.profile for it in arms)
    fits = count
    while fits > 1 and _screening(fits) + reserve(limit, plan.confirm_rows) > limit:
        fits -= 1
    most = min(_most(fits, plan) + profiles, limit)
    expected = min(_expected(fits, plan) + profiles, most)
    return Cost(
        expected_trials=int(expected),
        most_trials=int(most),
        expected_seconds=None if trial_s is None else expected * trial_s,
        most_seconds=None if trial_s is None else most * trial_s,
        left_out=count - fits,
    )


def _limit(plan: Plan, trial_s: float | None) -> float:
    trials = math.inf if plan.budget.trials is None else plan.budget.trials
    if plan.budget.seconds is None or not trial_s:
        return trials
    return min(trials, math.floor(plan.budget.seconds / trial_s))


def _screening(arms: int) -> float:
    return NOISE_TRIALS + SCREEN_ROWS * (1 + arms)


def _most(arms: int, plan: Plan) -> float:
    """Nobody is decided before the cap, nor is a combined arm; two are confirmed, one taken apart.

    Where runs differ much, fresh rows are as many as the cap. No study is likely to come to that.
    """
    rows = plan.rule.cap
    combined = 3 * rows if arms > 1 else 0
    fresh = max(plan.confirm_rows, rows) if plan.confirm_rows else 0
    confirmed = (3 if arms > 1 else 2) * fresh
    apart = (1 + arms) * max(plan.confirm_rows, 2) if plan.ablate and arms > 1 else 0
    return NOISE_TRIALS + rows * (1 + arms) + combined + confirmed + apart


def _expected(arms: int, plan: Plan) -> float:
    """Half of the arms are decided at each look, as is usual; one is confirmed."""
    spent = float(NOISE_TRIALS)
    before, left = 0, arms
    for at in looks(plan.rule):
        spent += (at - before) * (1 + left)
        before, left = at, math.ceil(left / 2)
    return spent + 2 * plan.confirm_rows
