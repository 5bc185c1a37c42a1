"""Candidates in order, and which of them nobody can tell from the best.

Two schedules of one program are priced by one model: if its GEMMs are too cheap, they are so for
both, and the difference between the two steps hardly notices. So a difference has a range of its
own, in which errors of one family of prices move both steps at once. Two candidates are tied where
that range reaches within the indifference band.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, Protocol

from counterpoint.core import Range
from counterpoint.cost import Family
from counterpoint.flags import Settings
from counterpoint.hlo import Program
from counterpoint.workflow.forecast.prediction import Standing

INDIFFERENCE: Final = 0.015
"""Of the best step: less than this is no reason to prefer one to the other."""


class Reaching(Protocol):
    """A predicted step, and what errors of each family of prices do to it: a Simulation, as a rule.

    `reach_s` are the seconds by which the step is shorter and longer with all prices of a family at
    the ends of their ranges.
    """

    @property
    def step_s(self) -> float: ...

    @property
    def reach_s(self) -> Mapping[Family, tuple[float, float]]: ...


def difference(one: Reaching, other: Reaching) -> Range:
    """By how many seconds the first step is longer: its range, with shared errors cancelled."""
    middle = one.step_s - other.step_s
    below = above = 0.0
    for family in {*one.reach_s, *other.reach_s}:
        mine, theirs = one.reach_s.get(family), other.reach_s.get(family)
        moves = [(mine[end] if mine else 0.0) - (theirs[end] if theirs else 0.0) for end in (0, 1)]
        below += min(*moves, 0.0) ** 2
        above += max(*moves, 0.0) ** 2
    return Range(middle - math.sqrt(below), middle + math.sqrt(above))


def same_schedule(one: Program, other: Program) -> bool:
    """Whether two compiles came to the same instructions in the same order."""
    return one is other or (
        one.entry == other.entry
        and one.computations == other.computations
        and [it.name for it in one.instructions if it.is_sync]
        == [it.name for it in other.instructions if it.is_sync]
    )


def ranked(standings: Sequence[Standing]) -> tuple[Standing, ...]:
    """The best first; those that do not fit into memory behind, those with errors last."""
    order = sorted(standings, key=_place)
    best = order[0].forecast if order else None
    if best is None:
        return tuple(order)
    return tuple(_compared(one, order) for one in order)


def simplest(standings: Sequence[Standing]) -> Standing | None:
    """Of those that are tied with the best, the one that changes least of the base.

    None where nothing is tied with it.
    """
    tied = [it for it in standings if it.tied]
    base = next((it.settings for it in standings if it.is_base), Settings())
    return min(tied, key=lambda it: _changed(base, it.settings)) if len(tied) > 1 else None


def _changed(base: Settings, settings: Settings) -> int:
    """How many flags, variables and options are other than the base's."""
    mine, theirs = ({**it.flags, **it.variables, **dict(it.options)} for it in (base, settings))
    return sum(mine.get(name) != theirs.get(name) for name in {**mine, **theirs})


def _place(one: Standing) -> tuple[int, float, bool]:
    if one.forecast is None:
        return 2, 0.0, False
    return int(one.forecast.memory.fits is False), one.forecast.step_s, not one.is_base


def _compared(one: Standing, order: Sequence[Standing]) -> Standing:
    best = order[0].forecast
    if one.forecast is None or best is None:
        return one
    reach = difference(one.forecast.simulation, best.simulation)
    share = Range(reach.low / best.step_s, reach.high / best.step_s)
    runs = (one.forecast.memory.fits is False) == (best.memory.fits is False)
    return replace(
        one,
        behind=one.forecast.step_s / best.step_s - 1,
        reach=share,
        tied=runs and share.low <= INDIFFERENCE and share.high >= -INDIFFERENCE,
        same_as=_same_as(one, order),
    )


def _same_as(one: Standing, order: Sequence[Standing]) -> str | None:
    """The base if it has the same schedule, else the first before it that has."""
    if one.is_base or one.forecast is None:
        return None
    before = [it for it in order if it.is_base] + list(order[: order.index(one)])
    for other in before:
        if other.forecast and same_schedule(one.forecast.program, other.forecast.program):
            return other.name
    return None
