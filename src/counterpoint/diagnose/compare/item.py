"""An item: one op of one side, with what it cost and what it is known by in another compile.

Its `key` is the stable key without the number that tells equals apart: equals are matched in order
of the schedule. Its `content` is what the user wrote that is inside: several things where XLA
fused them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass
from itertools import groupby
from statistics import stdev
from typing import Any, Final

import polars as pl

from counterpoint.diagnose.case import Case
from counterpoint.diagnose.metrics.collectives import collective_profile
from counterpoint.diagnose.metrics.holding import holding
from counterpoint.hlo import Instruction, Program, provenance, stable_key
from counterpoint.timeline.model import Lane, Timeline

STEP: Final = ""
"""Stands for the step's program on either side, whatever its name."""

_WORKSPACE: Final = re.compile(r", [su]8\[\d+\](\{0\})?\)")
"""The last part of a tuple that holds more: bytes to work in."""

Atom = tuple[str, str, str]
"""Scope (or the source line where there is none), primitive and phase."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """Times are of a median step, mean over devices. `held_ms` adds up to the busy time.

    `error_ms` is the standard error of `held_ms` over the steps; None where one step was seen.
    """

    program: str
    op: str
    order: tuple[str, int]  # its computation, and as which one it stands there
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
    key: Hashable  # None where no HLO tells it
    figures: Hashable  # what the profile itself says of its work; None where it says nothing
    content: frozenset[Atom]
    unscoped: Hashable  # opcode, shapes and content but for scopes; None where no HLO tells it
    count: float
    self_ms: float
    held_ms: float
    error_ms: float | None

    @property
    def is_collective(self) -> bool:
        return self.kind is not None


def items_of(case: Case) -> tuple[Item, ...]:
    """All ops that did work in the selected steps, in order of the schedule."""
    ops = _named(case)
    held = holding(case.selection, case.spans).join(
        ops.select("row", "program", name="op"), left_on="op", right_on="row"
    )
    per_step = held.group_by("program", "name", "step").agg(pl.col("held_ps").sum())
    totals = per_step.group_by("program", "name").agg(
        pl.col("held_ps").sum() * case.selection.scale,
        pl.col("held_ps").filter(pl.col("step").is_not_null()).alias("each_ps"),
    )
    facts = ops.group_by(program="program", name="op", maintain_order=True).agg(
        pl.col(*_FACTS).drop_nulls().first()
    )
    known = totals.join(facts, on=["program", "name"], nulls_equal=True)
    rows = known.join(_costs(case), on=["program", "name"], how="left", nulls_equal=True)
    made = [_item(case, row) for row in rows.iter_rows(named=True)]
    return tuple(sorted(made, key=lambda it: (it.program, it.order, it.op)))


_FACTS: Final = (
    *("opcode", "category", "lane", "collective", "bytes", "group_size"),
    *("scope", "source", "phase", "position", "flops", "bytes_accessed"),
)


def _named(case: Case) -> pl.DataFrame:
    """The Timeline's ops that work, under the names that `ops` and `collectives` give them."""
    start = pl.when(pl.col("lane") == Lane.COLLECTIVE).then("pair")
    return case.timeline.ops.with_columns(
        row=pl.int_range(pl.len(), dtype=pl.UInt32), op=pl.coalesce(start, "op", "name")
    ).filter(pl.col("lane") != Lane.CONTROL)


def _costs(case: Case) -> pl.DataFrame:
    """Executions and own time; of collectives that show as windows alone, those of the windows."""
    own = case.ops.select("program", pl.col("op").alias("name"), "count", "self_ms")
    windows = case.ask(collective_profile).select(
        "program", pl.col("op").alias("name"), "count", pl.col("total_ms").alias("self_ms")
    )
    both = pl.concat([own, windows], how="vertical_relaxed")
    return both.unique(["program", "name"], keep="first")


def _item(case: Case, row: dict[str, Any]) -> Item:
    timeline = case.timeline
    index: int | None = row["program"]
    program = None if index is None else timeline.programs[index].hlo()
    found = program.instruction(row["name"]) if program else None
    known = _Known() if program is None or found is None else _known(program, found)
    opcode = found.opcode if found else row["opcode"] or ""
    return Item(
        program=label_of(timeline, index),
        op=row["name"],
        order=(found.computation, found.index) if found else ("", row["position"] or 0),
        category=row["category"] or "other",
        lane=row["lane"],
        phase=row["phase"],
        scope=row["scope"],
        source=row["source"],
        kind=row["collective"] if row["lane"] == Lane.COLLECTIVE else None,
        bytes=row["bytes"],
        group_size=row["group_size"],
        sync=found is not None and (found.is_sync or not opcode.endswith("-start")),
        primitive=known.primitive,
        result=known.result,
        key=known.key,
        figures=_figures(row),
        content=known.content,
        unscoped=known.unscoped,
        count=row["count"] or 0.0,
        self_ms=row["self_ms"] or 0.0,
        held_ms=row["held_ps"],
        error_ms=_error(row["each_ps"], case),
    )


def _figures(row: dict[str, Any]) -> Hashable:
    told = (row["flops"], row["bytes_accessed"])
    if not any(told) or not (row["scope"] or row["source"]):
        return None
    return (row["category"], row["scope"], row["source"], row["phase"], *told)


def label_of(timeline: Timeline, program: int | None) -> str:
    """What a program is called on either side."""
    if program is None:
        return "?"
    return STEP if program == timeline.step_program else timeline.programs[program].name


def _error(each_ps: list[float], case: Case) -> float | None:
    """Standard error of the mean over steps, in which an op may not have run at all."""
    steps = case.selection.windows["step"].n_unique()
    if steps < 2:
        return None
    each = [*each_ps, *([0.0] * max(steps - len(each_ps), 0))]
    a_step = case.selection.scale * steps  # from a sum over devices to the mean of a step
    return stdev(each) * a_step / steps**0.5


@dataclass(frozen=True, slots=True)
class _Known:
    """What the HLO tells."""

    primitive: str = ""
    result: str | None = None
    key: Hashable = None
    content: frozenset[Atom] = frozenset()
    unscoped: Hashable = None


def _known(program: Program, it: Instruction) -> _Known:
    key = stable_key(program, it)
    fused = program.body(it) if it.opcode == "fusion" else ()
    content = frozenset(filter(None, (_atom(program, one) for one in (it, *fused))))
    shapes = _no_workspace(it, str(key.shapes))
    return _Known(
        primitive=provenance(program, it).primitive,
        result=_result(it),
        key=(key.scope, key.phase, key.opcode, shapes),
        content=content,
        unscoped=(key.opcode, shapes, frozenset(Counter(made for _, made, _ in content).items())),
    )


def _result(it: Instruction) -> str:
    """Its shape; of a library's call without the workspace, whose size the chip decides."""
    return _no_workspace(it, str(it.shape))


def _no_workspace(it: Instruction, shape: str) -> str:
    if it.opcode != "custom-call":
        return shape
    return _WORKSPACE.sub(")", shape)


def _atom(program: Program, it: Instruction) -> Atom | None:
    """What the user wrote; None for what XLA made."""
    if not it.op_name or it.opcode in ("parameter", "constant"):
        return None
    where = provenance(program, it)
    # A layer of an unrolled loop bears its name twice: `layers/layers/mlp`.
    place = "/".join(part for part, _ in groupby(where.scope.split("/"))) or where.source or ""
    return (place, where.primitive, str(where.phase)) if place or where.primitive else None
