"""Samples: the measured times of instructions, and the scalar that makes their prices right.

Times of single executions are those of PGLE profiles: the kernels of an instruction added up,
collectives without the wait for the last participant.

A scalar is fitted so that the sum of prices equals the sum of times: a step adds instructions up,
so their sum has to be right before any of them. Outliers (a kernel that is something else than it
seems) are excluded first. Samples are grouped by what they compute, so that those left out in turn
differ from those in the fit, and are not the same in another layer.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from counterpoint.core.columns import union
from counterpoint.cost.model import CostModel, PriceFamily, PriceSource
from counterpoint.hlo.loops import loop_multiplier
from counterpoint.hlo.model.instruction import Instruction
from counterpoint.hlo.model.program import Program
from counterpoint.pgle.making.samples import profiled_runs, samples
from counterpoint.pgle.named_ops import named_ops
from counterpoint.timeline.model import Lane, Timeline

_PS: float = 1e12


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One instruction with its measured time."""

    program: Program
    instruction: Instruction
    times: int  # executions in one step, 1 if the program does not tell
    measured_s: float  # of one execution, the median of all
    beside: float  # share of it during which a collective ran on the same device
    priced_s: float = 0.0
    family: PriceFamily = PriceFamily.LAUNCH
    bound_by: str = ""

    @property
    def weight(self) -> float:
        """Its time in one step."""
        return self.times * self.measured_s

    @property
    def ratio(self) -> float:
        """Predicted over measured."""
        return self.priced_s / self.measured_s

    @property
    def shapes(self) -> tuple[str, ...]:
        """A key of the computation and its shapes, the same for equal work."""
        reads = (str(operand.shape) for operand in self.program.operands(self.instruction))
        named = self.instruction.custom_call_target or self.instruction.opcode
        return (named, str(self.instruction.shape), *reads)


def recorded(timeline: Timeline) -> tuple[Sample, ...]:
    """Return every instruction of a known program with times in the Timeline, not yet priced."""
    ops = named_ops(timeline)
    runs = profiled_runs(timeline).runs
    times = samples(timeline, ops, runs).frame
    beside = _beside(timeline, ops, runs)
    medians = (
        times.group_by("program", "member")
        .agg(pl.col("ps").median(), pl.col("host").min())
        .join(beside, on=["program", "member"], how="left")
        .sort("program", "member")
    )
    return tuple(_samples(timeline, medians))


def _samples(timeline: Timeline, medians: pl.DataFrame) -> Iterator[Sample]:
    for row in medians.iter_rows(named=True):
        number, host = int(row["program"]), int(row["host"])
        program = timeline.programs[number].hlo(host)
        instruction = program.instruction(row["member"]) if program is not None else None
        if program is None or instruction is None or not row["ps"]:
            continue
        yield Sample(
            program=program,
            instruction=instruction,
            times=loop_multiplier(program, instruction.computation) or 1,
            measured_s=row["ps"] / _PS,
            beside=row["beside"] or 0.0,
        )


def _beside(timeline: Timeline, ops: pl.DataFrame, runs: pl.DataFrame) -> pl.DataFrame:
    """Return, by program and member, the share of time during which a collective ran, too."""
    named = ops.filter(
        pl.col("member").is_not_null()
        & (pl.col("lane") != Lane.CONTROL)
        & ~pl.col("async_window").fill_null(value=False)
    ).select("row", "program", "member", "lane")
    spans = timeline.spans.join(runs.select("run"), on="run").join(
        named, left_on="op", right_on="row"
    )
    shares = [_covered(of_device) for of_device in spans.partition_by("device")]
    if not shares:
        return spans.select("program", "member", beside=pl.lit(0.0))
    return (
        pl.concat(shares)
        .group_by("program", "member")
        .agg(beside=pl.col("covered").sum() / pl.col("dur_ps").sum())
    )


def _covered(spans: pl.DataFrame) -> pl.DataFrame:
    """Return spans of work on one device with the time in which one of its collectives ran."""
    collectives = spans.filter(pl.col("lane") == Lane.COLLECTIVE)
    work = spans.filter(pl.col("lane") != Lane.COLLECTIVE)
    start, end = _ends(work)
    covered = (
        union(*_ends(collectives)).covered(start, end) if len(collectives) else np.zeros_like(start)
    )
    return work.select("program", "member", "dur_ps").with_columns(
        covered=pl.Series(covered, dtype=pl.Int64)
    )


def _ends(spans: pl.DataFrame) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    start = spans["start_ps"].to_numpy()
    return start, start + spans["dur_ps"].to_numpy()


def priced(samples: tuple[Sample, ...], model: CostModel) -> tuple[Sample, ...]:
    """Return the samples priced by a table or a formula, with their prices."""
    with_prices: list[Sample] = []
    for sample in samples:
        price = model.price(sample.program, sample.instruction)
        if price.source in (PriceSource.TABLE, PriceSource.ANALYTIC) and price.seconds > 0:
            with_prices.append(
                replace(
                    sample, priced_s=price.seconds, family=price.family, bound_by=price.bound_by
                )
            )
    return tuple(with_prices)


_FAR: Final = 3.0
"""A price wrong by a larger factor is not explained by a scalar."""
_FOLDS: Final = 5
_ALONE: Final = 0.1
"""Up to this share of its time beside a collective, an instruction counts as alone."""
_BESIDE: Final = 0.5
_ENOUGH: Final = 0.01
"""Share of the time of all work that must have run beside collectives to show their effect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Factor:
    """The factor by which prices are too long, with its errors and the samples it rests on."""

    value: float
    reach: float
    kept: tuple[Sample, ...]
    dropped: int
    error_before: float
    error_after: float
    unseen: float | None


def alone(samples: Sequence[Sample]) -> tuple[Sample, ...]:
    """Return the samples without a collective beside them, or all of them if these are few."""
    free = tuple(sample for sample in samples if sample.beside <= _ALONE)
    return free if _weight(free) > 0.2 * _weight(samples) else tuple(samples)


def fit_factor(samples: Sequence[Sample]) -> Factor | None:
    """Fit the ratio of predicted to measured time; None without samples."""
    if not samples:
        return None
    middle = weighted_median(
        [sample.ratio for sample in samples], [sample.weight for sample in samples]
    )
    inliers = tuple(sample for sample in samples if middle / _FAR <= sample.ratio <= middle * _FAR)
    value = _ratio(inliers)
    apart = [abs(math.log(sample.ratio / value)) for sample in inliers]
    spread = weighted_median(apart, [sample.weight for sample in inliers])
    return Factor(
        value=value,
        reach=min(max(spread, 0.02), 0.5),
        kept=inliers,
        dropped=len(samples) - len(inliers),
        error_before=_error(inliers, 1.0),
        error_after=_error(inliers, value),
        unseen=_unseen(inliers),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Slowdown:
    """The slowdown of work beside a collective: median, spread and number of kinds of work."""

    value: float
    apart: float
    kinds: int
    pressed: tuple[tuple[Sample, float], ...]  # beside a collective, and seconds alone

    def error(self, value: float) -> float:
        """Return the error for work beside collectives, if it is slowed down by this value."""
        off = sum(
            sample.times * abs(alone_s * (1 + value * sample.beside) - sample.measured_s)
            for sample, alone_s in self.pressed
        )
        return off / _weight([sample for sample, _ in self.pressed])


def fit_slowdown(samples: Sequence[Sample]) -> Slowdown | None:
    """Fit the slowdown to equal work alone and beside collectives; None without enough of it.

    Only the same computation on the same shapes is compared: alone in one place of the schedule,
    beside a collective in another.
    """
    slower: list[float] = []
    weights: list[float] = []
    compared: list[tuple[Sample, float]] = []
    for equals in _by_shapes(samples).values():
        free = [sample for sample in equals if sample.beside <= _ALONE]
        pressed = [sample for sample in equals if sample.beside >= _BESIDE]
        if free and pressed:
            usual = float(np.median([sample.measured_s for sample in free]))
            longer = [(sample.measured_s / usual - 1) / sample.beside for sample in pressed]
            slower.append(float(np.median(longer)))
            weights.append(_weight(pressed))
            compared += [(sample, usual) for sample in pressed]
    if sum(weights) < _ENOUGH * _weight(samples):
        return None
    middle = min(max(weighted_median(slower, weights), 0.0), 1.0)
    apart = weighted_median([abs(value - middle) for value in slower], weights)
    return Slowdown(value=middle, apart=apart, kinds=len(slower), pressed=tuple(compared))


def weighted_median(values: Sequence[float], weights: Sequence[float]) -> float:
    """Return the value with half of the weight below it."""
    half, reached = sum(weights) / 2, 0.0
    for value, weight in sorted(zip(values, weights, strict=True)):
        reached += weight
        if reached >= half:
            return value
    return max(values)


def _unseen(samples: Sequence[Sample]) -> float | None:
    """Return the error on kinds of work left out in turn."""
    kinds = sorted(_by_shapes(samples).items())
    if len(kinds) < 2:
        return None
    folds = min(_FOLDS, len(kinds))
    off = 0.0
    for fold in range(folds):
        out = [
            sample
            for at, (_, equals) in enumerate(kinds)
            if at % folds == fold
            for sample in equals
        ]
        seen = [
            sample
            for at, (_, equals) in enumerate(kinds)
            if at % folds != fold
            for sample in equals
        ]
        off += _error(out, _ratio(seen)) * _weight(out)
    return off / _weight(samples)


def _by_shapes(samples: Sequence[Sample]) -> dict[tuple[str, ...], list[Sample]]:
    kinds: dict[tuple[str, ...], list[Sample]] = {}
    for sample in samples:
        kinds.setdefault(sample.shapes, []).append(sample)
    return kinds


def _ratio(samples: Sequence[Sample]) -> float:
    return sum(sample.times * sample.priced_s for sample in samples) / _weight(samples)


def _error(samples: Sequence[Sample], factor: float) -> float:
    """Return the sum of the errors of single instructions, divided by their time."""
    off = sum(
        sample.times * abs(sample.priced_s / factor - sample.measured_s) for sample in samples
    )
    return off / _weight(samples)


def _weight(samples: Sequence[Sample]) -> float:
    return sum(sample.weight for sample in samples)
