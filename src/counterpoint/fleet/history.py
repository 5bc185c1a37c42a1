"""The step times of stored runs over time: what changed between them, and when they moved.

The unit is the run. Levels are found by change points in the logarithms of the runs' medians; a
change counts if the runs before and after it differ by Student's t.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counterpoint.core import InputError, Unknown
from counterpoint.core.frozen import frozen
from counterpoint.diagnose.compare import StepChange, StepVerdict, change_of_runs
from counterpoint.fleet.store import MOST_OPS, PARTS

__all__ = [
    "LevelChange",
    "OpMove",
    "RunDifference",
    "RunHistory",
    "StoredComparison",
    "compare_runs",
    "history_of",
]

Levels = Callable[[NDArray[np.float64]], Sequence[int]]
_COMPARED: Final = ("commit", "jax", "jaxlib", "chip", "devices", "hosts", "program", "build")


@frozen
class RunDifference:
    """What one run has, and what another: a version, a setting, a machine."""

    what: str
    before: str | None
    after: str | None


@frozen(kw_only=True)
class LevelChange:
    """A change of level: from the run `at` on, steps take `change` longer than those before."""

    at: int
    since: int  # the first run of the level before
    change: StepChange
    what: tuple[RunDifference, ...]  # between the last run before and the first after


@frozen(kw_only=True, eq=False)
class RunHistory:
    """Runs, oldest first; for each, how it differs from the one before."""

    runs: pl.DataFrame
    differs: tuple[tuple[RunDifference, ...], ...]
    moved: tuple[LevelChange, ...]


@frozen(kw_only=True)
class OpMove:
    """An op, or a part of the step: milliseconds in A and in B.

    None: a run of that side kept only its longest ops, and this one is not among them.
    """

    name: str
    a_ms: float | None
    b_ms: float | None

    @property
    def more_ms(self) -> float | None:
        """What B has more."""
        return None if self.a_ms is None or self.b_ms is None else self.b_ms - self.a_ms


@frozen(kw_only=True, eq=False)
class StoredComparison:
    """Two sets of stored runs; parts and ops are means over the runs of a side."""

    a: pl.DataFrame
    b: pl.DataFrame
    step: StepChange | Unknown
    differs: tuple[RunDifference, ...]
    parts: tuple[OpMove, ...]
    ops: tuple[OpMove, ...]

    def slower_by_more_than(self, limit: float) -> bool:
        """Return whether B is slower by more than `limit`, as a StepChange says it."""
        if isinstance(self.step, Unknown):
            raise InputError(f"the step times cannot be compared: {self.step.reason}")
        return self.step.slower_by_more_than(limit, "widen the queries, or store more runs")


def history_of(runs: pl.DataFrame, levels: Levels) -> RunHistory:
    """Return the history of stored runs; `levels` finds where a level of logarithms begins."""
    runs = runs.filter(pl.col("step_ms") > 0)
    rows = runs.to_dicts()
    differs = [differences(before, after) for before, after in pairwise(rows)]
    moved: list[LevelChange] = []
    starts = [*levels(np.log(runs["step_ms"].to_numpy()))] if len(rows) > 1 else [0]
    for since, at, end in zip(starts, starts[1:], [*starts[2:], len(rows)], strict=False):
        change = _change(rows[since:at], rows[at:end])
        if isinstance(change, StepChange) and change.verdict in _MOVES:
            moved.append(LevelChange(at=at, since=since, change=change, what=differs[at - 1]))
    return RunHistory(runs=runs, differs=((), *differs), moved=tuple(moved))


_MOVES: Final = (StepVerdict.FASTER, StepVerdict.SLOWER)


def _change(a: Sequence[dict[str, Any]], b: Sequence[dict[str, Any]]) -> StepChange | Unknown:
    sides = [
        [[ms / 1e3 for ms in row["steps_ms"] if ms is not None and ms > 0] for row in rows]
        for rows in (a, b)
    ]
    return change_of_runs(*sides, on_host=any(row["chip"] == "cpu" for row in (*a, *b)))


def differences(a: dict[str, Any], b: dict[str, Any]) -> tuple[RunDifference, ...]:
    """Return what is known of both runs and differs, and all settings that do."""
    found = [
        RunDifference(name, str(a[name]), str(b[name]))
        for name in _COMPARED
        if None not in (a[name], b[name]) and a[name] != b[name]
    ]
    one, other = ({each["name"]: each["value"] for each in row["settings"]} for row in (a, b))
    found += [
        RunDifference(name, one.get(name), other.get(name))
        for name in sorted({*one, *other})
        if one.get(name) != other.get(name)
    ]
    return tuple(found)


def compare_runs(a: pl.DataFrame, b: pl.DataFrame) -> StoredComparison:
    """Compare two sets of stored runs: their steps by the medians of runs, the rest by means."""
    sides = [frame.to_dicts() for frame in (a, b)]
    parts = [
        OpMove(name=name.removesuffix("_ms"), a_ms=_mean(a, name), b_ms=_mean(b, name))
        for name in PARTS
        if len(a[name].drop_nulls()) and len(b[name].drop_nulls())
    ]
    ops = [
        frame.select("ops")
        .explode("ops")
        .drop_nulls()
        .unnest("ops")
        .group_by("op")
        .agg(pl.col("ms").sum() / len(frame))
        for frame in (a, b)
    ]
    both = ops[0].join(ops[1], on="op", how="full", coalesce=True, suffix="_b")
    absent = [None if (frame["ops"].list.len() >= MOST_OPS).any() else 0.0 for frame in (a, b)]
    moves = [
        OpMove(
            name=op,
            a_ms=absent[0] if one is None else one,
            b_ms=absent[1] if other is None else other,
        )
        for op, one, other in both.iter_rows()
    ]
    return StoredComparison(
        a=a,
        b=b,
        step=_change(*sides),
        differs=differences(sides[0][-1], sides[1][-1]),
        parts=tuple(parts),
        ops=tuple(sorted(moves, key=lambda move: (-abs(move.more_ms or 0.0), move.name))),
    )


def _mean(frame: pl.DataFrame, column: str) -> float:
    value = frame[column].mean()
    return float(value) if isinstance(value, float) else float("nan")
