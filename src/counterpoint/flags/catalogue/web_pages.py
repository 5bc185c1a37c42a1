"""WebPage: the settings that one published page recommends, with the values it gives.

These are the pages that people find when they search for XLA flags. This module does not judge
them: standing.py computes each setting's state in each release from the catalogue.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any


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
