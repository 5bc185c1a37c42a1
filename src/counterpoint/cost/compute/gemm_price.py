"""Prices of GEMMs: from a user's benchmark, else from XLA's table, else by the formula.

Only the sizes and the type of a GEMM affect its price.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Final

from counterpoint.cost.compute.gemm import Gemm
from counterpoint.cost.model import Price, PriceFamily, PriceSource, price_around
from counterpoint.hardware.chip import measured_lines

if TYPE_CHECKING:
    from counterpoint.cost.compute.kernels import GemmKernels
    from counterpoint.cost.compute.machine import ComputeDevice
    from counterpoint.cost.tables.gemm_csv import GemmTable

AXIS: Final = (256, 512, 1024, 2048, 4096)
BATCHES: Final = (1, 2, 4)
_TILES: Final = ((256, 128), (128, 256), (128, 128), (128, 64), (64, 128), (64, 64))
_SPLITS: Final = (1, 2, 3, 4, 6, 8)
_MEASURED_AS: Final = {"bf16": "bf16", "f16": "bf16", "tf32": "f32", "f8": "f8"}
_LEAST_K: Final = 256
_SPLIT_S: Final = 1e-6  # start of adding up the parts
_MOST_TILES: Final = 4  # per core: beyond, the last wave matters little

_TABLE_REACH: Final = 0.06
_FORMULA_REACH: Final = 0.12
_SMALL_FLOPS: Final = 2e10
"""Below about 30 us the library's choice of kernel decides: twice the uncertainty."""


@dataclass(frozen=True, slots=True)
class GemmDevice:
    """The hardware of GEMMs: its rates before any derating, and its kernels."""

    peak: float
    memory_bytes_per_s: float
    cores: int
    kernels: GemmKernels


@lru_cache(maxsize=4096)
def tiled_seconds(gemm: Gemm, engine: GemmDevice) -> float:
    """Return seconds by the formula alone.

    A GEMM library cuts the result into tiles and gives each core one after another, so the last
    wave may fill only a few cores. It picks the tile size, and whether to split k, that make the
    whole fastest; so does this formula. Memory decides where it is slower.
    """
    kernels = engine.kernels
    core_rate = engine.peak * kernels.share / engine.cores
    memory_rate = engine.memory_bytes_per_s * kernels.memory
    work = min(_by_tile(gemm, engine, core_rate, memory_rate))
    return kernels.start_us * 1e-6 + max(work, gemm.bytes / memory_rate)


def _by_tile(
    gemm: Gemm, engine: GemmDevice, core_rate: float, memory_rate: float
) -> Iterator[float]:
    kernels = engine.kernels
    partial = gemm.batch * gemm.m * gemm.n * 4 / memory_rate
    for rows, columns in _TILES:
        area = rows * columns
        share = 1.0 if area >= 1 << 15 else kernels.half if area >= 1 << 14 else kernels.quarter
        if area < 1 << 13:
            share *= 0.7
        tiles = -(-gemm.m // rows) * -(-gemm.n // columns) * gemm.batch
        for split in _SPLITS:
            crowded = tiles * split > _MOST_TILES * engine.cores
            if split > 1 and (crowded or gemm.k // split < _LEAST_K):
                break
            waves = -(-tiles * split // engine.cores)
            tile = 2.0 * area * gemm.k / split / (core_rate * share)
            adding = _SPLIT_S + partial * (split + 1) / 2 if split > 1 else 0.0
            yield waves * (tile + kernels.wave_us * 1e-6) + adding


_Points = Mapping[tuple[int, int, int, int], float]
"""FLOP/s by batch, m, n, k."""


@cache
def rates(table: str) -> Mapping[str, _Points]:
    """Return the FLOP/s that XLA measured on a chip, by type."""
    by_type: dict[str, _Points] = {}
    for line in measured_lines(table):
        kind, *values = line.split()
        points = itertools.product(BATCHES, AXIS, AXIS, AXIS)
        rated = (float(value) * 1e12 for value in values)
        by_type[kind] = dict(zip(points, rated, strict=True))
    return by_type


@lru_cache(maxsize=4096)
def correction(gemm: Gemm, engine: GemmDevice, table: str) -> float | None:
    """Return the factor from the formula to the table; None if it does not have the type.

    `engine` is the device that was measured.

    XLA's table holds rates for powers of two from 256 to 4096. The corrected formula is exact at
    the table's points and still counts waves between and beyond them.
    """
    points = rates(table).get(_MEASURED_AS.get(gemm.dtype, ""))
    if points is None:
        return None
    # Many small GEMMs fill the cores like one taller GEMM.
    batch = min(gemm.batch, BATCHES[-1])
    rows = gemm.m * gemm.batch / batch
    corners = [_bracket(size) for size in (rows, gemm.n, gemm.k)]
    near = max(batch_size for batch_size in BATCHES if batch_size <= batch)
    total = 0.0
    for corner in itertools.product(*corners):
        weight = math.prod(share for _, share in corner)
        if weight:
            (m, _), (n, _), (k, _) = corner
            point = near, m, n, k
            total += weight * _off(point, points[point], gemm, engine)
    return math.exp(total)


def _off(point: tuple[int, int, int, int], rate: float, gemm: Gemm, engine: GemmDevice) -> float:
    batch, m, n, k = point
    at = replace(gemm, batch=batch, m=m, n=n, k=k)
    return math.log(at.flops / rate / tiled_seconds(at, engine))


def _bracket(size: float) -> tuple[tuple[int, float], ...]:
    """Return the neighboring sizes on the axis, with their weights."""
    place = min(max(math.log2(max(size, 1) / AXIS[0]), 0.0), len(AXIS) - 1.0)
    low = min(int(place), len(AXIS) - 2)
    share = place - low
    return (AXIS[low], 1 - share), (AXIS[low + 1], share)


def price_gemm(gemm: Gemm, machine: ComputeDevice, tables: Sequence[GemmTable] = ()) -> Price:
    """Price one GEMM alone."""
    for table in tables:
        seconds = table.seconds(gemm.batch, gemm.m, gemm.n, gemm.k, gemm.dtype)
        if seconds is not None:
            load = machine.scalars.matmul
            how = f"{gemm}, {table.origin}, at {load.value:.2f} of its rate under load"
            return price_around(seconds / load.value, load.reach + 0.02, PriceSource.USER_TABLE,
                          PriceFamily.MATMUL, how)  # fmt: skip
    seconds, from_table = _seconds(gemm, machine)
    scalar = machine.scalars.matmul
    seconds = seconds / scalar.value
    reach = scalar.reach + (_TABLE_REACH if from_table else _FORMULA_REACH)
    if gemm.flops < _SMALL_FLOPS:
        reach *= 2
    rate = gemm.flops / seconds
    how = f"{gemm}, {rate / 1e12:.0f} TFLOP/s, {rate / machine.peak(gemm.dtype):.0%} of peak"
    source = PriceSource.TABLE if from_table else PriceSource.ANALYTIC
    return price_around(seconds, reach, source, PriceFamily.MATMUL, how)


def _seconds(gemm: Gemm, machine: ComputeDevice) -> tuple[float, bool]:
    """Return seconds at full clock, and whether a table was used."""
    engine, chip = _engine(machine, gemm.dtype), machine.measured_on
    seconds = tiled_seconds(gemm, engine)
    table = machine.kernels.gemm_table
    if not table or chip.gpu is None:
        return seconds, False
    peak = chip.flops.get(gemm.dtype, engine.peak)
    measured = GemmDevice(peak, chip.hbm_bytes, chip.gpu.cores, engine.kernels)
    factor = correction(gemm, measured, table)
    return (seconds, False) if factor is None else (seconds * factor, True)


def _engine(machine: ComputeDevice, dtype: str) -> GemmDevice:
    return GemmDevice(
        machine.peak(dtype), machine.memory_bytes_per_s, machine.cores, machine.gemm(dtype)
    )


def sum_of(prices: Sequence[Price]) -> Price:
    """Sum the prices of successive kernels of one family, with the source of the longest."""
    first = max(prices, key=lambda price: price.seconds)
    return Price(
        math.fsum(price.seconds for price in prices),
        math.fsum(price.low for price in prices),
        math.fsum(price.high for price in prices),
        first.source,
        first.family,
        first.how if len(prices) == 1 else f"{len(prices)} GEMMs, the longest {first.how}",
    )
