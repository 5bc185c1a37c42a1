"""Collectives at the ends of a step, mergeable collectives, and waits for late devices."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import polars as pl

from counterpoint.core import Basis
from counterpoint.diagnose.collectives.collectives import exposed_executions
from counterpoint.diagnose.exposure.given import given_flags, on_gpu
from counterpoint.diagnose.selection import PS_PER_MS
from counterpoint.diagnose.step_data import StepData
from counterpoint.flags.combining import (
    DEFAULT,
    KINDS,
    MAX_COLLECTIVES_IN_ONE,
    CombinerInput,
    CombinerState,
    combiner_inputs,
    flag_of,
)
from counterpoint.timeline import Lane
from counterpoint.timeline.hosts import number_collectives, one_clock, stays, with_groups

_AT_THE_END: Final = 0.1
"""Share of compute time allowed between a collective and the end of its program, for the
optimizer's update.
"""

_ONCE: Final = 1.5
"""Executions per step, on average, up to which it is not part of a loop."""

_GIANT: Final = 0.02
"""Minimum share of the step that it must be exposed for."""


@dataclass(frozen=True, slots=True)
class StepEnd:
    """`where` is "end" or "start"; `beside_ms` is the compute between it and that end, per run."""

    where: str
    beside_ms: float


def at_ends(case: StepData, rows: list[dict[str, Any]]) -> Mapping[str, StepEnd]:
    """Return the exposed ones of `rows` (with `own_ms`) at an end of the step, by name.

    Nothing is left there to run beside them. Gradients merged into one collective can only be sent
    when the last of them is ready, and weights gathered by one collective make the first layer wait
    for all of them.
    """
    large = [
        row
        for row in rows
        if row["program"] == case.timeline.step_program
        and row["own_ms"] > _GIANT * case.step_ms
        and row["own_ms"] > 0.5 * row["total_ms"]
        and row["count"] <= _ONCE
    ]
    if not large:
        return {}
    compute = _around(case, [row["op"] for row in large])
    ends: dict[str, StepEnd] = {}
    for name, runs, before, after in compute.iter_rows():
        whole = before + after
        if after <= _AT_THE_END * whole:
            ends[name] = StepEnd("end", after / runs / PS_PER_MS)
        elif before <= _AT_THE_END * whole:
            ends[name] = StepEnd("start", before / runs / PS_PER_MS)
    return ends


def _around(case: StepData, names: list[str]) -> pl.DataFrame:
    """Return, per name, its runs on all devices and the compute (ps) before and after it.

    The number of windows may differ from the number of runs they show parts of.
    """
    ops = case.timeline.ops.with_row_index("row").with_columns(
        shown=pl.coalesce("pair", "op", "name")
    )
    spans = case.spans.filter(pl.col("run").is_not_null())
    own = ops.filter(pl.col("shown").is_in(names) & (pl.col("lane") == Lane.COLLECTIVE))
    collectives = (
        spans.join(own.select("row", "shown"), left_on="op", right_on="row")
        .group_by("device", "run", "shown")
        .agg(
            pl.col("start_ps").min().alias("from_ps"),
            (pl.col("start_ps") + pl.col("dur_ps")).max().alias("to_ps"),
        )
    )
    work = ops.filter(pl.col("lane") == Lane.COMPUTE)["row"]
    computing = spans.filter(pl.col("op").is_in(work.implode())).select(
        "device", "run", "start_ps", "dur_ps"
    )
    return (
        collectives.join(computing, on=["device", "run"])
        .group_by("shown")
        .agg(
            pl.struct("device", "run").n_unique().alias("runs"),
            pl.col("dur_ps").filter(pl.col("start_ps") < pl.col("from_ps")).sum().alias("before"),
            pl.col("dur_ps").filter(pl.col("start_ps") >= pl.col("to_ps")).sum().alias("after"),
        )
        .sort("shown")
    )


SMALL_BYTES: Final = 1 << 20
"""Size up to which starting a collective outweighs its transfer: NCCL reaches half its bandwidth at
several MiB (nccl-tests on 8 H100 and on A100).
"""

_WALKED: Final = 4096
"""Maximum number of collectives in a computation to analyze; beyond, it takes minutes."""


@dataclass(frozen=True, slots=True)
class Merger:
    """Instructions of one computation that a threshold of their kind would merge."""

    kind: str
    computation: str
    in_loop: bool
    threshold: int
    sets: tuple[tuple[str, ...], ...]

    @property
    def flag(self) -> str:
        return flag_of(self.kind)


def mergers(case: StepData, rows: Sequence[Mapping[str, Any]]) -> tuple[Merger, ...]:
    """Return the mergers among the step's exposed collectives, given as `rows`.

    `flags.combining.combiner` computes what XLA:GPU may merge: collectives of one computation, kind
    and group, none of which waits for another. Of several thresholds, the result is the one that
    leaves the fewest small collectives. The threshold that was in force did not merge them, so if
    it is known, only larger ones are tried.
    """
    small = {row["op"] for row in rows if row["kind"] in KINDS and _is_small(row)}
    if case.program is None or len(small) < 2 or not on_gpu(case):
        return ()
    flags = given_flags(case)
    kinds = {row["kind"] for row in rows if row["op"] in small}
    return tuple(
        found
        for kind in KINDS
        if kind in kinds
        for place in combiner_inputs(case.program, kind)
        if (found := _merger(kind, place, small, _in_force(kind, flags))) is not None
    )


def _is_small(row: Mapping[str, Any]) -> bool:
    """Return whether it is small by the bytes that all ranks end up with, or start with."""
    return row["bytes"] is not None and row["bytes"] <= SMALL_BYTES


def _in_force(kind: str, flags: Mapping[str, str] | None) -> int:
    """Return the threshold in force, which did not merge them; 0 if not known."""
    if flags is None:
        return 0
    given = flags.get(flag_of(kind), "")
    return int(given) if given.isdecimal() else DEFAULT


def _merger(
    kind: str, place: CombinerInput, small: Collection[str], in_force: int
) -> Merger | None:
    selected = {index for index, part in enumerate(place.parts) if part.instruction in small}
    now = {place.parts[index].instruction for index in selected}
    if len(now) < 2 or len(place.parts) > _WALKED:
        return None
    best: tuple[int, int, tuple[tuple[str, ...], ...]] | None = None
    merging = CombinerState(place)
    for threshold in _thresholds(place, selected):
        if threshold <= in_force:
            continue
        merging.reset()
        merged = merging.run(threshold, range(len(place.parts)), MAX_COLLECTIVES_IN_ONE)
        sets = tuple(_sets(place, merged.sets, selected))
        remaining = len(now) - sum(len(names) - 1 for names in sets)
        if sets and (best is None or remaining < best[0]):
            best = (remaining, threshold, sets)
    if best is None:
        return None
    return Merger(kind, place.computation, place.in_loop, best[1], best[2])


def _thresholds(place: CombinerInput, asked: set[int]) -> list[int]:
    """Return thresholds to try: the default, the size of the small ones, and the size of all."""
    small = sum(place.parts[index].bytes for index in asked)
    return sorted({DEFAULT, max(DEFAULT, small), max(DEFAULT, sum(p.bytes for p in place.parts))})


def _sets(
    place: CombinerInput, sets: Sequence[tuple[int, ...]], asked: set[int]
) -> Iterator[tuple[str, ...]]:
    """Yield small instructions that are separate now and would be merged."""
    for indices in sets:
        names = dict.fromkeys(
            place.parts[index].instruction for index in sorted(asked & set(indices))
        )
        if len(names) > 1:
            yield tuple(names)


SCHEMA: Final = {"device": pl.UInt16, "step": pl.Int32, "waited_ps": pl.Int64}

_STAY: Final = ("collective", "device", "step", "turn")
_MEETING: Final = ("collective", "step", "turn", "group")


def waits(case: StepData) -> pl.DataFrame:
    """Return one row per device and typical step in which it met others in a collective.

    Only exposed waiting counts; beside compute it costs nothing. Between hosts a wait is only as
    accurate as their clocks, so anything below their uncertainty is zero. If the hosts have no
    common clock, the shortest stay is taken for that of the last device to arrive.
    """
    timeline = case.timeline
    if len(timeline.devices) < 2 or timeline.basis is Basis.PREDICTED:
        return pl.DataFrame(schema=SCHEMA)
    found = case.ask(exposed_executions)
    if not len(found):
        return pl.DataFrame(schema=SCHEMA)
    ops = timeline.ops.with_row_index("row").filter(pl.col("lane") == Lane.COLLECTIVE)
    grouped = with_groups(timeline, number_collectives(ops), stays(found, "step"), "step")
    exposed = found.group_by(_STAY).agg(pl.col("exposed_ps").sum())
    several = pl.col("host").n_unique().over(_MEETING) > 1
    return (
        grouped.filter(pl.col("group").is_not_null())
        .filter(pl.len().over(_MEETING) > 1)
        .join(exposed, on=_STAY)
        .with_columns(host=pl.col("device").replace_strict(_hosts(case), return_dtype=pl.UInt16))
        .with_columns(doubt=pl.col("host").replace_strict(_spreads(case), return_dtype=pl.Int64))
        .with_columns(
            wait=_wait(one_clock(timeline)),
            doubt=pl.when(several).then(pl.col("doubt").max().over(_MEETING)).otherwise(0),
        )
        .with_columns(wait=pl.when(pl.col("wait") > pl.col("doubt")).then("wait").otherwise(0))
        .group_by("device", "step")
        .agg(waited_ps=pl.min_horizontal("wait", "exposed_ps").sum())
        .cast({**SCHEMA})
        .select(*SCHEMA)
        .sort("device", "step")
    )


def _wait(comparable: bool) -> pl.Expr:
    start, stay = pl.col("start_ps"), pl.col("dur_ps")
    if not comparable:
        return stay - stay.min().over(_MEETING)
    return (start.max().over(_MEETING) - start).clip(0, stay)


def _hosts(case: StepData) -> dict[int, int]:
    return {index: device.host for index, device in enumerate(case.timeline.devices)}


def _spreads(case: StepData) -> dict[int, int]:
    return {i: host.clock_spread_ps or 0 for i, host in enumerate(case.timeline.hosts)}
