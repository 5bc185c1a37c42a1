"""How a value shows itself in a notebook: drawn by a report, which the rooms below can't import.

So a class asks here, and the package, which may import every room, plugs the drawer in when it is
imported itself (counterpoint/__init__.py). The drawer loads the report when something is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

Drawer: TypeAlias = Callable[[object], str]

_LISTED = 2
_LONGEST = 60
_drawers: list[Drawer] = []


def draw_with(drawer: Drawer) -> None:
    """Let values be drawn by this one from now on."""
    _drawers[:] = [drawer]


def drawn(value: object) -> str | None:
    """The value as HTML; None, which shows its `repr`, where nothing draws."""
    return _drawers[0](value) if _drawers else None


def listed(names: Sequence[str]) -> str:
    """Names of files for a `repr`: the first ones, each with its end, and how many more."""
    told = [name if len(name) <= _LONGEST else f"…{name[1 - _LONGEST :]}" for name in names]
    more = len(told) - _LISTED
    return ", ".join(map(repr, told[:_LISTED])) + (f" and {more} more" if more > 0 else "")
