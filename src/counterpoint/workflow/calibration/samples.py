"""Samples: the times of instructions, and the share of that time beside a collective.

Times of single executions are those of PGLE profiles: the kernels of an instruction added up,
collectives without the wait for the last participant.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import polars as pl

from counterpoint.core.columns import union
from counterpoint.cost import CostModel, PriceFamily, PriceSource
from counterpoint.hlo import Instruction, Program
from counterpoint.hlo.schedule import loop_multiplier
from counterpoint.pgle.lookups import named_ops
from counterpoint.pgle.making import profiled_runs, samples
from counterpoint.timeline import Lane, Timeline

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


def priced(found: tuple[Sample, ...], model: CostModel) -> tuple[Sample, ...]:
    """Return the samples priced by a table or a formula, with their prices."""
    with_prices: list[Sample] = []
    for sample in found:
        price = model.price(sample.program, sample.instruction)
        if price.source in (PriceSource.TABLE, PriceSource.ANALYTIC) and price.seconds > 0:
            with_prices.append(
                replace(
                    sample, priced_s=price.seconds, family=price.family, bound_by=price.bound_by
                )
            )
    return tuple(with_prices)
