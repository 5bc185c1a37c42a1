"""Combinations of arms that are each faster, and ablations of the winner."""

from __future__ import annotations

import re

from counterpoint.flags.settings import Settings
from counterpoint.tune.arm import Acts, Arm, ArmChange, ArmOrigin, merged
from counterpoint.tune.space.space import new_fault

COMBINED = "combined"


def combined(
    base: Settings, faster: tuple[Arm, ...], known: tuple[Arm, ...], version: str | None = None
) -> Arm | None:
    """Combine the arms that change different things, best first; None if that is no new arm.

    If two arms set the same thing, exclude each other, or are known to crash together, only the
    better one is included.
    """
    taken: list[ArmChange] = []
    for arm in faster:
        own = changes_of(arm, base)
        if not own or any(_clash(change, earlier) for change in own for earlier in taken):
            continue
        both = merged(base, (*taken, *own))
        if taken and new_fault(base, both, version, None) and not _faulty(arm, base, version):
            continue
        taken.extend(own)
    changes = tuple(taken)
    existing = {_key(changes_of(arm, base)) for arm in known}
    if len(faster) < 2 or _key(changes) in existing:
        return None
    names = {arm.name for arm in known}
    name = next(candidate for candidate in _names(COMBINED) if candidate not in names)
    return Arm(
        name=name, settings=merged(base, changes), changes=changes, origin=ArmOrigin.COMBINED
    )


def without_each(base: Settings, winner: Arm) -> tuple[Arm, ...]:
    """Return the winner without each of its changes; nothing if it has only one."""
    changes = changes_of(winner, base)
    if len(changes) < 2:
        return ()
    ablations: list[Arm] = []
    for index, change in enumerate(changes):
        left = (*changes[:index], *changes[index + 1 :])
        name = f"{winner.name}-without-{_plain(change.dimension)}"
        if any(name == ablation.name for ablation in ablations):
            name = f"{name}-{index + 1}"
        ablations.append(
            Arm(name=name, settings=merged(base, left), changes=left, origin=ArmOrigin.ABLATION)
        )
    return tuple(ablations)


def changes_of(arm: Arm, base: Settings) -> tuple[ArmChange, ...]:
    """Return an arm's changes; for settings by hand, all differences from the base as one."""
    if arm.changes:
        return arm.changes
    own = Settings(
        xla=tuple(pair for pair in arm.settings.xla if pair not in base.xla),
        env=tuple(pair for pair in arm.settings.env if pair not in base.env),
        options=tuple(pair for pair in arm.settings.options if pair not in base.options),
        layout=arm.settings.layout if arm.settings.layout != base.layout else None,
    )
    if own == Settings():
        return ()
    return (ArmChange(dimension=arm.name, choice="on", settings=own, acts=Acts.RUNTIME),)


def left_out(winner: Arm, ablated: Arm, base: Settings) -> ArmChange | None:
    """Return the winner's change that the ablated arm omits."""
    left = _key(changes_of(ablated, base))
    gone = [change for change in changes_of(winner, base) if _one(change) not in left]
    return gone[0] if len(gone) == 1 else None


def _faulty(arm: Arm, base: Settings, version: str | None) -> bool:
    """Return whether the arm has a known fault; if it runs anyway, the fault does not apply."""
    return bool(new_fault(base, arm.settings, version, None))


def _clash(one: ArmChange, other: ArmChange) -> bool:
    if one.dimension in other.excludes or other.dimension in one.excludes:
        return True
    return one.dimension == other.dimension or bool(_sets(one) & _sets(other))


def _sets(change: ArmChange) -> frozenset[str]:
    settings = change.settings
    placed = {"per"} if change.per is not None else set[str]()
    profiled = {"profile"} if change.profile else set[str]()
    return frozenset(
        {name for name, _ in (*settings.xla, *settings.env, *settings.options)} | placed | profiled
    )


def _key(changes: tuple[ArmChange, ...]) -> frozenset[tuple[str, str]]:
    return frozenset(_one(change) for change in changes)


def _one(change: ArmChange) -> tuple[str, str]:
    return change.dimension, change.choice


def _plain(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9.]+", "-", text).strip("-") or "it"


def _names(name: str) -> tuple[str, ...]:
    return (name, *(f"{name}-{number}" for number in range(2, 100)))
