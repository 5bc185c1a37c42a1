"""Lookup of flags: the table that ships, and what `flags refresh` has added on this machine.

The added tables are files, one per release, in $XDG_DATA_HOME/counterpoint/flags. They take
precedence over the table that ships.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final

from counterpoint.core import InputError
from counterpoint.flags.catalogue.flag import FlagFacts, FlagTable, Release, flag_of, parse_table
from counterpoint.flags.versions import version_number

_START: Final = "jaxlib-"
_ENDING: Final = ".jsonl"


def directory() -> Path:
    """Return the directory of the added files; it may not exist."""
    home = os.environ.get("XDG_DATA_HOME", "")
    base = Path(home) if Path(home).is_absolute() else Path.home() / ".local" / "share"
    return base / "counterpoint" / "flags"


def path_of(version: str) -> Path:
    """Return the file of one release."""
    return directory() / f"{_START}{version}{_ENDING}"


def overlaid() -> tuple[str, ...]:
    """Return the releases that have a file on this machine."""
    try:
        names = [path.name for path in directory().iterdir()]
    except (OSError, RuntimeError):  # no such directory; no home
        return ()
    return tuple(
        name.removeprefix(_START).removesuffix(_ENDING)
        for name in sorted(names)
        if name.startswith(_START) and name.endswith(_ENDING)
    )


def read_overlay(version: str) -> FlagTable:
    """Read the table that `flags refresh` wrote for one release."""
    path = path_of(version)
    try:
        table = parse_table(path.read_text("utf-8"))
    except OSError as failure:
        raise InputError(f"{path} cannot be read: {failure.strerror or failure}") from None
    except (ValueError, KeyError, TypeError):
        raise InputError(
            f"{path} is damaged",
            why="`flags refresh` wrote it with one JSON value per line",
            next=f"rm {shlex.quote(str(path))}",
        ) from None
    if version not in table.releases:
        raise InputError(
            f"{path} does not contain jaxlib {version}",
            why=f"it contains {', '.join(table.releases) or 'no release'}",
            next=f"rm {shlex.quote(str(path))}",
        )
    return table


_NUMBERS: Final = re.compile(r"\d+(\.\d+)*")


@cache
def shipped() -> FlagTable:
    """Return the table that ships, by release of jaxlib."""
    return parse_table(Path(__file__).with_name("flags.jsonl").read_text("utf-8"))


@cache
def _local() -> tuple[str, ...]:
    return overlaid()


@cache
def _learnt(version: str) -> dict[str, dict[str, Any]]:
    return read_overlay(version).at(version)


@cache
def releases() -> tuple[str, ...]:
    """Return all known releases of jaxlib, oldest first."""
    known = dict.fromkeys([*shipped().releases, *_local()])
    return tuple(sorted(known, key=version_number))


def release(version: str | None = None) -> Release:
    """Return a jaxlib's flags; if unknown, those of the nearest older release, else the oldest."""
    if version is None:
        return _release(releases()[-1])
    return _release(known_release(version) or version)


def known_release(version: str) -> str | None:
    """Return the known release of this number; `0.12` is the newest 0.12. None if there is none."""
    plain = version.strip().removeprefix("v")
    if plain in releases():
        return plain
    if not _NUMBERS.fullmatch(plain):
        return None
    requested = version_number(plain)
    matching = [
        known for known in releases() if version_number(known)[: len(requested)] == requested
    ]
    return matching[-1] if matching else None


@lru_cache(maxsize=8)
def _release(asked: str) -> Release:
    version = nearest(asked)
    return as_release(version, facts_at(version), asked)


def as_release(version: str, facts: Mapping[str, FlagFacts], asked: str | None = None) -> Release:
    """Build a Release from a table's facts; JAX's options are the upper-case names."""
    options = {
        name: flag_of(name, flag_facts) for name, flag_facts in facts.items() if name[0].isupper()
    }
    return Release(
        version=version,
        asked=version if asked is None else asked,
        flags={
            name: flag_of(name, flag_facts)
            for name, flag_facts in facts.items()
            if name not in options
        },
        jax={name: option.default for name, option in options.items()},
        jax_options=options,
    )


def nearest(asked: str) -> str:
    """Return the release itself, else the newest that is not newer, else the oldest."""
    known = releases()
    if asked in known:
        return asked
    older = [version for version in known if version_number(version) <= version_number(asked)]
    return older[-1] if older else known[0]


def facts_at(version: str) -> dict[str, dict[str, Any]]:
    """Return the facts of one known release, flags and JAX's options, by name."""
    return _learnt(version) if version in _local() else shipped().at(version)


def names_ever() -> frozenset[str]:
    """Return all names that any known release has, flags and JAX's options."""
    return frozenset(shipped().changes).union(*(_learnt(version) for version in _local()))


def states(name: str) -> Iterator[tuple[str, FlagFacts | None]]:
    """Yield the facts of one name at each release in which they change; None: absent."""
    local = _local()
    if not local:
        yield from shipped().of(name)
        return
    changes = dict(shipped().of(name))
    now: FlagFacts | None = None
    before: FlagFacts | None = None
    for version in releases():
        now = changes.get(version, now)
        facts = _learnt(version).get(name) if version in local else now
        if facts != before:
            yield version, facts
        before = facts
