"""Drop rules: after a look at the rows so far, which arms are dropped, and why."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from counterpoint.core import Range
from counterpoint.core.printable import counted_noun
from counterpoint.tune.arm import Arm, ArmOrigin
from counterpoint.tune.race.budget import LEAST, NOISE_TRIALS, SCREEN_ROWS, RemainingBudget
from counterpoint.tune.race.moves import Drop, Finish
from counterpoint.tune.race.rows import RACE
from counterpoint.tune.race.state import RaceState, overlap
from counterpoint.tune.statistics.estimate import (
    ArmVerdict,
    GainEstimate,
    estimate_text,
    looks,
    shows_no_effect,
)
from counterpoint.tune.study.study import NO_BUDGET
from counterpoint.tune.trial.report import Purpose

SLOWER = "slower"
NO_EFFECT = "no effect"
BELOW_TARGET = "below target"
BEHIND = "behind"
HOPELESS = "can't win"
TOO_NOISY = "too noisy"
_SPARE: Final = 1.1
"""Trials differ in length, so a budget that is advised has this much more than they need."""
_MINUTE_S: Final = 60


def look(state: RaceState) -> Drop | None:
    """Return the arm to drop by the rows so far; None if all continue."""
    return (
        next(_by_verdict(state), None)
        or next(_by_target(state), None)
        or next(_behind(state), None)
        or _by_budget(state)
    )


def drop_unaffordable(state: RaceState) -> Drop | None:
    """Return a Drop of the last new arm if the budget can't pay for the first two rows of all.

    Arms are in order of promise, so the last one is the least promising.
    """
    arms = state.undecided
    have = {arm.name: state.rows.count(arm.name, RACE) for arm in arms}
    new = [arm for arm in arms if have[arm.name] < SCREEN_ROWS]
    if not new:
        return None
    profiles = sum(arm.profile and arm.name not in state.study.profiled for arm in new)
    beside = 2 if any(arm.origin is ArmOrigin.COMBINED for arm in new) else 1
    to_go = SCREEN_ROWS - min(have[arm.name] for arm in new)
    need = (0 if state.rows.noise_known else NOISE_TRIALS) + profiles + to_go * (beside + len(new))
    remaining = state.remaining
    if need <= remaining.for_the_race:
        return None
    out = new[-1]
    if len(new) == 1 and have[out.name]:
        return None  # already measured: its estimate stands
    arms = counted_noun(len(new), "arm")
    why = f"{need} trials would be needed for {arms}, and {_left_text(remaining)}"
    return Drop(out.name, NO_BUDGET, why)


def too_small(state: RaceState) -> Finish | None:
    """End a study whose budget of time is too small for any arm, as the first trial shows."""
    seconds, trial_s = state.plan.budget.seconds, state.trial_s
    begun = any(row.purpose is not Purpose.NOISE for row in state.rows)
    if seconds is None or not trial_s or begun or seconds / trial_s >= LEAST:
        return None
    trials = LEAST + 2 * state.plan.confirm_rows
    enough = math.ceil(_SPARE * trials * trial_s)
    text = f"{enough}s" if enough < 2 * _MINUTE_S else f"{math.ceil(enough / _MINUTE_S)}m"
    return Finish(
        f"the budget is too small: a trial takes {trial_s:.3g} s, and a study takes {trials} of"
        f" them or more: --budget '{text}'"
    )


def rows_to_next_look(state: RaceState) -> int:
    """Return the number of rows until something can be decided; 0 if no arm needs any."""
    arms = state.undecided
    if any(arm.origin is ArmOrigin.COMBINED for arm in arms):
        arms = tuple(arm for arm in arms if arm.origin is ArmOrigin.COMBINED)
    planned = looks(state.plan.rule)
    to_go = [
        next((at for at in planned if at > have), have + 1) - have
        for have in (state.rows.count(arm.name, RACE) for arm in arms)
    ]
    return min(to_go, default=0)


def _by_verdict(state: RaceState) -> Iterator[Drop]:
    """Drop decided arms. An arm that can't win is not called slower, which would be a claim."""
    kinds = {ArmVerdict.SLOWER: SLOWER, ArmVerdict.SAME: NO_EFFECT}
    for arm in state.racers:
        estimate = state.raced.get(arm.name)
        if estimate is None or not estimate.decided:
            continue
        if estimate.verdict is ArmVerdict.SAME and not shows_no_effect(estimate):
            yield Drop(arm.name, TOO_NOISY, f"{_after(estimate)}: runs differ too much")
        elif estimate.verdict in kinds:
            yield Drop(arm.name, kinds[estimate.verdict], _after(estimate))
        elif estimate.futile:
            yield Drop(arm.name, HOPELESS, f"{_after(estimate)}: {estimate.why}")


def _by_target(state: RaceState) -> Iterator[Drop]:
    target = state.plan.target_gain
    if target is None:
        return
    for arm in state.racers:
        estimate = state.raced.get(arm.name)
        if estimate is None or estimate.rows not in looks(state.plan.rule):
            continue
        if isinstance(estimate.range, Range) and estimate.range.high < target:
            why = f"{_after(estimate)}: it can no longer save {target:.1%}"
            yield Drop(arm.name, BELOW_TARGET, why)


def _behind(state: RaceState) -> Iterator[Drop]:
    """Drop arms of the worse half whose range lies below that of the best arm."""
    arms = _by_gain(state)
    best = max(
        (state.raced[arm.name] for arm in state.racers if arm.name in state.raced),
        key=_gain,
        default=None,
    )
    if best is None or len(arms) < 2:
        return
    for arm in reversed(arms[(len(arms) + 1) // 2 :]):
        estimate = state.raced[arm.name]
        at_look = (
            estimate.rows in looks(state.plan.rule) and estimate.verdict is not ArmVerdict.FASTER
        )
        if at_look and estimate.gain < best.gain and not overlap(estimate, best):
            yield Drop(
                arm.name, BEHIND, f"{_after(estimate)}, and {best.arm} {estimate_text(best)}"
            )


def _by_budget(state: RaceState) -> Drop | None:
    """Drop the worst arm if the budget can't pay for the rows of all to the next look."""
    arms = _by_gain(state)
    doubtful = [arm for arm in arms if state.raced[arm.name].verdict is not ArmVerdict.FASTER]
    if len(arms) < 2 or not doubtful or len(arms) < len(state.undecided):
        return None
    remaining = state.remaining
    need = rows_to_next_look(state) * len(state.race_roster)
    if need <= remaining.for_the_race:
        return None
    out = doubtful[-1]
    why = (
        f"{_after(state.raced[out.name])}: {need} trials would be needed to tell {len(arms)} arms "
        f"apart, and {_left_text(remaining)}"
    )
    return Drop(out.name, NO_BUDGET, why)


def _left_text(there: RemainingBudget) -> str:
    reserved = f": {there.reserve} more are kept for the confirmation" if there.reserve else ""
    return f"{there.for_the_race:g} are left{reserved}"


def _by_gain(state: RaceState) -> list[Arm]:
    """Return the undecided arms that completed screening, best first."""
    raced = state.raced
    known = [
        arm for arm in state.undecided if arm.name in raced and raced[arm.name].rows >= SCREEN_ROWS
    ]
    return sorted(known, key=lambda arm: -_gain(raced[arm.name]))


def _gain(estimate: GainEstimate) -> float:
    return estimate.gain if estimate.gain == estimate.gain else -1.0  # NaN: no row with the base


def _after(estimate: GainEstimate) -> str:
    return f"{estimate_text(estimate)} after {estimate.rows} rows"
