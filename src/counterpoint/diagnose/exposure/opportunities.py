"""Collectives at the ends of a step, mergeable collectives, and waits for late devices."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from counterpoint.diagnose.environment import given_flags, on_gpu
from counterpoint.diagnose.finding import ms_text
from counterpoint.diagnose.selection import PS_PER_MS
from counterpoint.diagnose.step_data import StepData
from counterpoint.timeline.model import Lane

if TYPE_CHECKING:
    from counterpoint.flags.combiner import CombinerInput

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

    @property
    def beside(self) -> str:
        """What the program does between it and that end of the step."""
        does = f"computes for {ms_text(self.beside_ms)}" if self.beside_ms else "computes nothing"
        return f"{'after' if self.where == 'end' else 'before'} it the program {does}"


def at_ends(data: StepData, rows: list[dict[str, Any]]) -> Mapping[str, StepEnd]:
    """Return the exposed ones of `rows` (with `own_ms`) at an end of the step, by name.

    Nothing is left there to run beside them. Gradients merged into one collective can only be sent
    when the last of them is ready, and weights gathered by one collective make the first layer wait
    for all of them.
    """
    large = [
        row
        for row in rows
        if row["program"] == data.timeline.step_program
        and row["own_ms"] > _GIANT * data.step_ms
        and row["own_ms"] > 0.5 * row["total_ms"]
        and row["count"] <= _ONCE
    ]
    if not large:
        return {}
    ends: dict[str, StepEnd] = {}
    for name, runs, before, after in _around(data, [row["op"] for row in large]):
        whole = before + after
        if after <= _AT_THE_END * whole:
            ends[name] = StepEnd("end", after / runs / PS_PER_MS)
        elif before <= _AT_THE_END * whole:
            ends[name] = StepEnd("start", before / runs / PS_PER_MS)
    return ends


def _around(data: StepData, names: list[str]) -> Iterator[tuple[str, int, int, int]]:
    """Yield, per name, its runs on all devices and the compute (ps) before and after it.

    The number of windows may differ from the number of runs they show parts of.
    """
    ops = data.named_ops
    spans = data.spans.select("op", "run", "start_ps", "dur_ps").drop_nulls("run")
    own = ops.filter(pl.col("shown").is_in(names) & (pl.col("lane") == Lane.COLLECTIVE))
    collectives = (
        spans.join(own.select("op_row", "shown"), left_on="op", right_on="op_row")
        .group_by("run", "shown")
        .agg(
            pl.col("start_ps").min().alias("from_ps"),
            (pl.col("start_ps") + pl.col("dur_ps")).max().alias("to_ps"),
        )
        .sort("shown")
    )
    work = ops.filter(pl.col("lane") == Lane.COMPUTE)["op_row"]
    computing = spans.filter(pl.col("op").is_in(work.implode()))
    run, start, length = (computing[name].to_numpy() for name in ("run", "start_ps", "dur_ps"))
    size = 1 + int(max(run.max(initial=0), collectives["run"].to_numpy().max(initial=0)))
    computes = np.zeros(size, bool)
    computes[run] = True
    # Each run is of one device: its number finds its collective sooner than a join.
    for (name,), part in collectives.group_by("shown", maintain_order=True):
        its = part["run"].to_numpy()
        begin, end = np.full(size, _LEAST), np.full(size, _MOST)
        begin[its], end[its] = part["from_ps"].to_numpy(), part["to_ps"].to_numpy()
        if runs := int(computes[its].sum()):
            before, after = length[start < begin[run]], length[start >= end[run]]
            yield str(name), runs, int(before.sum()), int(after.sum())


_LEAST: Final = np.iinfo(np.int64).min
_MOST: Final = np.iinfo(np.int64).max

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
        from counterpoint.flags.thresholds import flag_of

        return flag_of(self.kind)


def mergers(data: StepData, rows: Sequence[Mapping[str, Any]]) -> tuple[Merger, ...]:
    """Return the mergers among the step's exposed collectives, given as `rows`.

    `flags.combiner` computes what XLA:GPU may merge: collectives of one computation, kind
    and group, none of which waits for another. Of several thresholds, the result is the one that
    leaves the fewest small collectives. The threshold that was in force did not merge them, so if
    it is known, only larger ones are tried.
    """
    if data.program is None or len(rows) < 2 or not on_gpu(data):
        return ()

    from counterpoint.flags.combiner import KINDS, combiner_inputs

    small = {row["op"] for row in rows if row["kind"] in KINDS and is_small(row)}
    if len(small) < 2:
        return ()
    flags = given_flags(data)
    kinds = {row["kind"] for row in rows if row["op"] in small}
    return tuple(
        merger
        for kind in KINDS
        if kind in kinds
        for place in combiner_inputs(data.program, kind)
        if (merger := _merger(kind, place, small, _in_force(kind, flags))) is not None
    )


def is_small(row: Mapping[str, Any]) -> bool:
    """Return whether it is small by the bytes that all ranks end up with, or start with."""
    return row["bytes"] is not None and row["bytes"] <= SMALL_BYTES


def _in_force(kind: str, flags: Mapping[str, str] | None) -> int:
    """Return the threshold in force, which did not merge them; 0 if not known."""
    from counterpoint.flags.combiner import DEFAULT
    from counterpoint.flags.thresholds import flag_of

    if flags is None:
        return 0
    given = flags.get(flag_of(kind), "")
    return int(given) if given.isdecimal() else DEFAULT


def _merger(
    kind: str, place: CombinerInput, small: Collection[str], in_force: int
) -> Merger | None:
    from counterpoint.flags.combiner import MAX_COLLECTIVES_IN_ONE, CombinerState

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


def _thresholds(place: CombinerInput, selected: set[int]) -> list[int]:
    """Return thresholds to try: the default, the size of the small ones, and the size of all."""
    from counterpoint.flags.combiner import DEFAULT

    small = sum(place.parts[index].bytes for index in selected)
    return sorted({DEFAULT, max(DEFAULT, small), max(DEFAULT, sum(p.bytes for p in place.parts))})


def _sets(
    place: CombinerInput, sets: Sequence[tuple[int, ...]], selected: set[int]
) -> Iterator[tuple[str, ...]]:
    """Yield small instructions that are separate now and would be merged."""
    for indices in sets:
        names = dict.fromkeys(
            place.parts[index].instruction for index in sorted(selected & set(indices))
        )
        if len(names) > 1:
            yield tuple(names)
