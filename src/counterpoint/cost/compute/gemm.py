"""The price of GEMMs: by a user's benchmark, by XLA's table, by the formula."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from counterpoint.cost.compute.gemm_model import Engine, Gemm, correction, tiled_seconds
from counterpoint.cost.compute.machine import Machine
from counterpoint.cost.price import Family, Price, Source, around
from counterpoint.cost.tables.gemm_csv import GemmTable
from counterpoint.hardware.chip import chip_named

_MEASURED_ON: Final = {"hopper": ("H100 SXM", 132), "blackwell": ("B200", 148)}
"""On which device XLA took its table: chip and cores."""
_TABLE_REACH: Final = 0.06
_FORMULA_REACH: Final = 0.12
_SMALL_FLOPS: Final = 2e10
"""Below some 30 us the library's choice of kernel decides: twice as unsure."""


def price_gemm(gemm: Gemm, machine: Machine, tables: Sequence[GemmTable] = ()) -> Price:
    """One GEMM alone."""
    for table in tables:
        seconds = table.seconds(gemm.batch, gemm.m, gemm.n, gemm.k, gemm.dtype)
        if seconds is not None:
            load = machine.scalars.matmul
            how = f"{gemm}, {table.origin}, at {load.value:.2f} of its rate under load"
            return around(seconds / load.value, load.reach + 0.02, Source.USER_TABLE,
                          Family.MATMUL, how)  # fmt: skip
    seconds, from_table = _seconds(gemm, _engine(machine, gemm.dtype), machine.architecture)
    scalar = machine.scalars.matmul
    seconds = seconds / scalar.value
    reach = scalar.reach + (_TABLE_REACH if from_table else _FORMULA_REACH)
    if gemm.flops < _SMALL_FLOPS:
        reach *= 2
    rate = gemm.flops / seconds
    how = f"{gemm}, {rate / 1e12:.0f} TFLOP/s, {rate / machine.peak(gemm.dtype):.0%} of peak"
    source = Source.TABLE if from_table else Source.ANALYTIC
    return around(seconds, reach, source, Family.MATMUL, how)


@lru_cache(maxsize=4096)
def _seconds(gemm: Gemm, engine: Engine, architecture: str) -> tuple[float, bool]:
    """At full clock; and whether a table had a say."""
    seconds = tiled_seconds(gemm, engine)
    measured = _MEASURED_ON.get(architecture)
    if measured is None:
        return seconds, False
    chip = chip_named(measured[0])
    if chip is None:
        return seconds, False
    peak = chip.flops.get(gemm.dtype, engine.peak)
    there = Engine(peak, chip.hbm_bytes, measured[1], engine.kernels)
    factor = correction(gemm, there, architecture)
    return (seconds, False) if factor is None else (seconds * factor, True)


def _engine(machine: Machine, dtype: str) -> Engine:
    return Engine(
        machine.peak(dtype), machine.memory_bytes_per_s, machine.cores, machine.gemm(dtype)
    )


def sum_of(prices: Sequence[Price]) -> Price:
    """Prices of one kernel after another, of one family, as the least sure of them."""
    first = max(prices, key=lambda it: it.seconds)
    return Price(
        math.fsum(it.seconds for it in prices),
        math.fsum(it.low for it in prices),
        math.fsum(it.high for it in prices),
        first.source,
        first.family,
        first.how if len(prices) == 1 else f"{len(prices)} GEMMs, the longest {first.how}",
    )
