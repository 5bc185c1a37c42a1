"""Lines of an XSpace written by column: millions of events in seconds.

A varint is as long as its number needs. So each field of all events becomes a table of bytes with a
mask of those that count; tables stand side by side, and what the mask keeps, row by row, is the
line. The format is in docs/formats/xplane.md; tests/timeline/xspace_builder.py writes the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray
from xspace_builder import Line

Bytes = NDArray[np.uint8]
Longs = NDArray[np.int64]

_AT_ONCE: Final = 1 << 15


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """A column of byte strings of different lengths: those of a row that `counts` marks."""

    bytes: Bytes
    counts: NDArray[np.bool_]

    @property
    def lengths(self) -> Longs:
        """Of each row."""
        return self.counts.sum(axis=1)

    def __getitem__(self, rows: Longs) -> Cells:
        return Cells(self.bytes[rows], self.counts[rows])


def varints(values: Longs) -> Cells:
    """Numbers that are not negative, as protobuf writes them."""
    width = max(1, (int(values.max(initial=0)).bit_length() + 6) // 7)
    shifts = np.arange(0, 7 * width, 7)
    groups = (values[:, None] >> shifts) & 0x7F
    more = (values[:, None] >> (shifts + 7)) > 0
    counts = np.ones(groups.shape, bool)
    counts[:, 1:] = more[:, :-1]
    return Cells((groups | (more.astype(np.int64) << 7)).astype(np.uint8), counts)


def texts(strings: Sequence[bytes]) -> Cells:
    """Byte strings as a column, one row each."""
    width = max(map(len, strings), default=0)
    rows = np.zeros((len(strings), width), np.uint8)
    for row, string in enumerate(strings):
        rows[row, : len(string)] = np.frombuffer(string, np.uint8)
    lengths = np.array([len(string) for string in strings])
    return Cells(rows, np.arange(width) < lengths[:, None])


def constant(string: bytes, rows: int) -> Cells:
    """The same in every row."""
    return texts([string])[np.zeros(rows, np.int64)]


def joined(columns: Sequence[Cells]) -> Cells:
    """Columns side by side as one."""
    return Cells(
        np.hstack([column.bytes for column in columns]),
        np.hstack([column.counts for column in columns]),
    )


@dataclass(frozen=True, slots=True, eq=False)
class EventColumns:
    """Events of one line. `kind` chooses `ids` (metadata id) and `stats` (encoded stats).

    `numbered` is the id of a stat that counts the events, as CUPTI's correlation ids do; 0: none.
    """

    kind: Longs
    offset_ps: Longs
    duration_ps: Longs
    ids: Longs
    stats: Sequence[bytes]
    numbered: int = 0

    def encode(self) -> bytes:
        """All events, as they lie in the file."""
        stats = texts(self.stats)
        return b"".join(
            self._encode(first, min(first + _AT_ONCE, len(self.kind)), stats)
            for first in range(0, len(self.kind), _AT_ONCE)
        )

    def _encode(self, first: int, last: int, stats: Cells) -> bytes:
        rows, kind = slice(first, last), self.kind[first:last]
        count = last - first
        body = [
            constant(b"\x08", count),
            varints(self.ids[kind]),
            constant(b"\x10", count),
            varints(self.offset_ps[rows]),
            constant(b"\x18", count),
            varints(self.duration_ps[rows]),
        ]
        if self.numbered:
            number = joined([constant(b"\x18", count), varints(np.arange(first + 1, last + 1))])
            stat = joined([constant(bytes([0x08, self.numbered]), count), number])
            body += [constant(b"\x22", count), varints(stat.lengths), stat]
        body.append(stats[kind])
        whole = joined(body)
        event = joined([constant(b"\x22", count), varints(whole.lengths), whole])
        return event.bytes[event.counts].tobytes()


@dataclass
class PackedLine(Line):
    """A line whose events are there already."""

    packed: list[bytes] = field(default_factory=list[bytes])

    def encode(self) -> bytes:
        return super().encode() + b"".join(self.packed)
