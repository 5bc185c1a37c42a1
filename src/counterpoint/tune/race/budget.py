"""The budget of a study: what it takes at most, and what is left."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from counterpoint.core import UsageError
from counterpoint.tune.arm import Arm
from counterpoint.tune.plan import Budget, Plan
from counterpoint.tune.race.finals import next_finalists, rows_due, starts
from counterpoint.tune.race.rows import NOISE_TRIALS, SCREEN_ROWS
from counterpoint.tune.statistics.estimate import looks
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
    walls = [trial.wall_s for trial in study.trials if trial.wall_s is not None]
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
    reserved = reserve(spent + left, due)
    others = best is None and _has_raced(study) and not starts(study)
    reserved = _fitting(reserved, left - ONE_ARM if others else left)
    return Purse(max(left, 0.0), reserved, trial_s, seconds_left)


def _has_raced(study: Study) -> bool:
    """Then it is known that nobody is up for fresh runs yet, and others may use their share."""
    return any(trial.started.purpose in (Purpose.SCREEN, Purpose.RACE) for trial in study.trials)


def charged(study: Study, budget: Budget) -> int:
    """Trials that the budget pays for.

    Those that failed without blame are made again for nothing, but never more than it has trials.
    """
    paid = sum(trial.is_charged for trial in study.trials)
    return paid if budget.trials is None else max(paid, len(study.trials) - budget.trials)


def trial_seconds(study: Study) -> float | None:
    """The median wall time of a trial; of those that gave a step time, if there are any."""
    ended = [(trial.counts, trial.wall_s) for trial in study.trials if trial.wall_s is not None]
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
    count = min(len([arm for arm in arms if not arm.is_base]), plan.shortlist)
    if not count:
        return Cost(expected_trials=0, most_trials=0)
    limit = _limit(plan, trial_s)
    profiles = sum(arm.profile for arm in arms)
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
