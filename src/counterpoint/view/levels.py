"""Levels of a lane: its segments at one scale, as columns (docs/formats/levels.md)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from counterpoint.view.blocks import encode
from counterpoint.view.segments import Longs

Columns: TypeAlias = dict[str, NDArray[Any]]

_TILE: Final = 2048
"""Segments of a tile: what a browser fetches and decodes at once."""


@dataclass(frozen=True, eq=False, kw_only=True)
class LevelColumns:
    """One level of a lane: the columns of its segments in all rows, sorted by start.

    `exposed` are the moments at which exposed time begins and ends, in turns: where spans of
    collectives are cut. A tile has those that it needs, so a browser needs no other tile for it.
    """

    width: int
    columns: Columns
    exposed: Longs | None = None
    borders: tuple[int, ...] = ()
    """Rows at which a tile ends, so that one step can be had alone."""

    def __len__(self) -> int:
        return len(self.columns["start"])

    @cached_property
    def tiles(self) -> list[slice]:
        return [
            slice(at, min(at + _TILE, last))
            for first, last in pairwise((0, *self.borders, len(self)))
            for at in range(first, last, _TILE)
        ]

    @cached_property
    def extents(self) -> list[tuple[int, int]]:
        """Start and latest end of each tile."""
        start, end = self.columns["start"], self.columns["start"] + self.columns["dur"]
        return [(int(start[tile][0]), int(end[tile].max())) for tile in self.tiles]

    def block(self, tile: int) -> bytes:
        rows = self.tiles[tile]
        columns = {name: column[rows] for name, column in self.columns.items()}
        if self.exposed is not None:
            columns["cuts"] = _cuts(self.exposed, columns)
        return encode(columns)


def _cuts(exposed: Longs, columns: Columns) -> Longs:
    """Return the exposed intervals in which spans lie that are exposed in part, as moments."""
    partly = (columns["exposed"] > 0) & (columns["exposed"] < columns["dur"])
    start = columns["start"][partly]
    begins, ends = exposed[::2], exposed[1::2]
    first = np.searchsorted(ends, start, side="right")
    last = np.searchsorted(begins, start + columns["dur"][partly], side="left")
    change = np.bincount(first, minlength=len(begins) + 1)
    change -= np.bincount(last, minlength=len(begins) + 1)
    return exposed.reshape(-1, 2)[np.cumsum(change)[:-1] > 0].reshape(-1)
