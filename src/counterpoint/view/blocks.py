"""Blocks: columns of numbers as a browser's typed arrays, and tables of text as JSON.

    block: u32 length of the header, header (JSON), columns, each aligned to 8 bytes
    column: u8, u16, u32 or f64, little-endian; value = (sum of deltas, or stored) * unit + base

The narrowest type is chosen that holds every value exactly (docs/formats/levels.md). Only times of
more than 2.5 hours, which no step takes, are rounded: to 53 bits.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

_ALIGNMENT: Final = 8
_UNIT: Final = 1000
"""Picoseconds of a nanosecond: most profilers count in nanoseconds."""
_TYPES: Final = (("u8", np.uint8), ("u16", np.uint16), ("u32", np.uint32))
_LEVEL: Final = 6


def encode(columns: Mapping[str, NDArray[Any]]) -> bytes:
    """Return a block of integer columns; times should be sorted.

    The first column says how many rows there are; one of another length says its own.
    """
    rows = len(next(iter(columns.values()))) if columns else 0
    described: dict[str, dict[str, Any]] = {}
    stored: list[NDArray[Any]] = []
    for name, values in columns.items():
        described[name], data = _column(values.astype(np.int64))
        if len(values) != rows:
            described[name]["rows"] = len(values)
        stored.append(data)
    # Positions count from the end of the header, whose length depends on them.
    at = 0
    for description, data in zip(described.values(), stored, strict=True):
        description["at"] = at
        at += _padded(data.nbytes)
    header = _header(rows, described)
    parts = [len(header).to_bytes(4, "little"), header]
    for data in stored:
        parts += [data.tobytes(), bytes(_padded(data.nbytes) - data.nbytes)]
    return b"".join(parts)


def _header(rows: int, described: dict[str, dict[str, Any]]) -> bytes:
    text = json.dumps({"rows": rows, "columns": described}, separators=(",", ":")).encode()
    return text.ljust(_padded(len(text) + 4) - 4)


def _padded(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def _column(values: NDArray[np.int64]) -> tuple[dict[str, Any], NDArray[Any]]:
    unit = _UNIT if len(values) and not (values % _UNIT).any() else 1
    scaled = values // unit
    is_sorted = len(scaled) > 1 and bool((scaled[1:] >= scaled[:-1]).all())
    base = int(scaled[0]) if is_sorted else 0
    kind, data = _typed(np.diff(scaled, prepend=base) if is_sorted else scaled)
    return {"delta": is_sorted, "unit": unit, "base": base * unit, "type": kind}, data


def _typed(values: NDArray[np.int64]) -> tuple[str, NDArray[Any]]:
    least, most = (int(values.min()), int(values.max())) if len(values) else (0, 0)
    if least >= 0:
        for name, kind in _TYPES:
            if most <= np.iinfo(kind).max:
                return name, values.astype(np.dtype(kind).newbyteorder("<"))
    return "f64", values.astype("<f8")


def encode_table(table: Mapping[str, Any]) -> bytes:
    """Return a block of JSON."""
    return json.dumps(table, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode()


def embedded(block: bytes) -> str:
    """Return a block as text for an element of a page: compressed (zlib), then base64."""
    return base64.b64encode(zlib.compress(block, _LEVEL)).decode()
