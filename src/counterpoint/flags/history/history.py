"""History: one flag across releases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from counterpoint.flags.catalogue.flag import Flag, Release
from counterpoint.flags.catalogue.lookup import releases, states
from counterpoint.flags.catalogue.table import flag_of


@dataclass(frozen=True, slots=True)
class FlagChange:
    """A change in one release: `what` is the name of a field of Flag, the values are text."""

    version: str
    what: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class History:
    """`first` and `last`: the oldest and newest release that accept the flag in XLA_FLAGS.

    `last` is None if the newest known release accepts it; both are None if it was only a compile
    option. A flag of the oldest known release may be older than that.
    """

    name: str
    first: str | None
    last: str | None
    changes: tuple[FlagChange, ...] = ()

    @property
    def since(self) -> str | None:
        """The oldest release that no longer accepts it; None if the newest does."""
        known = releases()
        return None if self.last is None else known[known.index(self.last) + 1]


def history(name: str) -> History | None:
    """Return the history of a name; None if no known release has it."""
    flags = [(since, flag_of(name, facts) if facts else None) for since, facts in states(name)]
    if not flags:
        return None
    first, last = _presence(flags)
    return History(name, first, last, tuple(_changes(flags)))


def _presence(flags: list[tuple[str, Flag | None]]) -> tuple[str | None, str | None]:
    known = releases()
    taken = [(since, flag is not None and flag.xla_flags) for since, flag in flags]
    first = next((since for since, present in taken if present), None)
    if first is None or taken[-1][1]:
        return first, None
    gone = taken[-1][0]
    for since, present in reversed(taken):
        if present:
            break
        gone = since
    return first, known[known.index(gone) - 1]


def _changes(flags: list[tuple[str, Flag | None]]) -> list[FlagChange]:
    found: list[FlagChange] = []
    before: Flag | None = None
    for version, flag in flags:
        if flag is not None and before is not None:
            found += [FlagChange(version, *change) for change in differences(before, flag)]
        elif version != releases()[0]:
            presence = ("added", "", "") if flag else ("removed", "", "")
            found.append(FlagChange(version, *presence))
        before = flag
    return found


def differences(before: Flag, after: Flag) -> list[tuple[str, str, str]]:
    """Return what differs between two releases of one flag: the field, its old and new value."""
    fields = (
        "type",
        "default",
        "values",
        "xla_flags",
        "compile_option",
        "no_op",
        "deprecated",
        "alias_of",
        "fatal",
    )
    return [
        (field, _text(getattr(before, field)), _text(getattr(after, field)))
        for field in fields
        if getattr(before, field) != getattr(after, field)
    ]


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(map(str, cast("tuple[object, ...]", value)))
    return "" if value is None else str(value)


@dataclass(frozen=True, slots=True)
class RemovedFlag:
    """A name that the later release does not have. `use`: its known replacements."""

    flag: Flag
    use: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RenamedFlag:
    """A setting with a new name; `taken`: XLA_FLAGS still accepts the old one."""

    before: Flag
    after: Flag
    taken: bool


@dataclass(frozen=True, slots=True)
class ChangedFlag:
    """Another change of a name: `what` is a field of Flag, the values are text."""

    flag: Flag  # as in the later release
    what: str
    before: str
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseDiff:
    """Changes from one release to another: flags, and JAX's options by their variables."""

    before: str
    after: str
    added: tuple[Flag, ...]
    removed: tuple[RemovedFlag, ...]
    renamed: tuple[RenamedFlag, ...]
    changed: tuple[ChangedFlag, ...]

    @property
    def empty(self) -> bool:
        """True if nothing changed."""
        return not (self.added or self.removed or self.renamed or self.changed)


def diff(before: Release, after: Release, use: Mapping[str, tuple[str, ...]]) -> ReleaseDiff:
    """Return all differences; `use` maps removed names to their replacements.

    JAX's options are compared if they are known for both releases.
    """
    options_known = before.jax_options and after.jax_options
    old = {**before.flags, **(before.jax_options if options_known else {})}
    new = {**after.flags, **(after.jax_options if options_known else {})}
    renamed = _renamed(old, new, use)
    heirs = {rename.after.name for rename in renamed}
    moved = {rename.before.name for rename in renamed}
    return ReleaseDiff(
        before=before.version,
        after=after.version,
        added=tuple(new[name] for name in sorted(new.keys() - old.keys() - heirs)),
        removed=tuple(
            RemovedFlag(old[name], _present(use.get(name, ()), new))
            for name in sorted(old.keys() - new.keys() - moved)
        ),
        renamed=renamed,
        changed=tuple(
            ChangedFlag(new[name], *change)
            for name in sorted(old.keys() & new.keys() - moved)
            for change in differences(old[name], new[name])
        ),
    )


def _renamed(
    old: Mapping[str, Flag], new: Mapping[str, Flag], use: Mapping[str, tuple[str, ...]]
) -> tuple[RenamedFlag, ...]:
    """Return names replaced by one new name that replaces nothing else."""
    found: list[RenamedFlag] = []
    for name, flag in sorted(old.items()):
        now = new.get(name)
        alias = now.alias_of if now is not None and flag.alias_of is None else None
        heirs = (alias,) if alias else use.get(name, ()) if now is None else ()
        if len(heirs) == 1 and heirs[0] in new and heirs[0] not in old:
            found.append(RenamedFlag(flag, new[heirs[0]], taken=now is not None))
    counts = [rename.after.name for rename in found]
    return tuple(rename for rename in found if counts.count(rename.after.name) == 1)


def _present(names: tuple[str, ...], new: Mapping[str, Flag]) -> tuple[str, ...]:
    return tuple(name for name in names if name in new)
