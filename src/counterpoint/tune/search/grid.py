"""Grid: the points of a Space that the compiler can tell apart, and the steps between them.

A point holds one choice for some of the dimensions; the others are as in the base. Equivalent arms
share one point: choices without effect, because something they need is missing, are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import zip_longest
from typing import TypeAlias

from counterpoint.tune.arm import Acts, Arm, ArmChange, ArmOrigin
from counterpoint.tune.space.space import (
    ANYTHING,
    Dimension,
    Space,
    arm_of,
    completed,
    point_of,
    why_not,
)

Point: TypeAlias = tuple[tuple[str, str], ...]
"""Dimensions with their choices, in the space's order."""


@dataclass(frozen=True)
class Grid:
    """A space, restricted to choices that show in the scheduled program."""

    space: Space

    @cached_property
    def dimensions(self) -> tuple[Dimension, ...]:
        """The dimensions with choices that act on the schedule, and only those choices."""
        found: list[Dimension] = []
        for dimension in self.space.dimensions:
            choices = tuple(choice for choice in dimension.choices if choice.acts is Acts.SCHEDULE)
            if choices:
                found.append(replace(dimension, choices=choices))
        return tuple(found)

    @cached_property
    def searched(self) -> tuple[Dimension, ...]:
        """The dimensions without PGLE: a profile belongs to one program and is added last."""
        found: list[Dimension] = []
        for dimension in self.dimensions:
            choices = tuple(choice for choice in dimension.choices if not choice.profile)
            if choices:
                found.append(replace(dimension, choices=choices))
        return tuple(found)

    @cached_property
    def profiled(self) -> tuple[tuple[str, str], ...]:
        """Dimension and choice of each choice that needs a profile first."""
        return tuple(
            (dimension.name, choice.choice)
            for dimension in self.dimensions
            for choice in dimension.choices
            if choice.profile
        )

    @cached_property
    def size(self) -> int:
        """Number of points, ignoring exclusions."""
        size = 1
        for dimension in self.searched:
            size *= 1 + len(dimension.choices)
        return size

    def canonical(self, chosen: Mapping[str, str]) -> Point:
        """Return the point of these choices, less those with a missing requirement or a rival."""
        choices = {
            dimension.name: chosen[dimension.name]
            for dimension in self.dimensions
            if dimension.name in chosen
        }
        for name in list(choices):
            rivals = self._rivals[name]
            if any(
                rival in rivals for rival in choices if rival != name and self._before(rival, name)
            ):
                del choices[name]
        lacking = [name for name in choices if self._lacks(name, choices)]
        while lacking:
            for name in lacking:
                del choices[name]
            lacking = [name for name in choices if self._lacks(name, choices)]
        return tuple(choices.items())

    def alone(self, name: str, choice: str) -> Point | None:
        """Return that choice with only what it needs; None if that is impossible."""
        found = completed(self.space, {name: choice})
        point = self.canonical(found) if found is not None else ()
        return point if (name, choice) in point else None

    def singles(self) -> Iterator[Point]:
        """Yield each choice alone: the first of all dimensions, then the second, and so on."""
        rows = zip_longest(
            *(
                [(dimension.name, choice.choice) for choice in dimension.choices]
                for dimension in self.searched
            )
        )
        for row in rows:
            for pair in row:
                point = self.alone(*pair) if pair is not None else None
                if point is not None:
                    yield point

    def without(self, point: Point, name: str) -> Point:
        """Return the point without one dimension and whatever depends on it."""
        return self.canonical({at: choice for at, choice in point if at != name})

    def neighbors(self, point: Point) -> Iterator[Point]:
        """Yield all points that differ in one dimension."""
        chosen = dict(point)
        for dimension in self.searched:
            for choice in dimension.choices:
                if chosen.get(dimension.name) != choice.choice:
                    yield self.canonical({**chosen, dimension.name: choice.choice})
            if dimension.name in chosen:
                yield self.without(point, dimension.name)

    def point_of(self, arm: Arm) -> Point | None:
        """Return an arm's point; None if it has anything outside this grid."""
        found = point_of(self.space, arm)
        point = self.canonical(found) if found else ()
        return point if found and dict(point) == found else None

    def why_not(self, point: Point) -> str | None:
        """Return why these choices can't be combined; None if they can."""
        return why_not(self.space, dict(point))

    def arm(self, point: Point, origin: ArmOrigin) -> Arm:
        """Return the base with these choices."""
        return arm_of(self.space, dict(point), origin)

    @cached_property
    def _by_name(self) -> dict[str, Dimension]:
        return {dimension.name: dimension for dimension in self.dimensions}

    @cached_property
    def _places(self) -> dict[str, int]:
        return {dimension.name: place for place, dimension in enumerate(self.dimensions)}

    @cached_property
    def _rivals(self) -> dict[str, frozenset[str]]:
        return {
            dimension.name: frozenset(dimension.excludes)
            | {rival.name for rival in self.dimensions if dimension.name in rival.excludes}
            for dimension in self.dimensions
        }

    def _before(self, one: str, other: str) -> bool:
        return self._places[one] < self._places[other]

    def _lacks(self, name: str, kept: Mapping[str, str]) -> bool:
        needs = self._by_name[name].needs.items()
        return any(
            needed not in kept or wanted not in (ANYTHING, kept[needed]) for needed, wanted in needs
        )


def with_seed_choices(space: Space) -> Space:
    """Return the space with the seeds' changes to the schedule added as choices.

    A recipe may owe its gain to a setting that no dimension has, or to another value of one. Such
    settings are worth trying with the recipe's other changes, and without them.
    """
    dimensions = {dimension.name: dimension for dimension in space.dimensions}
    for arm in space.seeds:
        for change in arm.changes:
            if change.acts is Acts.SCHEDULE:
                dimensions[change.dimension] = _with(
                    dimensions.get(change.dimension), change, arm.name
                )
    return replace(space, dimensions=tuple(dimensions.values()))


def _with(dimension: Dimension | None, change: ArmChange, source: str) -> Dimension:
    if dimension is None:
        return Dimension(
            name=change.dimension,
            choices=(change,),
            acts=change.acts,
            why=f"{source} changes it",
            source=source,
        )
    known = any(
        choice.choice == change.choice or choice.settings == change.settings
        for choice in dimension.choices
    )
    return dimension if known else replace(dimension, choices=(*dimension.choices, change))
