"""Learnt: all that an interpreter's jaxlib says of itself, and where that is kept.

learn ──► Learnt ── keep ──► this machine's overlay
                 └─ lay_into ──► a table in a file, as the one that ships
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
    Facts,
    Table,
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
class Learnt:
    """One release. `jax` is the version of JAX that was asked for its options, if there was one."""

    version: str
    shared_object: Path
    jax: str | None
    facts: Mapping[str, Facts]

    @property
    def release(self) -> Release:
        """The same as the catalogue has it."""
        return as_release(self.version, self.facts)


def learn(
    python: Path, tell: Callable[[str], None], environment: Mapping[str, str] | None = None
) -> Learnt:
    """Ask an interpreter's jaxlib, and its jax where there is one."""
    tell(f"loading the jaxlib of {python}")
    with Parser(python, environment) as parser:
        library = find_library(parser.directory)
        flags = survey(parser, library, names_ever(), tell)
        version = parser.version
    tell(f"asking the jax of {python} about compiler options")
    flags = with_options(flags, library, python, environment)
    tell(f"asking the jax of {python} about its own options")
    asked = jax_options(python, environment)
    facts: dict[str, Facts] = {flag.name: facts_of(flag) for flag in flags}
    return Learnt(
        version=version,
        shared_object=library,
        jax=asked[0] if asked else None,
        facts={**facts, **(asked[1] if asked else _likely_options(version))},
    )


def _likely_options(version: str) -> dict[str, Facts]:
    """JAX's options as the nearest known release has them."""
    known = facts_at(nearest(version))
    return {name: facts for name, facts in known.items() if name[0].isupper()}


def find_library(directory: Path) -> Path:
    """The library in which jaxlib has XLA."""
    for name in LIBRARIES:
        if (directory / name).is_file():
            return directory / name
    raise InputError(
        f"{directory} has no library of XLA's",
        why=f"looked for {' and '.join(LIBRARIES)}",
        next="install jaxlib again",
    )


def check_place(path: Path | None) -> None:
    """Refuse a place that can't be written to before any work is done; None: this machine's."""
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


def keep(learnt: Learnt) -> Path:
    """Write it where the catalogue looks on this machine, whole or not at all."""
    path = path_of(learnt.version)
    _write(path, render_table(make_table({learnt.version: learnt.facts})))
    return path


def lay_into(learnt: Learnt, path: Path) -> Table:
    """Add it to the table in a file, which may not be there yet; other releases stay."""
    table = read_table(path) if path.exists() else Table()
    table = with_release(table, learnt.version, learnt.facts)
    _write(path, render_table(table))
    return table


def read_table(path: Path) -> Table:
    """A table that may be anything."""
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
