"""Which runs of a program are the steps that host markers name.

A program that waits for each step has its runs within the markers' time, and that tells which run
belongs to which: runs between them, of an evaluation say, are in no step. One that does not wait
dispatches far ahead of its devices: then only the numbers of runs and of markers can tell, and they
are believed only where one is a multiple of the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

_CUT: Final = 2
"""The first and the last: a profile may have cut them off."""


@dataclass(frozen=True, slots=True, eq=False)
class Marked:
    """Runs of steps with the step as `index`; `others` are runs of the program in no step."""

    runs: pl.DataFrame
    others: pl.DataFrame
    rule: str
    notes: tuple[str, ...] = ()


def match_markers(
    runs: pl.DataFrame, program: str, markers: pl.DataFrame, host_of_device: Sequence[int]
) -> Marked:
    """Match the runs of one program (with `index`) with host markers, by time or by number."""
    name = most_frequent(markers)
    own = markers.filter(pl.col("name") == name)
    within = _by_time(runs, _numbered(own), host_of_device)
    if within is None:
        return _by_number(runs, program, name, own["step"].n_unique())
    held = runs.with_columns(at=pl.Series(within, dtype=pl.Int64))
    inside = held.filter(pl.col("at") >= 0)
    others = held.filter(pl.col("at") < 0)
    in_each = inside.group_by("device", "at").len()["len"]
    rule = f"{_marks(own['step'].n_unique(), name)}, {_span(in_each)} of {program} in each"
    notes = () if not len(others) else (_left_out(others, program, name),)
    index = pl.col("at").cast(pl.UInt32).alias("index")
    return Marked(inside.with_columns(index).drop("at"), others.drop("at"), rule, notes)


def _left_out(runs: pl.DataFrame, program: str, name: str) -> str:
    return f"{_most_on_a_device(runs)} of {program} outside the markers '{name}': in no step"


def most_frequent(markers: pl.DataFrame) -> str:
    """The name of most markers; of several, the one that comes first."""
    names = markers.group_by("name").agg(pl.len(), pl.col("start_ps").min().alias("first"))
    return str(names.sort("len", "first", descending=[True, False])["name"][0])


def _numbered(markers: pl.DataFrame) -> pl.DataFrame:
    """Markers in order, with the same `index` for the same step on all hosts."""
    ordered = markers.sort("host", "start_ps")
    once = not ordered.select("host", "step").is_duplicated().any()
    turn = pl.col("step").rank("dense") - 1 if once else pl.int_range(pl.len()).over("host")
    return ordered.select(
        "host",
        "start_ps",
        end_ps=pl.col("start_ps") + pl.col("dur_ps"),
        index=turn.cast(pl.Int64),
    )


def _by_time(
    runs: pl.DataFrame, markers: pl.DataFrame, host_of_device: Sequence[int]
) -> NDArray[np.int64] | None:
    """The marker's index for each run, -1 outside of all; None where time does not tell."""
    result = np.full(len(runs), -1, np.int64)
    device = runs["device"].to_numpy()
    for one in np.unique(device):
        mine = np.flatnonzero(device == one)
        own = markers.filter(pl.col("host") == host_of_device[int(one)])
        at = _within(runs[pl.Series(mine)], own)
        if at is None:
            return None
        result[mine] = np.where(at >= 0, own["index"].to_numpy()[at], -1)
    return result


def _within(runs: pl.DataFrame, markers: pl.DataFrame) -> NDArray[np.int64] | None:
    """The marker that holds each run of one device.

    None if a run begins in a marker and ends behind it, or if a marker holds none: devices are
    behind the host then. The first and last marker may be cut off, with their runs.
    """
    if not len(markers):
        return None
    starts, ends = markers["start_ps"].to_numpy(), markers["end_ps"].to_numpy()
    begin, end = runs["start_ps"].to_numpy(), runs["end_ps"].to_numpy()
    at = np.searchsorted(starts, begin, side="right") - 1
    begins = (at >= 0) & (begin < ends[np.maximum(at, 0)])
    held = begins & (end <= ends[np.maximum(at, 0)])
    whole = np.arange(len(markers))
    if len(markers) > _CUT:
        whole = whole[1:-1]
    late = begins & ~held & np.isin(at, whole)
    if late.any() or not np.isin(whole, at[held]).all():
        return None
    return np.where(held, at, -1)


def _by_number(runs: pl.DataFrame, program: str, name: str, steps: int) -> Marked:
    most = max(runs.group_by("device").len()["len"].to_list())
    per_step = max(1, round(most / steps))
    allowed = _CUT if per_step == 1 else per_step - 1
    none = runs.clear()
    if abs(most - per_step * steps) <= allowed:
        grouped = runs.with_columns(index=pl.col("index") // per_step)
        rule = f"{_marks(steps, name)}, {_count(per_step, 'run')} of {program} in each"
        return Marked(grouped, none, rule)
    apart = f"{_count(most, 'run')} of {program} and {_marks(steps, name)} do not match"
    note = (
        f"{apart}: each run is taken as a step, those of an evaluation too. Wait for each step"
        " (block_until_ready) while you profile, or give the evaluation a function of its own"
    )
    return Marked(runs, none, f"{apart}: one run is one step", (note,))


def _marks(count: int, name: str) -> str:
    return f"{_count(count, 'host marker')} '{name}'"


def _most_on_a_device(runs: pl.DataFrame) -> str:
    return _count(max(runs.group_by("device").len()["len"].to_list()), "run")


def _span(counts: pl.Series) -> str:
    least, most = min(counts.to_list()), max(counts.to_list())
    return _count(most, "run") if least == most else f"{least} to {_count(most, 'run')}"


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
