"""Imports and paths that the documentation names exist."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
PAGES = [*CHECKOUT.glob("*.md"), *(CHECKOUT / "docs").rglob("*.md")]
IMPORT = re.compile(r"^from (counterpoint[\w.]*) import (\([^)]*\)|[^\n(]+)$", re.MULTILINE)
MODULE = re.compile(r"^import (counterpoint[\w.]*)$", re.MULTILINE)
PLACE = re.compile(r"(?<![\w/.-])((?:src/counterpoint|tests|tools|benchmarks|examples)/[\w./-]*\w)")
ELSEWHERE = ("CHANGELOG.md", "docs/rules", "docs/recipes-of-others.md")
"""Pages about other versions, or about files of other projects."""


def wrong_imports(text: str) -> Iterator[str]:
    """The imports of a page that fail, as `module.name`."""
    for match in IMPORT.finditer(text):
        names = re.findall(r"(\w+)(?: as \w+)?", re.sub(r"#.*", "", match[2]))
        for name in names:
            try:
                getattr(importlib.import_module(match[1]), name)
            except (ImportError, AttributeError):
                yield f"{match[1]}.{name}"
    for match in MODULE.finditer(text):
        try:
            importlib.import_module(match[1])
        except ImportError:
            yield match[1]


def wrong_places(text: str) -> list[str]:
    """The files of the project that a page names and that do not exist."""
    return [place for place in PLACE.findall(text) if not (CHECKOUT / place).exists()]


def test_what_the_pages_import_exists() -> None:
    found = {str(page.relative_to(CHECKOUT)): [*wrong_imports(page.read_text())] for page in PAGES}
    assert {page: names for page, names in found.items() if names} == {}


def test_the_files_that_the_pages_name_exist() -> None:
    names = {page: str(page.relative_to(CHECKOUT)) for page in PAGES}
    found = {
        name: wrong_places(page.read_text())
        for page, name in names.items()
        if not name.startswith(ELSEWHERE)
    }
    assert {page: places for page, places in found.items() if places} == {}


def test_a_wrong_import_and_a_wrong_place_are_found() -> None:
    assert [*wrong_imports("from counterpoint.core.errors import Nothing, UsageError\n")] == [
        "counterpoint.core.errors.Nothing"
    ]
    assert [*wrong_imports("import counterpoint.nothing\n")] == ["counterpoint.nothing"]
    assert wrong_places("see src/counterpoint/core/nothing.py and tests/conftest.py") == [
        "src/counterpoint/core/nothing.py"
    ]
