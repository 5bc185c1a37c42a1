"""Reads the user's own GEMM benchmarks.

A CSV of shapes with the time or the rate of each: `m,n,k,dtype,tflops`, or with `b` or `batch`, and
`seconds`, `ms`, `us`, `tflops`, `gflops` in place of the rate. Case and blanks do not matter; other
columns are ignored.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from counterpoint.core import InputError
from counterpoint.core.opening import read_input

_SPELLINGS: Final[Mapping[str, tuple[str, ...]]] = {
    "m": ("m", "dim_m", "rows"),
    "n": ("n", "dim_n", "cols", "columns"),
    "k": ("k", "dim_k", "inner"),
    "batch": ("batch", "b", "batch_size", "batch_count"),
    "dtype": ("dtype", "type", "precision", "datatype", "dtypes"),
}
_TIMES: Final = {
    "seconds": 1.0, "time_s": 1.0, "s": 1.0, "sec": 1.0, "ms": 1e-3, "time_ms": 1e-3,
    "milliseconds": 1e-3, "us": 1e-6, "time_us": 1e-6, "usec": 1e-6, "microseconds": 1e-6,
    "ns": 1e-9, "time_ns": 1e-9,
}  # fmt: skip
_RATES: Final = {
    "tflops": 1e12, "tflop/s": 1e12, "tflops/s": 1e12, "gflops": 1e9, "gflop/s": 1e9,
    "flops": 1.0, "flop/s": 1.0,
}  # fmt: skip
_TYPES: Final = {
    "bfloat16": "bf16", "float16": "f16", "fp16": "f16", "half": "f16", "fp8": "f8", "float8": "f8",
    "e4m3": "f8", "f8e4m3fn": "f8", "f8e5m2": "f8", "float8_e4m3fn": "f8", "float8_e5m2": "f8",
    "tf32": "tf32", "float32": "tf32", "fp32": "tf32", "f32": "tf32", "int8": "s8", "i8": "s8",
    "float64": "f64", "fp64": "f64", "fp4": "f4",
}  # fmt: skip
_EXAMPLE: Final = "a first line such as m,n,k,dtype,tflops"
_NEAR: Final = 1.5
"""Maximum factor between a size and a measured one, over all dimensions, for its rate to apply."""

Sizes = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class GemmRow:
    """One benchmark: C[batch, m, n] = A[batch, m, k] B[batch, k, n]."""

    batch: int
    m: int
    n: int
    k: int
    dtype: str
    seconds: float

    @property
    def flops(self) -> float:
        return 2.0 * self.batch * self.m * self.n * self.k


@dataclass(frozen=True)
class GemmTable:
    """Measured GEMMs."""

    rows: tuple[GemmRow, ...]
    origin: str

    def seconds(self, batch: int, m: int, n: int, k: int, dtype: str) -> float | None:
        """Return seconds of that GEMM, or of its transpose.

        The rate of a similar one is used if necessary; None if there is none.
        """
        rows = self._by_type.get(dtype, {})
        exact = rows.get((batch, m, n, k)) or rows.get((batch, n, m, k))
        if exact is not None:
            return exact.seconds
        wanted = (batch, m, n, k)
        near = min(rows.values(), key=lambda row: _distance(row, wanted), default=None)
        if near is None or _distance(near, wanted) > math.log(_NEAR):
            return None
        return near.seconds * (2.0 * batch * m * n * k) / near.flops

    @cached_property
    def _by_type(self) -> dict[str, dict[Sizes, GemmRow]]:
        by_type: dict[str, dict[Sizes, GemmRow]] = {}
        for row in self.rows:
            by_type.setdefault(row.dtype, {})[row.batch, row.m, row.n, row.k] = row
        return by_type


def _distance(row: GemmRow, wanted: Sizes) -> float:
    have = (row.batch, row.m, row.n, row.k)
    return sum(abs(math.log(a / b)) for a, b in zip(have, wanted, strict=True))


def read_gemm_csv(path: Path) -> GemmTable:
    """Read a CSV with columns m, n, k, and a time or a rate; raise InputError if there are none."""
    try:
        text = read_input(path).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"{path}: can't be read as a table", why=str(error), next=_EXAMPLE
        ) from error
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    reader = csv.reader(lines, delimiter=_delimiter(lines[0] if lines else ""))
    try:
        header = [name.strip().casefold() for name in next(reader, list[str]())]
        columns = _columns(path, header)
        rows = tuple(_row(path, columns, line, reader.line_num) for line in reader)
    except csv.Error as error:
        raise InputError(
            f"{path}: line {reader.line_num} can't be read as a table",
            why=str(error),
            next=_EXAMPLE,
        ) from None
    if not rows:
        raise InputError(
            f"{path}: contains no benchmark", why="there is no line after the header", next=_EXAMPLE
        )
    return GemmTable(rows, path.name)


def _delimiter(header: str) -> str:
    return next((character for character in (",", ";", "\t") if character in header), ",")


def _columns(path: Path, header: list[str]) -> dict[str, int]:
    columns: dict[str, int] = {}
    for name, spellings in _SPELLINGS.items():
        known = [header.index(column) for column in spellings if column in header]
        if known:
            columns[name] = known[0]
    measures = [column for column in (*_TIMES, *_RATES) if column in header]
    missing = [column for column in ("m", "n", "k") if column not in columns]
    if missing or not measures:
        lacking = [*missing, *([] if measures else ["a time or a rate"])]
        raise InputError(
            f"{path}: no GEMM benchmarks: {', '.join(lacking)} missing",
            why=f"its columns are {', '.join(header) or 'none'}",
            next=_EXAMPLE,
        )
    columns[measures[0]] = header.index(measures[0])
    return columns


def _row(path: Path, columns: dict[str, int], line: list[str], number: int) -> GemmRow:
    try:
        sizes = {column: int(float(line[columns[column]])) for column in ("m", "n", "k")}
        batch = int(float(line[columns["batch"]])) if "batch" in columns else 1
        named = next(column for column in columns if column in _TIMES or column in _RATES)
        value = float(line[columns[named]])
    except (IndexError, ValueError, OverflowError) as error:
        raise InputError(
            f"{path}: line {number}: {','.join(line)}", why=str(error), next=_EXAMPLE
        ) from error
    if min(*sizes.values(), batch) < 1 or not 0 < value < math.inf:
        raise InputError(
            f"{path}: line {number}: {','.join(line)}",
            why="sizes and times must be above zero",
            next=_EXAMPLE,
        )
    dtype_text = line[columns["dtype"]].strip().casefold() if "dtype" in columns else "bf16"
    dtype = _TYPES.get(dtype_text.split("x")[0], dtype_text)
    flops = 2.0 * batch * sizes["m"] * sizes["n"] * sizes["k"]
    seconds = value * _TIMES[named] if named in _TIMES else flops / (value * _RATES[named])
    return GemmRow(batch, sizes["m"], sizes["n"], sizes["k"], dtype, seconds)
