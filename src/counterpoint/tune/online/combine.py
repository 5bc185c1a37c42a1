"""Combine: changes that are faster each, in one arm; and an arm without each of its own."""

from __future__ import annotations

import re

from counterpoint.flags import Settings
from counterpoint.tune.arm import Acts, Arm, Change, Origin, merged
from counterpoint.tune.space.faults import new_fault

COMBINED = "combined"


def combined(
    base: Settings, faster: tuple[Arm, ...], known: tuple[Arm, ...], version: str | None = None
) -> Arm | None:
    """All of them that change different things, the best one first; None where that is no new arm.

    Of two that set the same thing, that exclude each other, or that together are known to end a
    process, the better one takes part.
    """
    taken: list[Change] = []
    for it in faster:
        own = changes_of(it, base)
        if not own or any(_clash(one, other) for one in own for other in taken):
            continue
        both = merged(base, (*taken, *own))
        if taken and new_fault(base, both, version, None) and not _faulty(it, base, version):
            continue
        taken.extend(own)
    changes = tuple(taken)
    said = {_key(changes_of(it, base)) for it in known}
    if len(faster) < 2 or _key(changes) in said:
        return None
    names = {it.name for it in known}
    name = next(it for it in _names(COMBINED) if it not in names)
    return Arm(name=name, settings=merged(base, changes), changes=changes, origin=Origin.COMBINED)


def without_each(base: Settings, winner: Arm) -> tuple[Arm, ...]:
    """The winner without each of its changes; none where it has but one."""
    changes = changes_of(winner, base)
    if len(changes) < 2:
        return ()
    made: list[Arm] = []
    for at, it in enumerate(changes):
        left = (*changes[:at], *changes[at + 1 :])
        name = f"{winner.name}-without-{_plain(it.dimension)}"
        if any(name == other.name for other in made):
            name = f"{name}-{at + 1}"
        made.append(
            Arm(name=name, settings=merged(base, left), changes=left, origin=Origin.ABLATION)
        )
    return tuple(made)


def changes_of(arm: Arm, base: Settings) -> tuple[Change, ...]:
    """Its changes; for settings by hand, all that they set otherwise than the base, as one."""
    if arm.changes:
        return arm.changes
    own = Settings(
        xla=tuple(it for it in arm.settings.xla if it not in base.xla),
        env=tuple(it for it in arm.settings.env if it not in base.env),
        options=tuple(it for it in arm.settings.options if it not in base.options),
        layout=arm.settings.layout if arm.settings.layout != base.layout else None,
    )
    if own == Settings():
        return ()
    return (Change(dimension=arm.name, choice="on", settings=own, acts=Acts.RUNTIME),)


def left_out(winner: Arm, ablated: Arm, base: Settings) -> Change | None:
    """The change of the winner that the other arm does without."""
    left = _key(changes_of(ablated, base))
    gone = [it for it in changes_of(winner, base) if _one(it) not in left]
    return gone[0] if len(gone) == 1 else None


def _faulty(arm: Arm, base: Settings, version: str | None) -> bool:
    """An arm that runs in spite of what is known speaks for itself."""
    return bool(new_fault(base, arm.settings, version, None))


def _clash(one: Change, other: Change) -> bool:
    if one.dimension in other.excludes or other.dimension in one.excludes:
        return True
    return one.dimension == other.dimension or bool(_sets(one) & _sets(other))


def _sets(change: Change) -> frozenset[str]:
    it = change.settings
    placed = {"per"} if change.per is not None else set[str]()
    profiled = {"profile"} if change.profile else set[str]()
    return frozenset({name for name, _ in (*it.xla, *it.env, *it.options)} | placed | profiled)


def _key(changes: tuple[Change, ...]) -> frozenset[tuple[str, str]]:
    return frozenset(_one(it) for it in changes)


def _one(change: Change) -> tuple[str, str]:
    return change.dimension, change.choice


def _plain(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9.]+", "-", text).strip("-") or "it"


def _names(name: str) -> tuple[str, ...]:
    return (name, *(f"{name}-{it}" for it in range(2, 100)))
