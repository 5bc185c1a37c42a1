"""Samples: how long instructions took, and how much of that time a collective ran beside them.

Times of single executions come from where PGLE profiles take them: kernels of one instruction
added up, collectives without the waiting of who comes first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import polars as pl

from counterpoint.core.columns import union
from counterpoint.cost import CostModel, Family, Source
from counterpoint.hlo import Instruction, Program
from counterpoint.hlo.schedule import loop_multiplier
from counterpoint.pgle.lookups import named_ops
from counterpoint.pgle.making import counted_runs, samples
from counterpoint.timeline import Lane, Timeline

_PS: float = 1e12


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One instruction as it was measured."""

    program: Program
    instruction: Instruction
    times: int  # executions in one step, 1 where the program does not tell
    measured_s: float  # of one execution, the median of all
    beside: float  # share of it during which a collective ran on the same device
    priced_s: float = 0.0
    family: Family = Family.LAUNCH
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
        """What it computes of what: equals are told by it."""
        reads = (str(it.shape) for it in self.program.operands(self.instruction))
        named = self.instruction.custom_call_target or self.instruction.opcode
        return (named, str(self.instruction.shape), *reads)


def recorded(timeline: Timeline) -> tuple[Sample, ...]:
    """Every instruction of a known program that the Timeline has times of, not yet priced."""
    ops = named_ops(timeline)
    runs = counted_runs(timeline).runs
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
    """By program and member: the share of its time during which a collective ran, too."""
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
    """Spans of work on one device with the time in which one of its collectives ran."""
    talking = spans.filter(pl.col("lane") == Lane.COLLECTIVE)
    work = spans.filter(pl.col("lane") != Lane.COLLECTIVE)
    start, end = _ends(work)
    covered = union(*_ends(talking)).covered(start, end) if len(talking) else np.zeros_like(start)
    return work.select("program", "member", "dur_ps").with_columns(
        covered=pl.Series(covered, dtype=pl.Int64)
    )


def _ends(spans: pl.DataFrame) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    start = spans["start_ps"].to_numpy()
    return start, start + spans["dur_ps"].to_numpy()


def priced(found: tuple[Sample, ...], model: CostModel) -> tuple[Sample, ...]:
    """Those whose price is a table's or a formula's, with it."""
    kept: list[Sample] = []
    for it in found:
        price = model.price(it.program, it.instruction)
        if price.source in (Source.TABLE, Source.ANALYTIC) and price.seconds > 0:
            kept.append(
                replace(it, priced_s=price.seconds, family=price.family, bound_by=price.bound_by)
            )
    return tuple(kept)
