"""Matches runs of a program with the steps that host markers name.

A program that waits for each step has its runs within the markers' time, which identifies the step
of each run: runs between markers, of an evaluation for example, are in no step. A program that does
not wait dispatches far ahead of its devices: then only the numbers of runs and of markers can be
matched, and only if one is a multiple of the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counterpoint.core.columns import as_ranges, values_of
from counterpoint.core.frozen import frozen

_LEAST, _MOST = -(2**31) + 1, 2**31 - 1
"""Range of the column `step`."""

_NO_STEP: Final = -(2**31)

_CUT: Final = 2
"""The first and the last step: a profile may have cut them off."""


@frozen(eq=False)
class MarkedRuns:
    """Runs of steps, whose `index` is the step's number; `others` are in no step."""

    runs: pl.DataFrame
    others: pl.DataFrame
    rule: str
    notes: tuple[str, ...] = ()


def match_markers(
    runs: pl.DataFrame, program: str, markers: pl.DataFrame, host_of_device: Sequence[int]
) -> MarkedRuns:
    """Match the runs of one program (with `index`) with host markers, by time or by number."""
    name = most_frequent(markers)
    own, marks = numbered(markers.filter(pl.col("name") == name), name)
    within = _by_time(runs, own, host_of_device)
    if within is None:
        return _by_number(runs, program, own, marks)
    held = runs.with_columns(index=pl.Series(within, dtype=pl.Int64))
    inside = held.filter(pl.col("index").is_not_null())
    others = held.filter(pl.col("index").is_null())
    in_each = inside.group_by("device", "index").len()["len"]
    rule = f"{marks}, {_span(in_each)} of {program} in each"
    notes = () if not len(others) else (_left_out(others, program, name),)
    return MarkedRuns(inside, others, rule, notes)


def _left_out(runs: pl.DataFrame, program: str, name: str) -> str:
    return f"{_most_on_a_device(runs)} of {program} outside the markers '{name}': in no step"


def most_frequent(markers: pl.DataFrame) -> str:
    """Return the most frequent marker name; of equally frequent ones, the first in time."""
    names = markers.group_by("name").agg(pl.len(), pl.col("start_ps").min().alias("first"))
    return str(names.sort("len", "first", descending=[True, False])["name"][0])


def one_to_a_step(markers: pl.DataFrame, where: str) -> bool:
    """Return whether marker numbers can be step numbers: unique on a host or device, and in range.

    Numbers restart in programs with several loops or several epochs.
    """
    once = not markers.select(where, "step").is_duplicated().any()
    return once and bool(markers["step"].is_between(_LEAST, _MOST).all())


def numbered(markers: pl.DataFrame, name: str) -> tuple[pl.DataFrame, str]:
    """Return markers in order, numbered uniquely and alike on all hosts, and their description."""
    ordered = markers.sort("host", "start_ps").select(
        "host", "step", "start_ps", end_ps=pl.col("start_ps") + pl.col("dur_ps")
    )
    if one_to_a_step(ordered, "host"):
        numbers = ordered["step"].unique().sort().to_list()
        steps = f"{'step' if len(numbers) == 1 else 'steps'} {as_ranges(numbers)}"
        return ordered, f"{_count(len(numbers), 'host marker')} '{name}' ({steps})"
    turns = ordered.with_columns(step=pl.int_range(pl.len()).over("host"))
    marks = _count(turns["step"].n_unique(), "host marker")
    return turns, f"{marks} '{name}', whose numbers repeat: numbered from 0"


def _by_time(
    runs: pl.DataFrame, markers: pl.DataFrame, host_of_device: Sequence[int]
) -> list[int | None] | None:
    """Return the step of the marker that contains each run; None if times do not decide it."""
    result: NDArray[np.int64] = np.full(len(runs), _NO_STEP)
    device = runs["device"].to_numpy()
    for number in values_of(device):
        rows = np.flatnonzero(device == number)
        own = markers.filter(pl.col("host") == host_of_device[int(number)])
        at = _within(runs[pl.Series(rows)], own)
        if at is None:
            return None
        result[rows] = np.where(at >= 0, own["step"].to_numpy()[at], _NO_STEP)
    return [None if step == _NO_STEP else step for step in result.tolist()]


def _within(runs: pl.DataFrame, markers: pl.DataFrame) -> NDArray[np.int64] | None:
    """Return the marker that contains each run of one device.

    None if a run begins in a marker and ends after it, or if a marker contains none: devices then
    lag behind the host. The first and last marker may be cut off, with their runs.
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


def _by_number(runs: pl.DataFrame, program: str, markers: pl.DataFrame, marks: str) -> MarkedRuns:
    steps = markers["step"].unique().sort().to_list()
    most = max(runs.group_by("device").len()["len"].to_list())
    per_step = max(1, round(most / len(steps)))
    allowed = _CUT if per_step == 1 else per_step - 1
    none = runs.clear()
    if abs(most - per_step * len(steps)) > allowed:
        apart = f"{_count(most, 'run')} of {program} and {marks} do not match"
        note = (
            f"{apart}: each run is taken as a step, including those of an evaluation. Wait for each"
            " step (block_until_ready) while profiling, or evaluate with a separate function"
        )
        return MarkedRuns(runs, none, f"{apart}: one run is one step, numbered from 0", (note,))
    turn = (pl.col("index").cast(pl.Int64) - pl.col("index").min()) // per_step
    rule = f"{marks}, {_count(per_step, 'run')} of {program} in each"
    first = runs["start_ps"].to_numpy().min() >= markers["start_ps"].to_numpy().min()
    if first and runs["index"].n_unique() == per_step * len(steps):
        turn = turn.replace_strict(dict(enumerate(steps)), return_dtype=pl.Int64)
    else:
        rule += "; runs cannot be assigned to markers: steps are numbered from 0"
    return MarkedRuns(runs.with_columns(index=turn), none, rule)


def _most_on_a_device(runs: pl.DataFrame) -> str:
    return _count(max(runs.group_by("device").len()["len"].to_list()), "run")


def _span(counts: pl.Series) -> str:
    least, most = min(counts.to_list()), max(counts.to_list())
    return _count(most, "run") if least == most else f"{least} to {_count(most, 'run')}"


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
