"""Page: what one published page recommends, setting by setting, as the page gives it.

The pages are those that people find when they look for XLA's flags. What became of each setting is
not said here: it is computed from the catalogue (standing.py).
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """One setting of a page. No `values`: it is named without one, or with a placeholder.

    `says` is what the page holds to be the default. One that is not `named` is what the page may
    mean, as `source` has it.
    """

    name: str
    where: str
    values: tuple[str, ...] = ()
    says: str | None = None
    named: bool = True
    source: str = ""


@dataclass(frozen=True, slots=True)
class Page:
    """A page with its settings in its own order."""

    title: str
    url: str
    settings: tuple[Advice, ...]


@cache
def pages() -> tuple[Page, ...]:
    """All pages."""
    directory = Path(__file__).with_name("pages")
    files = sorted(directory.iterdir(), key=lambda entry: entry.name)
    return tuple(
        _page(tomllib.loads(file.read_text("utf-8")))
        for file in files
        if file.name.endswith(".toml")
    )


def _page(document: Mapping[str, Any]) -> Page:
    settings = tuple(
        Advice(
            name=row["name"],
            where=row["where"],
            values=tuple(row.get("values", ())),
            says=row.get("says"),
            named=row.get("named", True),
            source=row.get("source", ""),
        )
        for row in document["setting"]
    )
    return Page(document["title"], document["url"], settings)
