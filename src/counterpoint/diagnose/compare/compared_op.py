"""Compared ops: the ops of a side, with all by which those of two sides can be matched."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass
from itertools import groupby
from statistics import stdev
from typing import Any, Final

import polars as pl

from counterpoint.diagnose.attribution import holding
from counterpoint.diagnose.collectives.collectives import collective_profile
from counterpoint.diagnose.step_data import StepData
from counterpoint.hlo.model.instruction import Instruction
from counterpoint.hlo.model.program import Program
from counterpoint.hlo.provenance import provenance, stable_key
from counterpoint.timeline.model import Lane, Timeline

STEP: Final = ""
"""Label of the step's program on either side, whatever its name."""

_WORKSPACE: Final = re.compile(r", [su]8\[\d+\](\{0\})?\)")
"""The last part of a tuple with further parts: workspace bytes."""

Atom = tuple[str, str, str]
"""Scope (or the source line if there is none), primitive and phase."""

_FACTS: Final = (
    *("opcode", "category", "lane", "collective", "bytes", "group_size"),
    *("scope", "source", "phase", "position", "flops", "bytes_accessed"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedOp:
    """An op. Times are of a median step, mean over devices; `held_ms` adds up to the busy time.

    `error_ms` is the standard error of `held_ms` over the steps; None with only one step.

    `key` is the stable key without the number that distinguishes equal instructions: those are
    matched in the order of the schedule. `content` is what the user wrote that is inside, several
    entries where XLA fused them.
    """

    program: str
    op: str
    order: tuple[str, int]  # its computation, and its position there
    category: str
    lane: str
    phase: str | None
    scope: str | None
    source: str | None
    kind: str | None  # of a collective
    bytes: int | None
    group_size: int | None
    sync: bool
    primitive: str
    result: str | None  # shape
    key: Hashable  # None without HLO
    figures: Hashable  # what the profile itself records of its work; None if nothing
    content: frozenset[Atom]
    unscoped: Hashable  # opcode, shapes and content except scopes; None without HLO
    count: float
    self_ms: float
    held_ms: float
    error_ms: float | None

    @property
    def is_collective(self) -> bool:
        return self.kind is not None


def items_of(data: StepData) -> tuple[ComparedOp, ...]:
    """Return all ops that did work in the selected steps, in order of the schedule."""
    ops = _named(data)
    held = holding(data.selection, data.spans).join(
        ops.select("row", "program", name="op"), left_on="op", right_on="row"
    )
    per_step = held.group_by("program", "name", "step").agg(pl.col("held_ps").sum())
    totals = per_step.group_by("program", "name").agg(
        pl.col("held_ps").sum() * data.selection.scale,
        pl.col("held_ps").filter(pl.col("step").is_not_null()).alias("each_ps"),
    )
    facts = ops.group_by(program="program", name="op", maintain_order=True).agg(
        pl.col(*_FACTS).drop_nulls().first()
    )
    known = totals.join(facts, on=["program", "name"], nulls_equal=True)
    rows = known.join(_costs(data), on=["program", "name"], how="left", nulls_equal=True)
    items = [_item(data, row) for row in rows.iter_rows(named=True)]
    return tuple(sorted(items, key=lambda item: (item.program, item.order, item.op)))


def _named(data: StepData) -> pl.DataFrame:
    """Return the Timeline's working ops under the names used by `ops` and `collectives`."""
    start = pl.when(pl.col("lane") == Lane.COLLECTIVE).then("pair")
    return data.timeline.ops.with_columns(
        row=pl.int_range(pl.len(), dtype=pl.UInt32), op=pl.coalesce(start, "op", "name")
    ).filter(pl.col("lane") != Lane.CONTROL)


def _costs(data: StepData) -> pl.DataFrame:
    """Return executions and self time; for collectives with windows only, those of the windows."""
    own = data.ops.select("program", pl.col("op").alias("name"), "count", "self_ms")
    windows = data.cached(collective_profile).select(
        "program", pl.col("op").alias("name"), "count", pl.col("total_ms").alias("self_ms")
    )
    both = pl.concat([own, windows], how="vertical_relaxed")
    return both.unique(["program", "name"], keep="first")


def _item(data: StepData, row: dict[str, Any]) -> ComparedOp:
    timeline = data.timeline
    index: int | None = row["program"]
    program = None if index is None else timeline.programs[index].hlo()
    instruction = program.instruction(row["name"]) if program else None
    known = (
        _HloFacts() if program is None or instruction is None else _hlo_facts(program, instruction)
    )
    opcode = instruction.opcode if instruction else row["opcode"] or ""
    return ComparedOp(
        program=label_of(timeline, index),
        op=row["name"],
        order=(instruction.computation, instruction.index)
        if instruction
        else ("", row["position"] or 0),
        category=row["category"] or "other",
        lane=row["lane"],
        phase=row["phase"],
        scope=row["scope"],
        source=row["source"],
        kind=row["collective"] if row["lane"] == Lane.COLLECTIVE else None,
        bytes=row["bytes"],
        group_size=row["group_size"],
        sync=instruction is not None and (instruction.is_sync or not opcode.endswith("-start")),
        primitive=known.primitive,
        result=known.result,
        key=known.key,
        figures=_figures(row),
        content=known.content,
        unscoped=known.unscoped,
        count=row["count"] or 0.0,
        self_ms=row["self_ms"] or 0.0,
        held_ms=row["held_ps"],
        error_ms=_error(row["each_ps"], data),
    )


def _figures(row: dict[str, Any]) -> Hashable:
    counters = (row["flops"], row["bytes_accessed"])
    if not any(counters) or not (row["scope"] or row["source"]):
        return None
    return (row["category"], row["scope"], row["source"], row["phase"], *counters)


def label_of(timeline: Timeline, program: int | None) -> str:
    """Return the label of a program, comparable between sides."""
    if program is None:
        return "?"
    return STEP if program == timeline.step_program else timeline.programs[program].name


def _error(each_ps: list[float], data: StepData) -> float | None:
    """Return the standard error of the mean over steps; an op may be absent from some steps."""
    steps = data.selection.windows["step"].n_unique()
    if steps < 2:
        return None
    each = [*each_ps, *([0.0] * max(steps - len(each_ps), 0))]
    a_step = data.selection.scale * steps  # from a sum over devices to the mean of a step
    return stdev(each) * a_step / steps**0.5


@dataclass(frozen=True, slots=True)
class _HloFacts:
    """Facts from the HLO about an instruction."""

    primitive: str = ""
    result: str | None = None
    key: Hashable = None
    content: frozenset[Atom] = frozenset()
    unscoped: Hashable = None


def _hlo_facts(program: Program, it: Instruction) -> _HloFacts:
    key = stable_key(program, it)
    fused = program.body(it) if it.opcode == "fusion" else ()
    content = frozenset(filter(None, (_atom(program, instruction) for instruction in (it, *fused))))
    shapes = _no_workspace(it, str(key.shapes))
    return _HloFacts(
        primitive=provenance(program, it).primitive,
        result=_no_workspace(it, str(it.shape)),  # its size depends on the chip
        key=(key.scope, key.phase, key.opcode, shapes),
        content=content,
        unscoped=(
            key.opcode,
            shapes,
            frozenset(Counter(primitive for _, primitive, _ in content).items()),
        ),
    )


def _no_workspace(instruction: Instruction, shape: str) -> str:
    if instruction.opcode != "custom-call":
        return shape
    return _WORKSPACE.sub(")", shape)


def _atom(program: Program, instruction: Instruction) -> Atom | None:
    """Return what the user wrote; None for what XLA made."""
    if not instruction.op_name or instruction.opcode in ("parameter", "constant"):
        return None
    where = provenance(program, instruction)
    # A layer of an unrolled loop has its name twice: `layers/layers/mlp`.
    place = "/".join(part for part, _ in groupby(where.scope.split("/"))) or where.source or ""
    return (place, where.primitive, str(where.phase)) if place or where.primitive else None
