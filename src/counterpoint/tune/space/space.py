"""Space: dimensions with their choices, what keeps them apart, and what the user fixed."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from counterpoint.core import UsageError
from counterpoint.flags import Settings
from counterpoint.tune.arm import BASE, Acts, Arm, Change, Origin, merged
from counterpoint.tune.space.faults import new_fault
from counterpoint.tune.space.place import nearest

_NONE: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Dimension:
    """One thing that can be set, with the choices worth a try beside the base's own.

    Args:
        name: A short word for people: `all-gather threshold`.
        choices: What may be chosen; leaving the dimension alone is always possible, too.
        acts: Where its choices show.
        why: Why it may matter for this program.
        source: Who says so: a recipe, the program, a file of the user's.
        needs: Only with these choices of other dimensions: by dimension, `on` for any choice.
        excludes: Not together with these dimensions.
    """

    name: str
    choices: tuple[Change, ...]
    acts: Acts = Acts.SCHEDULE
    why: str = ""
    source: str = ""
    needs: Mapping[str, str] = field(default_factory=lambda: _NONE)
    excludes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A dimension or an arm that is not tried, and why; `named`: the user asked for that arm."""

    name: str
    why: str
    named: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """All that may be tried on top of the base.

    `version` is jaxlib's and `chip` as hardware names it; None where nobody knows. `notes` are what
    the user should know of the space as a whole.
    """

    base: Settings
    dimensions: tuple[Dimension, ...] = ()
    seeds: tuple[Arm, ...] = ()  # recipes, and arms by hand: tried first
    left_out: tuple[LeftOut, ...] = ()
    version: str | None = None
    chip: str | None = None
    notes: tuple[str, ...] = ()


def outcome(base: Settings, changes: Sequence[Change]) -> Hashable:
    """What changes come to on top of the base: equal where nothing tells one from the other."""
    settings = merged(base, tuple(changes))
    return (
        frozenset(settings.flags.items()),
        frozenset(settings.variables.items()),
        frozenset(dict(settings.options).items()),
        next((it.per for it in reversed(changes) if it.per is not None), None),
        any(it.profile for it in changes),
    )


def distinct(base: Settings, arms: Iterable[Arm]) -> Iterator[Arm]:
    """The first of each; the others would only be run for nothing."""
    seen: set[Hashable] = set()
    for arm in arms:
        what = _of_arm(base, arm)
        if what not in seen:
            seen.add(what)
            yield arm


def same_as(base: Settings, arm: Arm, others: Iterable[Arm]) -> Arm | None:
    """The one that comes to the same, if there is one."""
    what = _of_arm(base, arm)
    return next((it for it in others if _of_arm(base, it) == what), None)


def _of_arm(base: Settings, arm: Arm) -> Hashable:
    """Changes are in the words of the space; an arm without any has its settings alone."""
    return outcome(base, arm.changes) if arm.changes else outcome(arm.settings, ())


ANYTHING: Final = "on"
"""Of needs: any choice of that dimension."""

_LONGEST: Final = 60


def choices_of(dimension: Dimension) -> tuple[str | None, ...]:
    """Leaving it alone (None), and its choices."""
    return (None, *(it.choice for it in dimension.choices))


def dimension_of(space: Space, name: str) -> Dimension:
    """The dimension of that name; a UsageError where there is none."""
    for it in space.dimensions:
        if it.name == name:
            return it
    names = [it.name for it in space.dimensions]
    near = nearest(name, names)
    raise UsageError(
        f"{name}: no dimension of this space",
        why=f"it has {', '.join(names)}" if names else "it has none",
        next=f"did you mean {near}?" if near else None,
    )


def change_of(space: Space, name: str, choice: str) -> Change:
    """A choice of a dimension; a UsageError where there is none such."""
    dimension = dimension_of(space, name)
    for it in dimension.choices:
        if it.choice == choice:
            return it
    names = [it.choice for it in dimension.choices]
    near = nearest(choice, names)
    raise UsageError(
        f"{name} {choice}: no choice of that dimension",
        why=f"its choices are {', '.join(names)}",
        next=f"did you mean {name} {near}?" if near else None,
    )


def changes_at(space: Space, point: Mapping[str, str]) -> tuple[Change, ...]:
    """What a point changes, in the order of the dimensions."""
    for name in point:
        dimension_of(space, name)
    return tuple(
        change_of(space, it.name, point[it.name]) for it in space.dimensions if it.name in point
    )


def why_not(space: Space, point: Mapping[str, str]) -> str | None:
    """Why these choices can't be together; None where they can."""
    changes = changes_at(space, point)
    for it in space.dimensions:
        if it.name not in point:
            continue
        for needed, choice in it.needs.items():
            taken = point.get(needed)
            if taken is None or choice not in (ANYTHING, taken):
                what = needed if choice == ANYTHING else f"{needed} {choice}"
                return f"{it.name} needs {what}"
        for other in it.excludes:
            if other in point:
                return f"{it.name} excludes {other}"
    told = new_fault(space.base, merged(space.base, changes), space.version, space.chip)
    return told or None


def arm_of(space: Space, point: Mapping[str, str], origin: Origin) -> Arm:
    """The base with these choices. Of a point that `why_not` speaks against there is none."""
    why = why_not(space, point)
    if why is not None:
        raise UsageError(f"{_joined(point)}: {why}", next="leave one of them alone")
    return arm_with(space, changes_at(space, point), origin)


def arm_with(space: Space, changes: Sequence[Change], origin: Origin) -> Arm:
    """The base with these changes, in order; a name for them that no other changes have."""
    if not changes:
        return Arm(name=BASE, settings=space.base, origin=Origin.BASE)
    return Arm(
        name=_named(space, changes),
        settings=merged(space.base, tuple(changes)),
        changes=tuple(changes),
        origin=origin,
    )


def point_of(space: Space, arm: Arm) -> Mapping[str, str] | None:
    """The point that an arm is; None where it changes what is no choice of a dimension."""
    found: dict[str, str] = {}
    for it in arm.changes:
        known = next((one for one in space.dimensions if one.name == it.dimension), None)
        if known is None or it not in known.choices or it.dimension in found:
            return None
        found[it.dimension] = it.choice
    return found if arm.is_base or found else None


def single_points(space: Space) -> Iterator[Mapping[str, str]]:
    """Each choice alone, with the first choices of what it needs; those that can be.

    Of several that come to the same on this base, the first.
    """
    seen = {outcome(space.base, ())}
    for dimension in space.dimensions:
        for change in dimension.choices:
            point = completed(space, {dimension.name: change.choice})
            if point is None or why_not(space, point) is not None:
                continue
            what = outcome(space.base, changes_at(space, point))
            if what not in seen:
                seen.add(what)
                yield point


def completed(space: Space, point: Mapping[str, str]) -> Mapping[str, str] | None:
    """With the first choices of all that it needs; None where that is not to be had."""
    found = dict(point)
    for _ in space.dimensions:
        missing = [
            (needed, choice)
            for it in space.dimensions
            if it.name in found
            for needed, choice in it.needs.items()
            if needed not in found
        ]
        if not missing:
            return found
        for needed, choice in missing:
            other = next((it for it in space.dimensions if it.name == needed), None)
            if other is None:
                return None
            found[needed] = other.choices[0].choice if choice == ANYTHING else choice
    return found


def _named(space: Space, changes: Sequence[Change]) -> str:
    """All of them, while that can be read; else the first ones, and a mark of all."""
    whole = " + ".join(str(it) for it in changes)
    taken = {it.name for it in space.seeds}
    if len(whole) <= _LONGEST and whole not in taken:
        return whole
    mark = hashlib.sha256(whole.encode()).hexdigest()[:6]
    first = " + ".join(str(it) for it in changes[:2])
    rest = len(changes) - 2
    return f"{first} + {rest} more #{mark}" if rest > 0 else f"{first} #{mark}"


def _joined(point: Mapping[str, str]) -> str:
    return " + ".join(f"{name} {choice}" for name, choice in point.items())
