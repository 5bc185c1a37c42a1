"""Space: dimensions with their choices, the constraints between them, and the fixed settings."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from counterpoint.core import UsageError
from counterpoint.flags.check.examination import check
from counterpoint.flags.lint import Severity
from counterpoint.flags.parsed import Location, Occurrence, ParsedSource
from counterpoint.flags.settings import Channel, Settings
from counterpoint.flags.text import Pairs
from counterpoint.tune.arm import BASE, Acts, Arm, ArmChange, ArmOrigin, merged
from counterpoint.tune.space.values import nearest

_NONE: Mapping[str, str] = MappingProxyType({})
ANYTHING: Final = "on"
"""In `needs`: any choice of that dimension."""
_CRASHES: Final = frozenset({"FLAG405"})
"""Rules that only warn, because some programs survive; a search skips what may crash."""
_PLACE: Final = Location("arm")


@dataclass(frozen=True, slots=True, kw_only=True)
class Dimension:
    """One thing that can be set, with the choices worth trying besides the base's own.

    Args:
        name: A short human-readable name: `all-gather threshold`.
        choices: The possible choices; leaving the dimension unchanged is always possible.
        acts: Where its choices take effect.
        why: Why it may matter for this program.
        source: Where it comes from: a recipe, the program, a file of the user's.
        needs: Required choices of other dimensions, by dimension; `on` for any choice.
        excludes: Dimensions that it cannot be combined with.
    """

    name: str
    choices: tuple[ArmChange, ...]
    acts: Acts = Acts.SCHEDULE
    why: str = ""
    source: str = ""
    needs: Mapping[str, str] = field(default_factory=lambda: _NONE)
    excludes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A dimension or an arm that is not tried, and why; `named` means that the user wants it."""

    name: str
    why: str
    named: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """All that may be tried on top of the base.

    `version` is jaxlib's and `chip` as `hardware` names it; None if unknown. `notes` are remarks
    for the user about the space as a whole. `recorded` are arms whose names an earlier version
    shortened in the journal: they keep them, so that nothing is tried a second time.
    """

    base: Settings
    dimensions: tuple[Dimension, ...] = ()
    seeds: tuple[Arm, ...] = ()  # recipes and manual arms: tried first
    left_out: tuple[LeftOut, ...] = ()
    version: str | None = None
    chip: str | None = None
    notes: tuple[str, ...] = ()
    recorded: tuple[Arm, ...] = ()


def outcome(base: Settings, changes: Sequence[ArmChange]) -> Hashable:
    """Return a key of what changes do to the base: equal if the results are indistinguishable."""
    settings = merged(base, tuple(changes))
    return (
        frozenset(settings.flags.items()),
        frozenset(settings.variables.items()),
        frozenset(dict(settings.options).items()),
        next((change.per for change in reversed(changes) if change.per is not None), None),
        any(change.profile for change in changes),
        frozenset(change.words for change in changes if change.words),
    )


def distinct(base: Settings, arms: Iterable[Arm]) -> Iterator[Arm]:
    """Yield the first arm of each outcome; running the others would be redundant."""
    seen: set[Hashable] = set()
    for arm in arms:
        key = _of_arm(base, arm)
        if key not in seen:
            seen.add(key)
            yield arm


def same_as(base: Settings, arm: Arm, others: Iterable[Arm]) -> Arm | None:
    """Return the first of the others with the same outcome as the arm, if any."""
    key = _of_arm(base, arm)
    return next((other for other in others if _of_arm(base, other) == key), None)


def _of_arm(base: Settings, arm: Arm) -> Hashable:
    """Return the outcome of an arm: from its changes, or from its settings if it has none."""
    return outcome(base, arm.changes) if arm.changes else outcome(arm.settings, ())


def dimension_of(space: Space, name: str) -> Dimension:
    """Return the dimension of that name; raise a UsageError if there is none."""
    for dimension in space.dimensions:
        if dimension.name == name:
            return dimension
    names = [dimension.name for dimension in space.dimensions]
    near = nearest(name, names)
    raise UsageError(
        f"the space has no dimension {name}",
        why=f"it has {', '.join(names)}" if names else "it has none",
        next=f"did you mean {near}?" if near else None,
    )


def change_of(space: Space, name: str, choice: str) -> ArmChange:
    """Return a choice of a dimension; raise a UsageError if there is none."""
    dimension = dimension_of(space, name)
    for change in dimension.choices:
        if change.choice == choice:
            return change
    names = [change.choice for change in dimension.choices]
    near = nearest(choice, names)
    raise UsageError(
        f"the dimension {name} has no choice {choice}",
        why=f"its choices are {', '.join(names)}",
        next=f"did you mean {name} {near}?" if near else None,
    )


def changes_at(space: Space, point: Mapping[str, str]) -> tuple[ArmChange, ...]:
    """Return what a point changes, in the order of the dimensions."""
    for name in point:
        dimension_of(space, name)
    return tuple(
        change_of(space, dimension.name, point[dimension.name])
        for dimension in space.dimensions
        if dimension.name in point
    )


def why_not(space: Space, point: Mapping[str, str]) -> str | None:
    """Return why these choices cannot be combined; None if they can."""
    changes = changes_at(space, point)
    for dimension in space.dimensions:
        if dimension.name not in point:
            continue
        for needed, choice in dimension.needs.items():
            taken = point.get(needed)
            if taken is None or choice not in (ANYTHING, taken):
                requirement = needed if choice == ANYTHING else f"{needed} {choice}"
                return f"{dimension.name} needs {requirement}"
        for other in dimension.excludes:
            if other in point:
                return f"{dimension.name} excludes {other}"
    fault = new_fault(space.base, merged(space.base, changes), space.version, space.chip)
    return fault or None


def arm_of(space: Space, point: Mapping[str, str], origin: ArmOrigin) -> Arm:
    """Make the arm of a point; raise a UsageError if `why_not` rejects it."""
    why = why_not(space, point)
    if why is not None:
        raise UsageError(f"{_joined(point)}: {why}", next="remove one of them")
    return arm_with(space, changes_at(space, point), origin)


def arm_with(space: Space, changes: Sequence[ArmChange], origin: ArmOrigin) -> Arm:
    """Make the base with these changes, in order, named by all of them: `--arm` reads it again."""
    if not changes:
        return Arm(name=BASE, settings=space.base, origin=ArmOrigin.BASE)
    whole = " + ".join(str(change) for change in changes)
    made = Arm(
        name=f"{whole} (2)" if any(seed.name == whole for seed in space.seeds) else whole,
        settings=merged(space.base, tuple(changes)),
        changes=tuple(changes),
        origin=origin,
    )
    known = same_as(space.base, made, space.recorded)
    return made if known is None else replace(made, name=known.name)


def point_of(space: Space, arm: Arm) -> Mapping[str, str] | None:
    """Return the point of an arm; None if it has a change that is not a choice of a dimension."""
    found: dict[str, str] = {}
    for change in arm.changes:
        known = next(
            (dimension for dimension in space.dimensions if dimension.name == change.dimension),
            None,
        )
        if known is None or change not in known.choices or change.dimension in found:
            return None
        found[change.dimension] = change.choice
    return found if arm.is_base or found else None


def single_points(space: Space) -> Iterator[Mapping[str, str]]:
    """Yield each valid choice alone, with the first choices of what it needs.

    Of several with the same outcome on this base, only the first is yielded.
    """
    seen = {outcome(space.base, ())}
    for dimension in space.dimensions:
        for change in dimension.choices:
            point = completed(space, {dimension.name: change.choice})
            if point is None or why_not(space, point) is not None:
                continue
            key = outcome(space.base, changes_at(space, point))
            if key not in seen:
                seen.add(key)
                yield point


def completed(space: Space, point: Mapping[str, str]) -> Mapping[str, str] | None:
    """Add the first choices of all that the point needs; None if one is not available."""
    found = dict(point)
    for _ in space.dimensions:
        missing = [
            (needed, choice)
            for dimension in space.dimensions
            if dimension.name in found
            for needed, choice in dimension.needs.items()
            if needed not in found
        ]
        if not missing:
            return found
        for needed, choice in missing:
            needed_dimension = next(
                (dimension for dimension in space.dimensions if dimension.name == needed), None
            )
            if needed_dimension is None:
                return None
            found[needed] = needed_dimension.choices[0].choice if choice == ANYTHING else choice
    return found


def _joined(point: Mapping[str, str]) -> str:
    return " + ".join(f"{name} {choice}" for name, choice in point.items())


def new_fault(base: Settings, settings: Settings, version: str | None, chip: str | None) -> str:
    """Return the first fault of the settings that the base lacks, or an empty string."""
    old = {(code, name) for code, name, _ in _faults(base, version, chip)}
    found = (
        f"{name}: {message}"
        for code, name, message in _faults(settings, version, chip)
        if (code, name) not in old
    )
    return next(found, "")


@lru_cache(maxsize=4096)
def _faults(
    settings: Settings, version: str | None, chip: str | None
) -> tuple[tuple[str, str, str], ...]:
    given = (
        *_given(settings.xla, Channel.XLA_FLAGS, "--"),
        *_given(settings.env, Channel.ENVIRONMENT, ""),
        *_given(settings.options, Channel.COMPILER_OPTIONS, ""),
    )
    written = ParsedSource(where=str(_PLACE), form="flags", given=given)
    return tuple(
        (remark.code, remark.name, remark.message)
        for remark in check(written, version=version, chip=chip)
        if remark.severity is Severity.ERROR or remark.code in _CRASHES
    )


def _given(pairs: Pairs, channel: Channel, dashes: str) -> Iterator[Occurrence]:
    for name, value in pairs:
        text = f"{dashes}{name}={value}"
        yield Occurrence(channel=channel, name=name, value=value, place=_PLACE, text=text)
