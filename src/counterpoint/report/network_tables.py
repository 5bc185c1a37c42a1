"""Tables of the network report: columns with their cells, in the words that they are shown in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from counterpoint.diagnose.network.wire import Link
from counterpoint.report import units
from counterpoint.report.document import Column, Kind, Table, printable
from counterpoint.report.places import distinct

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
    words: bool = False  # to be folded, not shortened
    rank: int = 0

    @property
    def kind(self) -> Kind:
        """How its cells are shortened."""
        if self.number:
            return Kind.NUMBER
        return Kind.WORD if self.words else Kind.NAME


def table(told: Sequence[Told]) -> Table:
    """The columns in which anything is known."""
    kept = [one for one in told if any(cell != units.UNKNOWN for cell in one.cells)]
    return Table(
        columns=tuple(Column(one.title, one.kind, one.rank) for one in kept),
        rows=tuple(zip(*(one.cells for one in kept), strict=True)),
    )


def names(rows: Sequence[Mapping[str, Any]], key: str) -> list[str]:
    """Texts that come from files."""
    texts = [units.UNKNOWN if row[key] is None else printable(str(row[key])) for row in rows]
    return distinct(texts, _LONGEST_NAME)
