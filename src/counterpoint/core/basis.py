"""How a number was obtained, its range, and the value used if there is none.

Every figure that Counterpoint shows is measured, predicted or a rule of thumb; a figure that can't
be known is `Unknown` with its reason, never 0.0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias


class Basis(StrEnum):
    """The way in which a figure was obtained."""

    MEASURED = "measured"
    PREDICTED = "predicted"
    RULE_OF_THUMB = "rule of thumb"


@dataclass(frozen=True, slots=True)
class Range:
    """A figure's uncertainty: the true value is expected between `low` and `high`."""

    low: float
    high: float

    def __post_init__(self) -> None:
        if not self.low <= self.high:
            raise ValueError(f"a range runs from low to high, not {self.low} to {self.high}")


@dataclass(frozen=True, slots=True)
class Unknown:
    """A figure that can't be known, and why."""

    reason: str


Drawer: TypeAlias = Callable[[object], str]

_LISTED = 2
_LONGEST = 60
_drawers: list[Drawer] = []


def set_html_renderer(drawer: Drawer) -> None:
    """Set the function that draws values from now on.

    Only the report can draw, and the packages below it must not import it. So counterpoint/__init__
    registers a drawer here, which loads the report when a notebook first shows a value.
    """
    _drawers[:] = [drawer]


def as_html(value: object) -> str | None:
    """Return the value as HTML; None, which shows its `repr`, if there is no drawer."""
    return _drawers[0](value) if _drawers else None


def shorten_names(names: Sequence[str]) -> str:
    """Format file names for a `repr`: the ends of the first ones, and how many more there are."""
    shortened = [name if len(name) <= _LONGEST else f"…{name[1 - _LONGEST :]}" for name in names]
    more = len(shortened) - _LISTED
    return ", ".join(map(repr, shortened[:_LISTED])) + (f" and {more} more" if more > 0 else "")
