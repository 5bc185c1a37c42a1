"""Diff: what changed from one release to another, in the words of who sets flags."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from counterpoint.flags.catalogue.flag import Flag
from counterpoint.flags.catalogue.history import differences
from counterpoint.flags.catalogue.release import Release


@dataclass(frozen=True, slots=True)
class Removed:
    """A name that the later release does not know. `use`: what is known to do it now."""

    flag: Flag
    use: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Renamed:
    """A setting under another name; `taken` where XLA_FLAGS still takes the earlier one."""

    before: Flag
    after: Flag
    taken: bool


@dataclass(frozen=True, slots=True)
class Changed:
    """Something else about a name: `what` is a field of Flag, the values are text."""

    flag: Flag  # as it is in the later release
    what: str
    before: str
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Diff:
    """From one release to another; flags, and JAX's options by their variables."""

    before: str
    after: str
    added: tuple[Flag, ...]
    removed: tuple[Removed, ...]
    renamed: tuple[Renamed, ...]
    changed: tuple[Changed, ...]

    @property
    def empty(self) -> bool:
        """Whether nothing changed."""
        return not (self.added or self.removed or self.renamed or self.changed)


def diff(before: Release, after: Release, use: Mapping[str, tuple[str, ...]]) -> Diff:
    """All that differs; `use` says of removed names what does it now.

    JAX's options are compared where they are known of both.
    """
    both = before.jax_options and after.jax_options
    old = {**before.flags, **(before.jax_options if both else {})}
    new = {**after.flags, **(after.jax_options if both else {})}
    renamed = _renamed(old, new, use)
    heirs = {one.after.name for one in renamed}
    moved = {one.before.name for one in renamed}
    return Diff(
        before=before.version,
        after=after.version,
        added=tuple(new[name] for name in sorted(new.keys() - old.keys() - heirs)),
        removed=tuple(
            Removed(old[name], _present(use.get(name, ()), new))
            for name in sorted(old.keys() - new.keys() - moved)
        ),
        renamed=renamed,
        changed=tuple(
            Changed(new[name], *change)
            for name in sorted(old.keys() & new.keys() - moved)
            for change in differences(old[name], new[name])
        ),
    )


def _renamed(
    old: Mapping[str, Flag], new: Mapping[str, Flag], use: Mapping[str, tuple[str, ...]]
) -> tuple[Renamed, ...]:
    """Names whose place a new one took, and which nothing else shares."""
    found: list[Renamed] = []
    for name, flag in sorted(old.items()):
        now = new.get(name)
        alias = now.alias_of if now is not None and flag.alias_of is None else None
        heirs = (alias,) if alias else use.get(name, ()) if now is None else ()
        if len(heirs) == 1 and heirs[0] in new and heirs[0] not in old:
            found.append(Renamed(flag, new[heirs[0]], taken=now is not None))
    counts = [one.after.name for one in found]
    return tuple(one for one in found if counts.count(one.after.name) == 1)


def _present(names: tuple[str, ...], new: Mapping[str, Flag]) -> tuple[str, ...]:
    return tuple(name for name in names if name in new)
