"""Tables of the network report: columns with their cells, in the words that they are shown in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from counterpoint.diagnose.network.wire import Link
from counterpoint.report import units
from counterpoint.report.document import Column, Kind, Table, printable
from counterpoint.report.places import without_middle

SPELT: Final[Mapping[str | None, str]] = {
    Link.DOMAIN: "domain",
    Link.NETWORK: "network",
    Link.ICI: "ICI",
    Link.DCN: "DCN",
}
"""Links, as people call them."""

_LONGEST_NAME: Final = 60


@dataclass(frozen=True, slots=True)
class Told:
    """A column; those of higher rank go first where there is no room."""

    title: str
    cells: Sequence[str]
    number: bool = False
    rank: int = 0


def table(told: Sequence[Told]) -> Table:
    """The columns in which anything is known."""
    kept = [one for one in told if any(cell != units.UNKNOWN for cell in one.cells)]
    return Table(
        columns=tuple(
            Column(one.title, Kind.NUMBER if one.number else Kind.NAME, one.rank) for one in kept
        ),
        rows=tuple(zip(*(one.cells for one in kept), strict=True)),
    )


def names(rows: Sequence[Mapping[str, Any]], key: str) -> list[str]:
    """Texts that come from files."""
    return [
        units.UNKNOWN
        if row[key] is None
        else without_middle(printable(str(row[key])), _LONGEST_NAME)
        for row in rows
    ]
