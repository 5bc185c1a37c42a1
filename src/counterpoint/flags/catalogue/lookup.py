"""What is known of flags: the table that ships, and what `flags refresh` has added to it here."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from functools import cache, lru_cache
from importlib import resources

from counterpoint.flags.catalogue.facts import flag_of
from counterpoint.flags.catalogue.flag import Flag
from counterpoint.flags.catalogue.release import Release
from counterpoint.flags.catalogue.table import Table, parse_table
from counterpoint.flags.version import number


@cache
def shipped(name: str) -> Table:
    """A table of the package: `xla` by release of jaxlib, `jax` by release of jax."""
    file = resources.files("counterpoint.flags.catalogue") / f"{name}.jsonl"
    return parse_table(file.read_text("utf-8")) if file.is_file() else Table()


def releases() -> tuple[str, ...]:
    """All known releases of jaxlib, oldest first."""
    return shipped("xla").releases


def release(version: str | None = None) -> Release:
    """What a jaxlib knows. One that is not known: the nearest older one; too old: the oldest."""
    return _release(version if version is not None else releases()[-1])


@lru_cache(maxsize=8)
def _release(asked: str) -> Release:
    version = nearest(asked, releases())
    return Release(version=version, asked=asked, flags=_flags(version), jax=_jax_options(version))


def nearest(asked: str, known: tuple[str, ...]) -> str:
    """The release itself, else the newest that is not newer, else the oldest."""
    if asked in known:
        return asked
    older = [version for version in known if number(version) <= number(asked)]
    return older[-1] if older else known[0]


def _flags(version: str) -> Mapping[str, Flag]:
    return {name: flag_of(name, facts) for name, facts in shipped("xla").at(version).items()}


def _jax_options(version: str) -> Mapping[str, str]:
    table = shipped("jax")
    if not table.releases:
        return {}
    options = table.at(nearest(version, table.releases))
    return {name: facts["default"] for name, facts in options.items()}


def similar(name: str, release: Release, count: int = 2) -> tuple[str, ...]:
    """Names of the release that this one may have been meant to be."""
    tried = name.lstrip("-").lower().replace("-", "_")
    if tried in release.flags:
        return (tried,)
    return tuple(difflib.get_close_matches(tried, release.flags, n=count, cutoff=0.85))
