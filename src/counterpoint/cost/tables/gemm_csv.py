"""GEMM benchmarks of the user's own: a CSV of shapes with the time or the rate that each reached."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class GemmRow:
    """One benchmark: C[batch, m, n] = A[batch, m, k] B[batch, k, n]."""

    batch: int
    m: int
    n: int
    k: int
    dtype: str
    seconds: float


@dataclass(frozen=True, slots=True)
class GemmTable:
    """Measured GEMMs."""

    rows: tuple[GemmRow, ...]
    origin: str


def read_gemm_csv(path: Path) -> GemmTable:
    """Read a CSV with columns m, n, k, and a time or a rate; InputError where it has none."""
    raise NotImplementedError
