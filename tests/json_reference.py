"""Results as the reference pages say: each key, of its type, and no other."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

PAGES = Path(__file__).parents[1] / "docs" / "reference"


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_list(check: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: isinstance(value, list) and all(map(check, value))


TYPES: dict[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "strings": is_list(lambda value: isinstance(value, str)),
    "bool": lambda value: isinstance(value, bool),
    "int": lambda value: is_number(value) and isinstance(value, int),
    "ints": is_list(lambda value: isinstance(value, int)),
    "number": is_number,
    "two numbers": lambda value: is_list(is_number)(value) and len(value) == 2,
    "object": lambda value: isinstance(value, dict),
    "objects": is_list(lambda value: isinstance(value, dict)),
    "null": lambda value: value is None,
}


def documented(page: Path) -> dict[str, dict[str, str]]:
    """Return the tables of a page: section, key, type."""
    sections: dict[str, dict[str, str]] = {}
    section = ""
    for line in page.read_text().splitlines():
        if line.startswith("## "):
            section = line.removeprefix("## ").replace("`", "")
        elif row := re.match(r"\| `(\w+)` \| ([^|]+) \|", line):
            sections.setdefault(section, {})[row[1]] = row[2]
    return sections


def check_documented(data: dict[str, Any], page: Path) -> None:
    """Fail unless a result has the keys of its page, of the types that it says."""
    for section, keys in documented(page).items():
        for entry in objects(data, section):
            assert set(entry) == set(keys), section
            for key, kind in keys.items():
                allowed = any(TYPES[one](entry[key]) for one in kind.split(" or "))
                assert allowed, f"{section}.{key}: {entry[key]!r} is no {kind}"


def objects(data: dict[str, Any], section: str) -> Iterator[dict[str, Any]]:
    """Yield the objects of a section, which names one path or several: `steps`, `findings.gaps`."""
    for path in section.split(", "):
        found: list[Any] = [data]
        for key in filter(None, path.split(".")):
            inner = [entry[key] for entry in found if entry[key] is not None]
            found = [one for it in inner for one in (it if isinstance(it, list) else [it])]
        yield from found
