"""Drawing of a simulated run as a Timeline: one device that represents all, one run, one step."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from counterpoint.core import Basis, InputError
from counterpoint.hardware.target import Target
from counterpoint.hlo.model.program import Program
from counterpoint.simulate.engine import BlockExecution, ExecutionTrace
from counterpoint.simulate.plan import Seconds
from counterpoint.simulate.priced_plan import PricedPlan
from counterpoint.timeline.model import (
    HOST_EVENTS,
    PRICED,
    RUNS,
    SPANS,
    STEPS,
    Device,
    Host,
    ProgramEntry,
    Timeline,
)
from counterpoint.timeline.ops import describe_ops
from counterpoint.timeline.recording import OPS as RECORDED_OPS
from counterpoint.timeline.recording import EmbeddedProgram

_PS: Final = 1e12
_LONGEST_PS: Final = 2**63 - 1
_RULE: Final = "one run of the program is one step"


def draw(
    program: Program,
    priced: PricedPlan,
    trace: ExecutionTrace,
    step_s: float,
    device: Device,
    target: Target | None,
    hlo: bytes | None,
) -> Timeline:
    """Return the Timeline of a run with likely prices, without notes."""
    plan = priced.plan
    names = [instruction.name for instruction in plan.instructions]
    known = {"name": names, "op": names, "async_window": False}
    ops = pl.DataFrame({column: known.get(column) for column in RECORDED_OPS}, schema=RECORDED_OPS)
    described = describe_ops(ops, [0] * len(ops), lambda _: program)
    described = described.with_columns(_priced(priced)).with_columns(
        pl.when(pl.col("collective").is_not_null()).then(name).alias(name) for name in PRICED
    )
    entry = ProgramEntry(
        program.name,
        () if program.fingerprint is None else (program.fingerprint,),
        {} if hlo is None else {0: EmbeddedProgram(program.name, lambda: hlo, parsed=program)},
    )
    end = round(step_s * _PS)
    once = {"device": [0], "start_ps": [0], "end_ps": [end], "step": [0]}
    return Timeline(
        basis=Basis.PREDICTED,
        inputs=(program.name,),
        hosts=(Host(name=_represented(target), source=program.name),),
        devices=(device,),
        lines=plan.streams,
        programs=(entry,),
        ops=described,
        spans=draw_spans(priced, trace),
        runs=pl.DataFrame({**once, "program": [0], "index": [0], "launched_ps": [None]})
        .select(*RUNS)
        .cast({**RUNS}),
        steps=pl.DataFrame({**once, "whole": [True], "steady": [True]})
        .select(*STEPS)
        .cast({**STEPS}),
        step_rule=_RULE,
        step_program=0,
        host_events=pl.DataFrame(schema=HOST_EVENTS),
        host_names=(),
        environment={},
        notes=(),
        truncated=False,
        target=None if target is None else str(target),
    )


def _represented(target: Target | None) -> str:
    """Return the name of the host: the devices that the only one represents."""
    return "one device represents all" + (f" {target.devices:,} of {target}" if target else "")


def _priced(priced: PricedPlan) -> list[pl.Series]:
    """Return columns with the basis of each instruction's price, and the links involved."""
    prices = priced.prices.prices
    columns = {
        "priced_how": [price.how or None for price in prices],
        "priced_link": [price.link or None for price in prices],
        "priced_bound": [price.bound_by or None for price in prices],
    }
    return [pl.Series(name, columns[name], kind) for name, kind in PRICED.items()]


def draw_spans(priced: PricedPlan, trace: ExecutionTrace) -> pl.DataFrame:
    """Return the spans of the Timeline; `op` is the index of an instruction in the plan."""
    parts = [_of_entry(priced, entry) for entry in trace.entries]
    nothing = (np.empty(0),) * 4  # all is in a loop that never runs
    op, line, start, end = (np.concatenate(column) for column in zip(nothing, *parts, strict=True))
    longest_s = float(end.max(initial=0.0))
    if not longest_s * _PS < _LONGEST_PS:
        raise InputError(
            f"a step of {longest_s:,.0f} s is longer than a Timeline can hold",
            why="its times are 64-bit picoseconds, at most 106 days",
        )
    start_ps = np.rint(start * _PS).astype(np.int64)
    dur_ps = np.rint(end * _PS).astype(np.int64) - start_ps
    kept = dur_ps > 0
    order = np.argsort(start_ps[kept], kind="stable")
    return pl.DataFrame(
        {
            "device": 0,
            "line": line[kept][order].astype(np.uint32),
            "op": op[kept][order].astype(np.uint32),
            "run": 0,
            "start_ps": start_ps[kept][order],
            "dur_ps": dur_ps[kept][order],
        },
        schema_overrides=SPANS,
    ).select(*SPANS)


def _of_entry(
    priced: PricedPlan, entry: BlockExecution
) -> tuple[Seconds, Seconds, Seconds, Seconds]:
    """Return op, line, start and end of every span of a block's executions."""
    block = priced.plan.blocks[entry.block]
    weights = priced.plan.weights[block.first : block.last]
    own = priced.prices.likely[block.first : block.last] * weights
    with_gap = own + priced.gap * weights * (own > 0)
    elapsed = np.concatenate([[0.0], np.cumsum(with_gap)])
    whole = elapsed[-1] or 1.0
    start = entry.when(elapsed[:-1] / whole)
    end = entry.when((elapsed[:-1] + own) / whole)
    shifts = entry.shifts()
    op = np.arange(block.first, block.last, dtype=np.float64)
    return (
        np.tile(op, len(shifts)),
        np.full(len(op) * len(shifts), block.stream, np.float64),
        (shifts[:, None] + start[None, :]).ravel(),
        (shifts[:, None] + end[None, :]).ravel(),
    )
