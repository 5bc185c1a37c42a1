"""What XLA makes of a flag that is given twice.

Mostly the last one wins. Three kinds differ, so that appending to inherited flags has to know:

    lists of strings      each adds to what was there; nothing takes an entry away again
    maps                  each adds its keys; the last value of a key wins
    lists of enum names   the last one replaces; `+NAME` and `-NAME` change what was there,
                          where the flag and the version know that form
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from counterpoint.flags.names import names

LISTS: Final = frozenset({"enums", "map", "strings"})
"""The types whose value is a list with commas."""


def is_list(name: str) -> bool:
    """Whether a flag's value is a list with commas."""
    return _type(name) in LISTS


def combine(name: str, earlier: str, later: str) -> str:
    """The one value that stands for both, given in this order."""
    kind = _type(name)
    if kind == "strings":
        return _union(earlier, later)
    if kind == "map":
        return _merged_map(earlier, later)
    if kind == "enums" and _is_change(later):
        return _changed(earlier, later)
    return later


def fold(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """One value per flag; a flag stands where it was given last."""
    flags: dict[str, str] = {}
    for name, value in pairs:
        earlier = flags.pop(name, None)
        flags[name] = value if earlier is None else combine(name, earlier, value)
    return flags


def add(earlier: str | None, value: str) -> str:
    """The value of a list flag with one more entry in it."""
    return value if not earlier else _union(earlier, value)


def _type(name: str) -> str:
    known = names().get(name)
    return known.type if known else ""


def _items(text: str) -> list[str]:
    return text.split(",") if text else []


def _union(earlier: str, later: str) -> str:
    return ",".join(dict.fromkeys([*_items(earlier), *_items(later)]))


def _merged_map(earlier: str, later: str) -> str:
    entries = {item.partition("=")[0]: item for item in [*_items(earlier), *_items(later)]}
    return ",".join(entries.values())


def _is_change(text: str) -> bool:
    items = _items(text)
    return bool(items) and all(item[:1] in ("+", "-") for item in items)


def _changed(earlier: str, later: str) -> str:
    """Changes of a list give a list; changes of changes stay changes, since the default counts."""
    if _is_change(earlier):
        return ",".join([*_items(earlier), *_items(later)])
    names = dict.fromkeys(_items(earlier))
    for item in _items(later):
        if item[0] == "+":
            names[item[1:]] = None
        else:
            names.pop(item[1:], None)
    return ",".join(names)
