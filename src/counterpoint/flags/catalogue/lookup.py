"""Lookup of flags in the table that ships, by release of jaxlib."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final

from counterpoint.flags.catalogue.flag import FlagFacts, FlagTable, Release, flag_of, parse_table
from counterpoint.flags.versions import version_number

_NUMBERS: Final = re.compile(r"\d+(\.\d+)*")


@cache
def shipped() -> FlagTable:
    """Return the table that ships, by release of jaxlib."""
    return parse_table(Path(__file__).with_name("flags.jsonl").read_text("utf-8"))


@cache
def releases() -> tuple[str, ...]:
    """Return all known releases of jaxlib, oldest first."""
    return shipped().releases


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
    return shipped().at(version)


def names_ever() -> frozenset[str]:
    """Return all names that any known release has, flags and JAX's options."""
    return frozenset(shipped().changes)


def states(name: str) -> Iterator[tuple[str, FlagFacts | None]]:
    """Yield the facts of one name at each release in which they change; None: absent."""
    yield from shipped().of(name)
