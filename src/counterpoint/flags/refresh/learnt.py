"""Learnt: all facts from an interpreter's jaxlib, and where they are stored.

learn ──► Learnt ── keep ──► this machine's overlay
             └─ lay_into ──► a table in a file, like the one that ships
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from counterpoint.core import InputError, UsageError
from counterpoint.flags.catalogue.flag import Release
from counterpoint.flags.catalogue.lookup import as_release, facts_at, names_ever, nearest, path_of
from counterpoint.flags.catalogue.table import (
    FlagFacts,
    FlagTable,
    facts_of,
    make_table,
    parse_table,
    render_table,
    with_release,
)
from counterpoint.flags.refresh.jax_options import jax_options
from counterpoint.flags.refresh.options import with_options
from counterpoint.flags.refresh.parser import Parser
from counterpoint.flags.refresh.survey import LIBRARIES, survey


@dataclass(frozen=True, slots=True, kw_only=True)
class JaxlibFlags:
    """One release. `jax` is the version of JAX whose options were read, if there was one."""

    version: str
    shared_object: Path
    jax: str | None
    facts: Mapping[str, FlagFacts]

    @property
    def release(self) -> Release:
        """The same as a Release of the catalogue."""
        return as_release(self.version, self.facts)


def read_jaxlib_flags(
    python: Path, tell: Callable[[str], None], environment: Mapping[str, str] | None = None
) -> JaxlibFlags:
    """Query an interpreter's jaxlib, and its jax if there is one."""
    tell(f"loading the jaxlib of {python}")
    with Parser(python, environment) as parser:
        library = find_library(parser.directory)
        flags = survey(parser, library, names_ever(), tell)
        version = parser.version
    tell(f"asking the jax of {python} about compiler options")
    flags = with_options(flags, library, python, environment)
    tell(f"asking the jax of {python} about its own options")
    options = jax_options(python, environment)
    facts: dict[str, FlagFacts] = {flag.name: facts_of(flag) for flag in flags}
    return JaxlibFlags(
        version=version,
        shared_object=library,
        jax=options[0] if options else None,
        facts={**facts, **(options[1] if options else _likely_options(version))},
    )


def _likely_options(version: str) -> dict[str, FlagFacts]:
    """Return JAX's options of the nearest known release."""
    known = facts_at(nearest(version))
    return {name: facts for name, facts in known.items() if name[0].isupper()}


def find_library(directory: Path) -> Path:
    """Return the library in which jaxlib has XLA."""
    for name in LIBRARIES:
        if (directory / name).is_file():
            return directory / name
    raise InputError(
        f"{directory} has no library of XLA's",
        why=f"looked for {' and '.join(LIBRARIES)}",
        next="install jaxlib again",
    )


def check_writable(path: Path | None) -> None:
    """Raise UsageError before any work if a file can't be written; None: this machine's overlay."""
    if path is None:
        path = path_of("0")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as failure:
            raise UsageError(
                f"can't make {path.parent}: {failure.strerror or failure}",
                why="what is learnt is kept under $XDG_DATA_HOME, else under ~/.local/share",
                next="-o xla-flags.json",
            ) from None
    elif path.exists():
        read_table(path)
    if not os.access(path.parent, os.W_OK):
        raise UsageError(
            f"can't write {path}: {path.parent} is no directory that can be written to",
            next="name another file with -o",
        )


def save_overlay(learnt: JaxlibFlags) -> Path:
    """Write it where the catalogue looks on this machine, atomically."""
    path = path_of(learnt.version)
    _write(path, render_table(make_table({learnt.version: learnt.facts})))
    return path


def add_to_table(learnt: JaxlibFlags, path: Path) -> FlagTable:
    """Add it to the table in a file, which may not exist yet; other releases stay."""
    table = read_table(path) if path.exists() else FlagTable()
    table = with_release(table, learnt.version, learnt.facts)
    _write(path, render_table(table))
    return table


def read_table(path: Path) -> FlagTable:
    """Read a table from a file that may contain anything."""
    try:
        return parse_table(path.read_text("utf-8"))
    except OSError as failure:
        raise InputError(f"{path} can't be read: {failure.strerror or failure}") from None
    except (ValueError, KeyError, TypeError):
        raise InputError(
            f"{path} is no table of flags",
            why="what was learnt is added to the table that the file holds",
            next="name a file that `flags refresh` wrote, or a new one",
        ) from None


def _write(path: Path, text: str) -> None:
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        try:
            part.write_text(text, encoding="utf-8")
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
    except OSError as failure:
        raise UsageError(f"can't write {path}: {failure.strerror or failure}") from None
