"""Table: the facts of all releases on some names, as changes from one release to the next.

One JSON value per line: the releases, oldest first, then each name with its changes by release.
So a new release adds few lines to a diff, and the whole table is read in some milliseconds.

    {"releases": ["0.9.2", "0.10.0"]}
    ["xla_fuel", {"0.9.2": {"type": "int64", "default": "0"}, "0.10.0": null}]

A release's facts of a name are the last entry up to it, merged over the earlier ones; null: the
release does not have the name.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, cast

from counterpoint.flags.catalogue.flag import Flag
from counterpoint.flags.versions.version import version_number

FlagFacts: TypeAlias = Mapping[str, Any]
"""The facts of one release on one name; usual values are left out."""


@dataclass(frozen=True, slots=True)
class FlagTable:
    """`changes`: per name, by release, the differences from the release before; None: removed."""

    releases: tuple[str, ...] = ()
    changes: Mapping[str, Mapping[str, FlagFacts | None]] = field(
        default_factory=dict[str, Mapping[str, FlagFacts | None]]
    )

    def at(self, version: str) -> dict[str, dict[str, Any]]:
        """Return the facts of one release on each name that it has."""
        known = frozenset(self.releases[: self.releases.index(version) + 1])
        found: dict[str, dict[str, Any]] = {}
        for name, changes in self.changes.items():
            facts: dict[str, Any] | None = None
            for since, change in changes.items():
                if since in known:
                    facts = _laid_over(facts, change)
            if facts is not None:
                found[name] = facts
        return found

    def of(self, name: str) -> Iterator[tuple[str, dict[str, Any] | None]]:
        """Yield the facts of one name at each release in which they change."""
        facts: dict[str, Any] | None = None
        for since, change in self.changes.get(name, {}).items():
            facts = _laid_over(facts, change)
            yield since, facts


def _laid_over(facts: dict[str, Any] | None, change: FlagFacts | None) -> dict[str, Any] | None:
    if change is None:
        return None
    return {key: value for key, value in {**(facts or {}), **change}.items() if value is not None}


def make_table(releases: Mapping[str, Mapping[str, FlagFacts]]) -> FlagTable:
    """Build a table from the facts of each release, oldest first."""
    changes: dict[str, dict[str, FlagFacts | None]] = {}
    before: Mapping[str, FlagFacts] = {}
    for version, now in releases.items():
        for name in {*before, *now}:
            if before.get(name) != now.get(name):
                changes.setdefault(name, {})[version] = _change(before.get(name), now.get(name))
        before = now
    return FlagTable(tuple(releases), dict(sorted(changes.items())))


def _change(before: FlagFacts | None, now: FlagFacts | None) -> FlagFacts | None:
    if now is None or before is None:
        return now
    keys = dict.fromkeys([*now, *before])  # a removed key is null
    return {key: now.get(key) for key in keys if before.get(key) != now.get(key)}


def with_release(table: FlagTable, version: str, facts: Mapping[str, FlagFacts]) -> FlagTable:
    """Return the table with one release added or replaced."""
    by_release = {known: table.at(known) for known in table.releases} | {version: dict(facts)}
    return make_table(
        {known: by_release[known] for known in sorted(by_release, key=version_number)}
    )


def parse_table(text: str) -> FlagTable:
    """Parse a table from its text."""
    head, *rows = json.loads(f"[{','.join(text.splitlines())}]")
    return FlagTable(tuple(head["releases"]), dict(rows))


def render_table(table: FlagTable) -> str:
    """Return the table as text."""
    lines = [json.dumps({"releases": table.releases})]
    lines += [json.dumps([name, changes]) for name, changes in table.changes.items()]
    return "\n".join(lines) + "\n"


_USUAL: Final = {
    "values": (),
    "enum": (),
    "any_case": False,
    "xla_flags": True,
    "compile_option": True,
    "no_op": False,
    "deprecated": False,
    "alias_of": None,
    "fatal": False,
}


def facts_of(flag: Flag) -> FlagFacts:
    """Return a flag's facts, without its name."""
    facts: dict[str, Any] = {"type": flag.type, "default": flag.default}
    for key, usual in _USUAL.items():
        value = getattr(flag, key)
        if value != usual:
            facts[key] = [*cast("tuple[str, ...]", value)] if isinstance(value, tuple) else value
    if facts.get("enum") == facts.get("values"):
        facts.pop("enum", None)
    return facts


def flag_of(name: str, facts: FlagFacts) -> Flag:
    """Build a flag from its name and facts."""
    values: tuple[str, ...] = tuple(cast("list[str]", facts.get("values", [])))
    return Flag(
        name=name,
        type=facts["type"],
        default=facts["default"],
        values=values,
        enum=tuple(facts.get("enum", values)),
        any_case=facts.get("any_case", False),
        xla_flags=facts.get("xla_flags", True),
        compile_option=facts.get("compile_option", True),
        no_op=facts.get("no_op", False),
        deprecated=facts.get("deprecated", False),
        alias_of=facts.get("alias_of"),
        fatal=facts.get("fatal", False),
    )
