"""Scalars: the few numbers that measured runs decide, and where each comes from.

Everything else in the cost model is a table or a formula. Few, so that a handful of measured steps
can fit them without learning those steps by heart.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scalar:
    """One number: what it is, how far it may be off (a share of itself), and its source."""

    value: float
    reach: float
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Scalars:
    """What `counterpoint calibrate` fits."""

    # Share of the table's (or the chip's) matrix rate that GEMMs of a long step reach: clocks fall
    # under load, which a benchmark of one GEMM does not show.
    matmul: Scalar
    # Share of the data sheet's memory bandwidth that memory-bound fusions reach.
    memory: Scalar
    # The same for attention kernels, relative to the matrix rate.
    attention: Scalar
    # Share of a NIC's rate that large messages reach.
    network: Scalar
    # Share by which compute slows down while a collective runs beside it.
    slowdown: Scalar
