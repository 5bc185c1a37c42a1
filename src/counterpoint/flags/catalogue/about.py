"""About: the description of a setting beyond what a binary reveals: its effect, costs and needs.

The texts are in `about/*.toml`, one file per theme and one table per setting. A setting is found by
the header line of its table, and only that table is parsed: reading all files as TOML takes longer
than a whole check may. So tables have no sub-tables, and no line of a text begins with `[`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any, Final, cast

from counterpoint.flags.observed import has, with_releases
from counterpoint.flags.versions import ChipFamily, chip_family, version_number

_HEAD: Final = re.compile(r'^\["?([-.\w]+)"?\]$', re.MULTILINE)


class ReadingProgram(StrEnum):
    """The program that reads a setting, which determines where the setting has to be given."""

    XLA = "XLA"  # XLA_FLAGS, and compiler_options unless `process_only`
    COMPILE = "XLA, per compile"  # compiler_options only
    JAX = "JAX"  # the environment, or jax.config
    CLIENT = "XLA's GPU client"  # memory of the process; the environment
    LOG = "XLA's log"  # the environment
    NCCL = "NCCL"  # the environment, or nccl.conf
    CUDA = "CUDA"  # the environment
    LIBTPU = "libtpu"  # LIBTPU_INIT_ARGS
    LEVANTER = "Levanter"  # its command line or YAML
    KERNEL = "the Linux kernel"  # sysctl on each host, or in the container


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingNote:
    """A surprising fact. It holds from `since` on and before `until`, on `chips` only.

    It also holds for an unknown chip. Where compiles show in which releases it holds, it has the
    names of behaviors (observed.py): those of `seen`, and none of `unseen`.
    """

    text: str
    since: str | None = None
    until: str | None = None
    chips: tuple[ChipFamily, ...] = ()  # empty: all
    seen: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()

    def holds(self, version: str | None, chip: str | None = None) -> bool:
        """Return whether it is true for a jaxlib (None: newest) and a chip (None: any)."""
        kind = chip_family(chip)
        if self.chips and kind is not None and kind not in self.chips:
            return False
        if not all(has(name, version) for name in self.seen):
            return False
        if any(has(name, version) for name in self.unseen):
            return False
        if version is None:
            return self.until is None
        at = version_number(version)
        return not (
            (self.since is not None and at < version_number(self.since))
            or (self.until is not None and at >= version_number(self.until))
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingDocumentation:
    """The description of one setting.

    `use`: what to use today if this one is gone, renamed or no longer the best way. `process_only`:
    read from the flags of the process when the program runs, so that a value in compiler_options is
    accepted and has no effect.
    """

    name: str
    kind: ReadingProgram
    theme: str
    does: str
    trades: str
    workloads: tuple[str, ...]
    sources: tuple[str, ...]
    use: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    process_only: bool = False
    notes: tuple[SettingNote, ...] = ()

    def notes_for(self, version: str | None, chip: str | None = None) -> tuple[str, ...]:
        """Return the notes that hold for a jaxlib and a chip."""
        return tuple(note.text for note in self.notes if note.holds(version, chip))


@cache
def documentation_of(name: str) -> SettingDocumentation | None:
    """Return the description of a setting; None if it has none."""
    row = _tables().get(name)
    if row is None:
        return None
    theme, text = row
    return _entry(name, theme, text)


def all_documentation() -> Mapping[str, SettingDocumentation]:
    """Return all descriptions, by name. Parses all of them; for documents and tests."""
    return {name: _entry(name, theme, text) for name, (theme, text) in _tables().items()}


@cache
def _tables() -> Mapping[str, tuple[str, str]]:
    """Return theme and unparsed table of each setting."""
    directory = Path(__file__).with_name("about")
    tables: dict[str, tuple[str, str]] = {}
    for file in sorted(directory.iterdir(), key=lambda entry: entry.name):
        if file.name.endswith(".toml"):
            parts = _HEAD.split(file.read_text("utf-8"))
            theme = file.name.removesuffix(".toml")
            tables.update((n, (theme, t)) for n, t in zip(parts[1::2], parts[2::2], strict=True))
    return tables


def _entry(name: str, theme: str, text: str) -> SettingDocumentation:
    import tomllib

    table = tomllib.loads(text)
    notes = tuple(_note(note) for note in table.get("notes", ()))
    fields: dict[str, Any] = {
        **_frozen(table),
        "kind": ReadingProgram[table["kind"].upper()],
        "notes": notes,
    }
    return SettingDocumentation(name=name, theme=theme, **fields)


def _note(table: Mapping[str, Any]) -> SettingNote:
    return SettingNote(
        text=with_releases(table["text"]),
        since=table.get("since"),
        until=table.get("until"),
        seen=tuple(table.get("seen", ())),
        unseen=tuple(table.get("unseen", ())),
        chips=tuple(ChipFamily(name) for name in table.get("chips", ())),
    )


def _frozen(table: Mapping[str, Any]) -> dict[str, Any]:
    """Convert lists to tuples."""
    return {
        key: tuple(cast("list[Any]", value)) if isinstance(value, list) else value
        for key, value in table.items()
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class PageSetting:
    """One setting of a page. `values` is empty if the page gives none, or a placeholder.

    `says` is the default that the page states. `named` is false if the page describes a setting
    without its name; `source` is then the page that names it.
    """

    name: str
    where: str
    values: tuple[str, ...] = ()
    says: str | None = None
    named: bool = True
    source: str = ""


@dataclass(frozen=True, slots=True)
class WebPage:
    """A page, with its settings in the order of the page."""

    title: str
    url: str
    settings: tuple[PageSetting, ...]


@cache
def pages() -> tuple[WebPage, ...]:
    """Return all pages."""
    directory = Path(__file__).with_name("web_pages")
    files = sorted(directory.iterdir(), key=lambda entry: entry.name)
    return tuple(
        _page(tomllib.loads(file.read_text("utf-8")))
        for file in files
        if file.name.endswith(".toml")
    )


def _page(document: Mapping[str, Any]) -> WebPage:
    settings = tuple(
        PageSetting(
            name=row["name"],
            where=row["where"],
            values=tuple(row.get("values", ())),
            says=row.get("says"),
            named=row.get("named", True),
            source=row.get("source", ""),
        )
        for row in document["setting"]
    )
    return WebPage(document["title"], document["url"], settings)
