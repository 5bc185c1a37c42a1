"""Equals: arms that come to the same settings, whatever they are called."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence

from counterpoint.flags import Settings
from counterpoint.tune.arm import Arm, Change, merged


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
