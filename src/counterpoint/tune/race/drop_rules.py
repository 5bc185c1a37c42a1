"""Drop rules: after a look at the rows so far, which arms are dropped, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from counterpoint.core import Range
from counterpoint.tune.arm import Arm, ArmOrigin, several
from counterpoint.tune.plan import StudyPlan
from counterpoint.tune.race.budget import RemainingBudget, remaining_budget
from counterpoint.tune.race.estimates import overlap, raced, racers
from counterpoint.tune.race.moves import Drop
from counterpoint.tune.race.rows import NOISE_TRIALS, RACE, SCREEN_ROWS, noise_known, rows_of
from counterpoint.tune.race.schedule import race_roster, undecided
from counterpoint.tune.statistics.estimate import ArmVerdict, GainEstimate, estimate_text, looks
from counterpoint.tune.study.study import NO_BUDGET, Study

SLOWER = "slower"
NO_EFFECT = "no effect"
BELOW_TARGET = "below target"
BEHIND = "behind"
HOPELESS = "can't win"


def look(study: Study, plan: StudyPlan) -> Drop | None:
    """Return the arm to drop by the rows so far; None if all continue."""
    estimates = raced(study, plan)
    return (
        next(_by_verdict(study, estimates), None)
        or next(_by_target(study, plan, estimates), None)
        or next(_behind(study, plan, estimates), None)
        or _by_budget(study, plan, estimates)
    )


def screening_fits(study: Study, plan: StudyPlan) -> Drop | None:
    """Return a Drop of the last new arm if the budget can't pay for the first two rows of all.

    Arms are in order of promise, so the last one is the least promising.
    """
    arms = undecided(study, plan)
    have = {arm.name: rows_of(study, arm.name, RACE) for arm in arms}
    new = [arm for arm in arms if have[arm.name] < SCREEN_ROWS]
    if not new:
        return None
    profiles = sum(arm.profile and arm.name not in study.profiled for arm in new)
    beside = 2 if any(arm.origin is ArmOrigin.COMBINED for arm in new) else 1
    to_go = SCREEN_ROWS - min(have[arm.name] for arm in new)
    need = (0 if noise_known(study) else NOISE_TRIALS) + profiles + to_go * (beside + len(new))
    remaining = remaining_budget(study, plan)
    if need <= remaining.for_the_race:
        return None
    out = new[-1]
    if len(new) == 1 and have[out.name]:
        return None  # already measured: its estimate stands
    arms = several(len(new), "arm")
    why = f"{need} trials would be needed for {arms}, and {_left(remaining)}"
    return Drop(out.name, NO_BUDGET, why)


def rows_to_next_look(study: Study, plan: StudyPlan) -> int:
    """Return the number of rows until something can be decided; 0 if no arm needs any."""
    arms = undecided(study, plan)
    if any(arm.origin is ArmOrigin.COMBINED for arm in arms):
        arms = tuple(arm for arm in arms if arm.origin is ArmOrigin.COMBINED)
    planned = looks(plan.rule)
    to_go = [
        next((at for at in planned if at > have), have + 1) - have
        for have in (rows_of(study, arm.name, RACE) for arm in arms)
    ]
    return min(to_go, default=0)


def _by_verdict(study: Study, told: Mapping[str, GainEstimate]) -> Iterator[Drop]:
    """Drop decided arms. An arm that can't win is not called slower, which would be a claim."""
    kinds = {ArmVerdict.SLOWER: SLOWER, ArmVerdict.SAME: NO_EFFECT}
    for arm in racers(study):
        estimate = told.get(arm.name)
        if estimate is None or not estimate.decided:
            continue
        if estimate.verdict in kinds:
            yield Drop(arm.name, kinds[estimate.verdict], _after(estimate))
        elif estimate.hopeless:
            yield Drop(arm.name, HOPELESS, f"{_after(estimate)}: {estimate.why}")


def _by_target(study: Study, plan: StudyPlan, told: Mapping[str, GainEstimate]) -> Iterator[Drop]:
    target = plan.target_gain
    if target is None:
        return
    for arm in racers(study):
        estimate = told.get(arm.name)
        if estimate is None or estimate.rows not in looks(plan.rule):
            continue
        if isinstance(estimate.range, Range) and estimate.range.high < target:
            why = f"{_after(estimate)}: it can't save {target:.1%} any more"
            yield Drop(arm.name, BELOW_TARGET, why)


def _behind(study: Study, plan: StudyPlan, told: Mapping[str, GainEstimate]) -> Iterator[Drop]:
    """Drop arms of the worse half whose range lies below that of the best arm."""
    arms = _by_gain(undecided(study, plan), told)
    best = max(
        (told[arm.name] for arm in racers(study) if arm.name in told), key=_gain, default=None
    )
    if best is None or len(arms) < 2:
        return
    for arm in reversed(arms[(len(arms) + 1) // 2 :]):
        estimate = told[arm.name]
        at_look = estimate.rows in looks(plan.rule) and estimate.verdict is not ArmVerdict.FASTER
        if at_look and estimate.gain < best.gain and not overlap(estimate, best):
            yield Drop(
                arm.name, BEHIND, f"{_after(estimate)}, and {best.arm} {estimate_text(best)}"
            )


def _by_budget(study: Study, plan: StudyPlan, told: Mapping[str, GainEstimate]) -> Drop | None:
    """Drop the worst arm if the budget can't pay for the rows of all to the next look."""
    arms = _by_gain(undecided(study, plan), told)
    doubtful = [arm for arm in arms if told[arm.name].verdict is not ArmVerdict.FASTER]
    if len(arms) < 2 or not doubtful or len(arms) < len(undecided(study, plan)):
        return None
    remaining = remaining_budget(study, plan)
    need = rows_to_next_look(study, plan) * len(race_roster(study, plan))
    if need <= remaining.for_the_race:
        return None
    out = doubtful[-1]
    why = (
        f"{_after(told[out.name])}: {need} trials would be needed to tell {len(arms)} arms "
        f"apart, and {_left(remaining)}"
    )
    return Drop(out.name, NO_BUDGET, why)


def _left(there: RemainingBudget) -> str:
    reserved = f": {there.reserve} more are kept for the confirmation" if there.reserve else ""
    return f"{there.for_the_race:g} are left{reserved}"


def _by_gain(arms: tuple[Arm, ...], told: Mapping[str, GainEstimate]) -> list[Arm]:
    """Return the arms that completed screening, best first."""
    known = [arm for arm in arms if arm.name in told and told[arm.name].rows >= SCREEN_ROWS]
    return sorted(known, key=lambda arm: -_gain(told[arm.name]))


def _gain(estimate: GainEstimate) -> float:
    return estimate.gain if estimate.gain == estimate.gain else -1.0  # NaN: no row with the base


def _after(estimate: GainEstimate) -> str:
    return f"{estimate_text(estimate)} after {estimate.rows} rows"
