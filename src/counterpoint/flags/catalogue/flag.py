"""Flag and Release: the flags of one jaxlib."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, cast

from counterpoint.flags.versions import version_number

_BOOLS = {"true": True, "1": True, "false": False, "0": False}
_BITS = {"int32": 31, "int64": 63}


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """One of XLA's flags in one release.

    `type`: bool, int32, int64, float, string, enum, message; lists: enums, strings, map. `default`
    is spelled as in XLA_FLAGS. `alias_of`: this flag sets the field of that one. `values` are
    spelled as in XLA_FLAGS, `enum` as in compiler_options (before 0.6 as numbers), in the same
    order. `fatal`: XLA knows the name, and crashes on any value.
    """

    name: str
    type: str
    default: str
    values: tuple[str, ...] = ()
    enum: tuple[str, ...] = ()
    any_case: bool = False  # XLA_FLAGS accepts `values` in upper and lower case
    xla_flags: bool  # XLA_FLAGS accepts it
    compile_option: bool  # compiler_options accepts it
    no_op: bool = False
    deprecated: bool = False
    alias_of: str | None = None
    fatal: bool = False

    def is_default(self, value: str) -> bool:
        """Return whether a value, as spelled in XLA_FLAGS, has the same effect as the default."""
        if self.alias_of is not None or (self.no_op and not self.compile_option):
            return False  # it has no value of its own
        if self.type == "enums":
            return self._is_default_list(value)
        if self.type in ("strings", "map"):  # given values add to the default
            return set(_items(value)) <= set(_items(self.default))
        return self.meaning(value) == self.meaning(self.default)

    def meaning(self, value: str) -> bool | int | float | str | None:
        """Return the parsed value; None if the flag does not accept it."""
        if self.type == "bool":
            return _BOOLS.get(value.lower())
        if self.type in _BITS:
            return _whole(value, _BITS[self.type])
        if self.type == "float":
            return _real(value)
        if self.type == "enum":
            return self.spelled(value)
        return value

    def spelled(self, value: str) -> str | None:
        """Return an enum's name as spelled in `values`; None if there is no such name."""
        for name in self.values:
            if value == name or (self.any_case and value.lower() == name.lower()):
                return name
        return None

    def _is_default_list(self, value: str) -> bool:
        default = {self.spelled(name) for name in _items(self.default)}
        given = _items(value)
        if given and all(name[0] in "+-" for name in given):
            added = {self.spelled(name[1:]) for name in given if name[0] == "+"}
            taken = {self.spelled(name[1:]) for name in given if name[0] == "-"}
            return added <= default and not taken & default
        return {self.spelled(name) for name in given} == default


def _items(text: str) -> list[str]:
    return text.split(",") if text else []


def _whole(text: str, bits: int) -> int | None:
    try:
        number = int(text)
    except ValueError:
        return None
    return number if "_" not in text and -(1 << bits) <= number < 1 << bits else None


def _real(text: str) -> float | None:
    try:
        return float(text) if "_" not in text else None
    except ValueError:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """The flags of jaxlib `version`; `asked` is the requested version, which may differ."""

    version: str
    asked: str
    flags: Mapping[str, Flag]
    jax: Mapping[str, str]  # JAX's own options by environment variable, with their defaults
    jax_options: Mapping[str, Flag] = field(default_factory=dict[str, Flag])  # with their types

    @property
    def exact(self) -> bool:
        return self.version == self.asked


def similar(name: str, release: Release, count: int = 2) -> tuple[str, ...]:
    """Return names of the release that XLA_FLAGS accepts, most similar first."""
    tried = name.lstrip("-").lower().replace("-", "_")
    taken = [flag.name for flag in release.flags.values() if flag.xla_flags]
    if tried in taken:
        return (tried,)
    import difflib

    return tuple(difflib.get_close_matches(tried, taken, n=count, cutoff=0.85))


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
        at_release: dict[str, dict[str, Any]] = {}
        for name, changes in self.changes.items():
            facts: dict[str, Any] | None = None
            for since, change in changes.items():
                if since in known:
                    facts = _laid_over(facts, change)
            if facts is not None:
                at_release[name] = facts
        return at_release

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
