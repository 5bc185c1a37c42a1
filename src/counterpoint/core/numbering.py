"""Number the distinct rows of integer columns, without sorting where a table will do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

Longs = NDArray[np.int64]

_DENSE: Final = 1 << 18
"""Combinations of values up to which a table is used to number them."""

_ABSENT: Final = -1


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
