"""Number the distinct rows of integer columns; name numbers by their ranges."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

Longs = NDArray[np.int64]

_DENSE: Final = 1 << 18
"""Combinations of values up to which a table is used to number them."""

_ABSENT: Final = -1
_RANGES: Final = 6


def distinct(columns: Sequence[Longs]) -> tuple[Longs, Longs]:
    """Where each distinct row first stands, and which of them each row is.

    Columns are ids: small numbers in a narrow range, so a table of all combinations is far cheaper
    than sorting. Columns that are not (a hash as program id) are numbered first.
    """
    code = np.zeros(len(columns[0]), np.int64)
    room = 1
    for column in columns:
        low, high = int(column.min()), int(column.max())
        if high - low >= _DENSE:
            _, numbered = np.unique(column, return_inverse=True)
            low, high = 0, int(numbered.max())
        else:
            numbered = column - low
        if room * (high - low + 1) > _DENSE:
            _, code = np.unique(code, return_inverse=True)
            room = int(code.max()) + 1
        code = code * (high - low + 1) + numbered
        room *= high - low + 1
    if room > _DENSE:
        _, first, code = np.unique(code, return_index=True, return_inverse=True)
        return first, code
    table = np.full(room, _ABSENT, np.int64)
    table[code[::-1]] = np.arange(len(code) - 1, -1, -1)
    present = np.flatnonzero(table != _ABSENT)
    first = table[present]
    table[present] = np.arange(len(present))
    return first, table[code]


def as_ranges(numbers: Iterable[int]) -> str:
    """`5 to 14`, `3`, or `0 to 4 and 10 to 14`; of many ranges, the first ones."""
    ranges: list[tuple[int, int]] = []
    for number in sorted(set(numbers)):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    shown = [str(low) if low == high else f"{low} to {high}" for low, high in ranges[:_RANGES]]
    if len(ranges) > _RANGES:
        return f"{', '.join(shown)}, and others up to {ranges[-1][1]}"
    return " and ".join(filter(None, (", ".join(shown[:-1]), shown[-1]))) if shown else "none"
