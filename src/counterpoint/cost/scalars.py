"""Scalars: the few numbers that measured runs decide, and where each comes from.

Everything else in the cost model is a table or a formula. Few, so that a handful of measured steps
can fit them without learning those steps by heart.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources

from counterpoint.hardware.architecture import architecture_of


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


@cache
def default_scalars(chip: str) -> Scalars:
    """What holds for a chip of that name until someone calibrates."""
    file = resources.files("counterpoint.cost").joinpath("scalars.toml")
    sections = tomllib.loads(file.read_text("utf-8"))
    values = sections["default"] | sections.get(architecture_of(chip), {})
    return Scalars(**{name: Scalar(**value) for name, value in values.items()})
