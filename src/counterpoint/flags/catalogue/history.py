"""History: one flag through the releases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from counterpoint.flags.catalogue.facts import flag_of
from counterpoint.flags.catalogue.flag import Flag
from counterpoint.flags.catalogue.lookup import releases, states


@dataclass(frozen=True, slots=True)
class Change:
    """What changed with one release: `what` is the name of a field of Flag, values as text."""

    version: str
    what: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class History:
    """`first` and `last`: the oldest and newest release that takes it in XLA_FLAGS.

    `last` is None where the newest known release takes it; both are None for what was a compile
    option only. A flag that the oldest known release has may be older than that.
    """

    name: str
    first: str | None
    last: str | None
    changes: tuple[Change, ...] = ()

    @property
    def since(self) -> str | None:
        """The oldest release that does not take it any more; None if the newest does."""
        known = releases()
        return None if self.last is None else known[known.index(self.last) + 1]


def history(name: str) -> History | None:
    """All that is known of a name; None for one that no known release has."""
    flags = [(since, flag_of(name, facts) if facts else None) for since, facts in states(name)]
    if not flags:
        return None
    first, last = _presence(flags)
    return History(name, first, last, tuple(_changes(flags)))


def _presence(flags: list[tuple[str, Flag | None]]) -> tuple[str | None, str | None]:
    known = releases()
    taken = [(since, flag is not None and flag.xla_flags) for since, flag in flags]
    first = next((since for since, there in taken if there), None)
    if first is None or taken[-1][1]:
        return first, None
    gone = taken[-1][0]
    for since, there in reversed(taken):
        if there:
            break
        gone = since
    return first, known[known.index(gone) - 1]


def _changes(flags: list[tuple[str, Flag | None]]) -> list[Change]:
    found: list[Change] = []
    before: Flag | None = None
    for version, flag in flags:
        if flag is not None and before is not None:
            found += [Change(version, *change) for change in differences(before, flag)]
        elif version != releases()[0]:
            there = ("added", "", "") if flag else ("removed", "", "")
            found.append(Change(version, *there))
        before = flag
    return found


def differences(before: Flag, after: Flag) -> list[tuple[str, str, str]]:
    """What differs between two releases of one flag: the field, what it was, what it is."""
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
