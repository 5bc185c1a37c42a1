"""Candidates in order, and those that are tied with the best.

Two schedules of one program are priced by one model: if its GEMMs are too cheap, they are so for
both, and the difference between the two steps hardly changes. So a difference has a range of its
own, in which errors of one family of prices move both steps at once. Two candidates are tied if
that range reaches into the indifference band.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, Protocol

from counterpoint.core import Range
from counterpoint.cost import PriceFamily
from counterpoint.flags import Settings
from counterpoint.hlo import Program
from counterpoint.workflow.forecast.prediction import RankedCandidate

INDIFFERENCE: Final = 0.015
"""Share of the best step: a smaller difference is no reason to prefer one to the other."""


class UncertainStep(Protocol):
    """A predicted step with the effect of price errors per family: usually a Simulation.

    `reach_s` are the seconds by which the step is shorter and longer with all prices of a family at
    the ends of their ranges.
    """

    @property
    def step_s(self) -> float: ...

    @property
    def reach_s(self) -> Mapping[PriceFamily, tuple[float, float]]: ...


def difference(one: UncertainStep, other: UncertainStep) -> Range:
    """Return the range of the seconds by which the first step is longer; shared errors cancel."""
    middle = one.step_s - other.step_s
    below = above = 0.0
    for family in {*one.reach_s, *other.reach_s}:
        mine, theirs = one.reach_s.get(family), other.reach_s.get(family)
        moves = [(mine[end] if mine else 0.0) - (theirs[end] if theirs else 0.0) for end in (0, 1)]
        below += min(*moves, 0.0) ** 2
        above += max(*moves, 0.0) ** 2
    return Range(middle - math.sqrt(below), middle + math.sqrt(above))


def same_schedule(one: Program, other: Program) -> bool:
    """Return True if two compiles have the same instructions in the same order."""
    return one is other or (
        one.entry == other.entry
        and one.computations == other.computations
        and [instruction.name for instruction in one.instructions if instruction.is_sync]
        == [instruction.name for instruction in other.instructions if instruction.is_sync]
    )


def ranked(standings: Sequence[RankedCandidate]) -> tuple[RankedCandidate, ...]:
    """Sort the best first, then those that do not fit into memory, then those with errors."""
    order = sorted(standings, key=_place)
    best = order[0].forecast if order else None
    if best is None:
        return tuple(order)
    return tuple(_compared(standing, order) for standing in order)


def simplest(standings: Sequence[RankedCandidate]) -> RankedCandidate | None:
    """Return the one with the fewest changes to the base among those tied with the best.

    None if nothing is tied with it.
    """
    tied = [standing for standing in standings if standing.tied]
    base = next((standing.settings for standing in standings if standing.is_base), Settings())
    return (
        min(tied, key=lambda standing: _changed(base, standing.settings)) if len(tied) > 1 else None
    )


def _changed(base: Settings, settings: Settings) -> int:
    """Count the flags, variables and options that differ from the base's."""
    mine, theirs = (
        {**side.flags, **side.variables, **dict(side.options)} for side in (base, settings)
    )
    return sum(mine.get(name) != theirs.get(name) for name in {**mine, **theirs})


def _place(one: RankedCandidate) -> tuple[int, float, bool]:
    if one.forecast is None:
        return 2, 0.0, False
    return int(one.forecast.memory.fits is False), one.forecast.step_s, not one.is_base


def _compared(one: RankedCandidate, order: Sequence[RankedCandidate]) -> RankedCandidate:
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


def _same_as(one: RankedCandidate, order: Sequence[RankedCandidate]) -> str | None:
    """Return the base if it has the same schedule, or else the first before it that has."""
    if one.is_base or one.forecast is None:
        return None
    before = [standing for standing in order if standing.is_base] + list(order[: order.index(one)])
    for other in before:
        if other.forecast and same_schedule(one.forecast.program, other.forecast.program):
            return other.name
    return None
