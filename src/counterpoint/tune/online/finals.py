"""Finals: whose fresh runs are due, how many rows they take, and whose are through.

What is decided here of an arm stands on the race alone, as it was when the arm's fresh runs began:
fresh runs that had a say in how many there are would be no test any more.
"""

from __future__ import annotations

import math
from dataclasses import replace

from counterpoint.core.basis import Unknown
from counterpoint.tune.arm import Arm
from counterpoint.tune.online.rows import CONFIRM, RACE, SCREEN_ROWS, observations, rows, rows_of
from counterpoint.tune.online.standing import confirmed, noise_of, raced, racers
from counterpoint.tune.plan import Plan
from counterpoint.tune.statistics.estimate import Estimate, Verdict
from counterpoint.tune.study.study import Study


def finalists(study: Study, plan: Plan, before: int | None = None) -> tuple[Arm, ...]:
    """Who may be confirmed, the best first; with `before`, as it was when that row began.

    Those that are faster; where nobody is for certain, the one that looks best, if what it seems
    to save would count. The claim comes from fresh runs, so a doubtful one does no harm.
    """
    told = raced(study, plan, before)
    arms = [it for it in racers(study) if it.name in told and not math.isnan(told[it.name].gain)]
    arms.sort(key=lambda it: -told[it.name].gain)
    faster = tuple(it for it in arms if told[it.name].verdict is Verdict.FASTER)
    if faster:
        return faster
    return tuple(
        it
        for it in arms[:1]
        if told[it.name].verdict is Verdict.OPEN and told[it.name].gain > plan.rule.indifferent
    )


def next_finalists(study: Study, plan: Plan, before: int | None = None) -> tuple[Arm, ...]:
    """Those whose fresh runs have not begun, and that may be better than what fresh runs showed."""
    begun = starts(study, before)
    told = raced(study, plan, before)
    best = max((it.gain for it in shown(study, plan, before)), default=-math.inf)
    return tuple(
        it
        for it in finalists(study, plan, before)
        if it.name not in begun and told[it.name].gain > best
    )


def starts(study: Study, before: int | None = None) -> dict[str, int]:
    """In which row the fresh runs of an arm began: the first that gave it a step time."""
    found: dict[str, int] = {}
    for row in rows(study):
        if row.purpose not in CONFIRM or (before is not None and row.number >= before):
            continue
        for it in study.arms:
            if not it.is_base and row.counted(it.name):
                found.setdefault(it.name, row.number)
    return found


def late(study: Study, before: int | None = None) -> frozenset[str]:
    """Arms that the race had not seen when the first fresh runs began: a budget had no room.

    A larger one has, and what is known of the others by then stands.
    """
    numbers = starts(study, before).values()
    if not numbers:
        return frozenset()
    first = min(numbers)
    return frozenset(
        it.name for it in racers(study) if not rows_of(study, it.name, RACE, before=first)
    )


def begun(study: Study, plan: Plan, before: int | None = None) -> tuple[Arm, ...]:
    """Those whose fresh runs have begun, and are not through."""
    there = starts(study, before)
    through = had_fresh_runs(study, plan, before)
    return tuple(it for it in racers(study) if it.name in there and it.name not in through)


def had_fresh_runs(study: Study, plan: Plan, before: int | None = None) -> frozenset[str]:
    """Arms that had all fresh runs that were due to them. They get no more, whatever these say."""
    there = starts(study, before)
    return frozenset(
        name
        for name, start in there.items()
        if rows_of(study, name, CONFIRM, before=before)
        >= rows_due(study, plan, name, sum(it == start for it in there.values()), start)
    )


def rows_due(
    study: Study, plan: Plan, name: str | None, arms: int = 1, before: int | None = None
) -> int:
    """Fresh rows for an arm, one of so many that are confirmed together: as asked, or more.

    More where the race's noise says that what the arm seems to gain would be missed too often: as
    many as show it in nine of ten studies, up to the cap.
    """
    asked = plan.confirm_rows
    if not asked:
        return 0
    estimate = None if name is None else raced(study, plan, before).get(name)
    if estimate is None or estimate.rows < SCREEN_ROWS:
        return asked
    return max(asked, _rows_needed(study, plan, estimate, arms, before))


def _rows_needed(
    study: Study, plan: Plan, estimate: Estimate, arms: int, before: int | None
) -> int:
    from counterpoint.tune.statistics.power import rows_needed

    noise = noise_of(observations(study, RACE, before), plan.rule.indifferent)
    if isinstance(noise.sigma, Unknown) or estimate.gain <= 0:
        return 0
    once = replace(plan.rule, looks=(), arms=arms)
    needed = rows_needed(noise, estimate.gain, once, most=plan.rule.cap)
    return plan.rule.cap if isinstance(needed, Unknown) else needed


def target_reached(study: Study, plan: Plan) -> bool:
    """Whether the best one is good enough: by its fresh runs, or as far as the race tells.

    An arm whose fresh runs fell short counts no more, so the race goes on.
    """
    target = plan.target_gain
    if target is None:
        return False
    if any(it.gain >= target for it in shown(study, plan)):
        return True
    told = raced(study, plan)
    through = had_fresh_runs(study, plan)
    best = next((it for it in finalists(study, plan) if it.name not in through), None)
    if best is None:
        return False
    return told[best.name].verdict is Verdict.FASTER and told[best.name].gain >= target


def falls_short(study: Study, plan: Plan, before: int | None = None) -> bool:
    """Whether the race was ended for the target, and fresh runs did not show that."""
    target = plan.target_gain
    if target is None or begun(study, plan, before) or not had_fresh_runs(study, plan, before):
        return False
    return all(it.gain < target for it in shown(study, plan, before))


def shown(study: Study, plan: Plan, before: int | None = None) -> tuple[Estimate, ...]:
    """What is faster by its fresh runs, once these are through."""
    through = had_fresh_runs(study, plan, before)
    if not through:
        return ()
    return tuple(
        it
        for it in confirmed(study, plan, before).values()
        if it.arm in through and it.verdict is Verdict.FASTER
    )
