"""Matches runs of a program with the steps that host markers name.

A program that waits for each step has its runs within the markers' time, which identifies the step
of each run: runs between markers, of an evaluation for example, are in no step. A program that does
not wait dispatches far ahead of its devices: then only the numbers of runs and of markers can be
matched, and only if one is a multiple of the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counterpoint.core.columns import as_ranges, values_of
from counterpoint.core.frozen import frozen
from counterpoint.timeline.recording import RecordedPart, Recording
from counterpoint.timeline.step_range import StepRange

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


_BEFORE: Final = 8
"""With so many steps before the first wanted one, that one is not taken for startup or warm-up."""

_WORTH: Final = 0.5
"""Most of the markers that a window may have: more, and all are read."""

_OUTSIDE: Final = -1

_MOSTLY: Final = 0.5
"""Least share of the work of devices within markers: their program is then that of the steps."""


def window_of(markers: pl.DataFrame, wanted: StepRange) -> StepWindow | None:
    """Return the time of the wanted steps by these markers of one host, if they tell it."""
    found = _in_order(markers)
    if found is None:
        return None
    rows, marks = found
    numbers: list[int] = rows["step"].to_list()
    chosen = wanted.of(numbers[:-1])
    if not chosen:
        return None
    first, last = numbers.index(chosen[0]), numbers.index(chosen[-1])
    if first < _BEFORE or last - first + 3 > _WORTH * len(numbers):
        return None
    return StepWindow(rows, marks, first - 1, last + 1)


def _in_order(markers: pl.DataFrame) -> tuple[pl.DataFrame, str] | None:
    """Return the markers of steps, and their description, if their numbers are those of steps."""
    if markers.is_empty() or markers["device"].count():
        return None
    of_host = markers.with_columns(host=pl.lit(0, pl.UInt16))
    name = most_frequent(of_host)
    own = of_host.filter(pl.col("name") == name)
    if not one_to_a_step(own, "host"):
        return None
    rows, marks = numbered(own, name)
    return (rows, marks) if rows["step"].is_sorted() else None


class LateWorkError(Exception):
    """Devices run behind the markers, which then do not tell when they run a step."""


@frozen
class _Look:
    """The start of a batch's work: markers, or `_OUTSIDE`; its modules; its runs, if known."""

    markers: Sequence[int]
    modules: Sequence[tuple[str, int]]
    runs: Sequence[int] | None
    inside_ps: int
    all_ps: int


class StepWindow:
    """The time of some steps, with one more on either side, while a profile is read.

    The markers tell it before anything else is read, which is right if the host waits for each
    step: `look` sees whether all work keeps to its marker, also that which is then left out.
    """

    def __init__(self, markers: pl.DataFrame, marks: str, first: int, last: int) -> None:
        self._markers, self._marks = markers, marks
        self._own = markers[first : last + 1]
        self._starts, self._ends = (markers[name].to_numpy() for name in ("start_ps", "end_ps"))
        self._start_ps = int(self._starts[first])
        # What follows the last marker may end its step.
        open_end = last + 1 == len(markers)
        self._end_ps = int(np.iinfo(np.int64).max if open_end else self._ends[last])
        self._looks: list[_Look] = []

    def overlaps(self, start: NDArray[np.int64], end: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which of these events are in the window, at least in part."""
        return (start < self._end_ps) & (end > self._start_ps)

    def look(
        self,
        start: NDArray[np.int64],
        end: NDArray[np.int64],
        module: tuple[str, NDArray[np.int64]],
        run: NDArray[np.int64] | None,
    ) -> None:
        """Note in which markers programs run; `run` tells the run of each span, if it is known.

        `module` has a number for each span, which is that of its module on the plane named first.
        Threads that decode the profile call this at the same time. Raises LateWorkError.
        """
        if not len(start):
            return
        at = np.searchsorted(self._starts, start, side="right") - 1
        inside = (at >= 0) & (start < self._ends[at])
        if (inside & (end > self._ends[at])).any():
            raise LateWorkError
        place = np.where(inside, at, _OUTSIDE)
        plane, number = module
        columns = [place, number] if run is None else [place, number, run]
        changes = np.any([column[1:] != column[:-1] for column in columns], axis=0)
        first = np.append(0, np.flatnonzero(changes) + 1)
        lasts = end - start
        self._looks.append(
            _Look(
                markers=place[first].tolist(),
                modules=[(plane, it) for it in number[first].tolist()],
                runs=None if run is None else run[first].tolist(),
                inside_ps=int(lasts[inside].sum()),
                all_ps=int(lasts.sum()),
            )
        )

    def holds(self, markers: pl.DataFrame) -> bool:
        """Return whether all work and all markers of the profile are as the window supposes."""
        found = _in_order(markers)
        if found is None or not found[0].equals(self._markers):
            return False
        marker_of: dict[int, int] = {}
        inside: set[tuple[str, int]] = set()
        outside: set[tuple[str, int]] = set()
        for look in self._looks:
            for marker, module in zip(look.markers, look.modules, strict=True):
                (outside if marker == _OUTSIDE else inside).add(module)
            for run, marker in zip(look.runs or (), look.markers, strict=False):
                if marker_of.setdefault(run, marker) != marker:
                    return False
        worked_in = {marker for look in self._looks for marker in look.markers}
        mostly = sum(it.inside_ps for it in self._looks) > _MOSTLY * sum(
            it.all_ps for it in self._looks
        )
        return (
            mostly
            and worked_in.issuperset(range(len(self._markers)))
            and inside.isdisjoint(outside)  # else it is an evaluation, which ends a step
        )

    def part(self, recording: Recording) -> Mapping[str, object]:
        """Return the fields of a Recording that differ if only the window was read."""
        first, last = self._own["start_ps"][0], self._own["start_ps"][-1]
        markers = recording.markers.filter(pl.col("start_ps").is_between(first, last))
        _, own_marks = _in_order(markers) or (None, "")
        numbers: list[int] = self._markers["step"].to_list()
        return {
            "markers": markers,
            "part": RecordedPart(tuple(numbers[:-1]), self._marks, own_marks),
        }
