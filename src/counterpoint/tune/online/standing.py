"""Standing: who is in, and what the measurements say of each.

All of it follows from the Study alone, so that a study that goes on finds the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from typing import Final

from counterpoint.core.basis import Range
from counterpoint.tune.arm import BASE, Arm, Origin
from counterpoint.tune.online.rows import ABLATE, CONFIRM, RACE, observations
from counterpoint.tune.plan import Plan
from counterpoint.tune.statistics.estimate import Estimate, Noise, Observation, Rule
from counterpoint.tune.study.study import Study

SAME_PROGRAM: Final = "same program"


def racers(study: Study) -> tuple[Arm, ...]:
    """The arms that are still in, in the order in which they came; not the base."""
    return tuple(
        it
        for it in study.arms
        if not it.is_base and it.origin is not Origin.ABLATION and it.name not in study.dropped
    )


def raced(study: Study, plan: Plan, before: int | None = None) -> dict[str, Estimate]:
    """What the race says of each arm; with `before`, as it was when that row began."""
    found = observations(study, RACE, before)
    kept = _without(found, study)
    return _estimates(kept, shared(plan.rule, kept))


def raced_until_out(study: Study, plan: Plan, name: str) -> Estimate | None:
    """What the race said of an arm when it was dropped.

    Runs of others that came later say more of the noise, and would tell another story than the one
    that decided.
    """
    gone = tuple(study.dropped)
    earlier = {it: study.dropped[it] for it in gone[: gone.index(name)]}
    then = replace(study, trials=study.trials[: study.out[name]], dropped=earlier)
    return raced(then, plan).get(name)


def confirmed(study: Study, plan: Plan, before: int | None = None) -> dict[str, Estimate]:
    """What the fresh runs alone say; nothing of the race is in it."""
    return _fresh(plan.rule, observations(study, CONFIRM, before), BASE)


def ablated(study: Study, plan: Plan, winner: str) -> dict[str, Estimate]:
    """Arms that are the winner without a change, against the winner."""
    return _fresh(plan.rule, observations(study, ABLATE), winner)


def shared(rule: Rule, found: Iterable[Observation]) -> Rule:
    """The rule for as many arms as were measured: also those that are out have had their chance."""
    return replace(rule, arms=max(len({it.arm for it in found} - {BASE}), 1))


def overlap(one: Estimate, other: Estimate) -> bool:
    """Whether they can't be told apart; so also where a range is not known."""
    if not isinstance(one.range, Range) or not isinstance(other.range, Range):
        return True
    return one.range.low <= other.range.high and other.range.low <= one.range.high


def _without(found: tuple[Observation, ...], study: Study) -> tuple[Observation, ...]:
    """Arms with the base's program are no test of anything: they don't share the confidence."""
    same = {name for name, it in study.dropped.items() if it.kind == SAME_PROGRAM}
    return tuple(it for it in found if it.arm not in same)


def _estimates(found: tuple[Observation, ...], rule: Rule) -> dict[str, Estimate]:
    return {it.arm: it for it in _raced(found, rule)} if _compares(found, BASE) else {}


def _fresh(rule: Rule, found: tuple[Observation, ...], base: str) -> dict[str, Estimate]:
    return {it.arm: it for it in _once(found, rule, base)} if _compares(found, base) else {}


def _compares(found: tuple[Observation, ...], base: str) -> bool:
    names = {it.arm for it in found}
    return base in names and len(names) > 1


@lru_cache(maxsize=64)
def _raced(found: tuple[Observation, ...], rule: Rule) -> tuple[Estimate, ...]:
    from counterpoint.tune.statistics.fit import estimates

    return estimates(found, rule)


@lru_cache(maxsize=16)
def noise_of(found: tuple[Observation, ...], indifferent: float) -> Noise:
    """By how much identical runs differ."""
    from counterpoint.tune.statistics.fit import noise

    return noise(found, indifferent=indifferent)


@lru_cache(maxsize=16)
def _once(found: tuple[Observation, ...], rule: Rule, base: str) -> tuple[Estimate, ...]:
    from counterpoint.tune.statistics.fit import confirmed as once

    return once(found, rule, base)
