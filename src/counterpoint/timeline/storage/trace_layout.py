"""The tracks of a Timeline's trace, and the slices on each.

A device is a process: its steps, its runs, and a thread for each line. A host is a process with its
own threads. Names are XLA's own, so that a written trace reads back unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counterpoint.timeline.model import Timeline

Longs = NDArray[np.int64]


def order(start: Longs, end: Longs) -> Longs:
    """Return positions sorted by start, longer slices first, so that parents precede children."""
    return np.lexsort((-end, start))


def rows(start: Longs, end: Longs) -> Longs:
    """Return the row of each slice, the first that it fits into; slices come in `order`.

    Slices in a row follow or contain each other, as viewers expect. Async windows may overlap in
    any way, and so may work on several streams that a profiler put on one line.
    """
    row = np.zeros(len(start), np.int64)
    open_ends: list[list[int]] = [[]]
    # Slices that overlap no other stay in row 0; only groups of overlapping ones need the loop.
    for first, last in _crowds(start, end):
        for stack in open_ends:
            stack.clear()
        for position in range(first, last):
            row[position] = _place(int(start[position]), int(end[position]), open_ends)
    return row


def _crowds(start: Longs, end: Longs) -> Iterator[tuple[int, int]]:
    """Yield ranges of slices that are linked by overlaps."""
    if not len(start):
        return
    reach = np.maximum.accumulate(end)
    opens = np.flatnonzero(np.append(True, start[1:] >= reach[:-1]))
    closes = np.append(opens[1:], len(start))
    crowded = closes - opens > 1
    yield from zip(opens[crowded].tolist(), closes[crowded].tolist(), strict=True)


def _place(start: int, end: int, open_ends: list[list[int]]) -> int:
    for row, stack in enumerate(open_ends):
        while stack and stack[-1] <= start:
            stack.pop()
        if not stack or end <= stack[-1]:
            stack.append(end)
            return row
    open_ends.append([end])
    return len(open_ends) - 1


_LINE_PREFIX: Final = re.compile(r"(?:/device:\w+:\d+|/host:CPU|GPU \d+)/")

_STEPS_THREAD: Final = 1
_RUNS_THREAD: Final = 101  # numbers between are for slices that don't nest
_FIRST_LINE_THREAD: Final = 201

NO_STEP: Final = -(1 << 31)

Argument = str | int | float


@dataclass(frozen=True, slots=True)
class Label:
    """The name, category and arguments of a slice; many slices share one."""

    name: str
    category: str
    arguments: tuple[tuple[str, Argument], ...] = ()


@dataclass(frozen=True, slots=True)
class TraceProcess:
    """A device or a host."""

    pid: int
    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Track:
    """A thread and its slices, which nest; `label` holds indices into `labels`."""

    pid: int
    tid: int
    name: str
    start_ps: Longs
    end_ps: Longs
    label: Longs
    labels: Sequence[Label]
    step: Longs | None = None  # of each slice, or NO_STEP


def processes(timeline: Timeline) -> list[TraceProcess]:
    """Return the processes of devices, then of hosts."""
    several = len(timeline.hosts) > 1
    prefix = [f"{host.name} " if several else "" for host in timeline.hosts]
    devices = [
        TraceProcess(pid, f"{prefix[device.host]}/device:{device.kind.upper()}:{device.ordinal}")
        for pid, device in enumerate(timeline.devices, start=1)
    ]
    first = len(devices) + 1
    hosts = [TraceProcess(pid, f"{name}/host:CPU") for pid, name in enumerate(prefix, start=first)]
    return devices + hosts


def tracks(timeline: Timeline) -> Iterator[Track]:
    """Yield every track that has slices."""
    op_labels = _op_labels(timeline)
    run_labels = [
        Label(_module(entry.name, entry.fingerprints), "run") for entry in timeline.programs
    ]
    run_labels.append(Label("unknown program", "run"))
    steps, runs = _by(timeline.steps, "device"), _by(timeline.runs, "device")
    spans = timeline.spans.join(_run_steps(timeline), on="run", how="left", maintain_order="left")
    of_device = _by(spans, "device")
    for device in range(len(timeline.devices)):
        pid = device + 1
        if device in steps:
            yield from _steps(pid, steps[device])
        if device in runs:
            yield from _runs(pid, runs[device], run_labels)
        if device in of_device:
            yield from _lines(pid, of_device[device], timeline.lines, op_labels)
    yield from _host_tracks(timeline)


def earliest_ps(timeline: Timeline) -> int:
    """Return the first start in any table, or 0 for an empty Timeline."""
    tables = (timeline.spans, timeline.runs, timeline.steps, timeline.host_events)
    starts = [table["start_ps"].min() for table in tables]
    return min((start for start in starts if isinstance(start, int)), default=0)


def _op_labels(timeline: Timeline) -> list[Label]:
    programs = [entry.name for entry in timeline.programs]
    return [_op_label(op, programs) for op in timeline.ops.iter_rows(named=True)]


def _op_label(op: dict[str, Argument | None], programs: list[str]) -> Label:
    program = op["program"]
    arguments = {
        "hlo_op": op["op"],
        "hlo_module": programs[program] if isinstance(program, int) else None,
        "category": op["category"],
        "scope": op["scope"],
        "source": op["source"],
        "phase": op["phase"],
        "collective": op["collective"],
        "bytes": op["bytes"],
        "group_size": op["group_size"],
        "bus_factor": op["bus_factor"],
        "flops": op["flops"],
        "bytes_accessed": op["bytes_accessed"],
    }
    known = tuple((key, value) for key, value in arguments.items() if value is not None)
    return Label(str(op["name"] or op["op"] or "?"), str(op["lane"] or "other"), known)


def _module(name: str, fingerprints: Sequence[str]) -> str:
    """Return XLA's name for an execution of a module, with its number if known."""
    number = fingerprints[0] if len(fingerprints) == 1 else ""
    return f"{name}({number})" if number.isdecimal() else name


def _run_steps(timeline: Timeline) -> pl.DataFrame:
    """Return the step of each run, to join with spans."""
    number = pl.int_range(pl.len(), dtype=pl.UInt32).alias("run")
    return timeline.runs.select(number, pl.col("step").fill_null(NO_STEP).cast(pl.Int64))


def _by(frame: pl.DataFrame, key: str) -> dict[int, pl.DataFrame]:
    return {int(value): part for (value,), part in frame.partition_by(key, as_dict=True).items()}


def _steps(pid: int, steps: pl.DataFrame) -> Iterator[Track]:
    start, end = _bounds(steps)
    labels = [
        Label(str(step), "step", (("steady", "yes" if steady else "no"),))
        for step, steady in steps.select("step", "steady").iter_rows()
    ]
    yield from _nested(
        Track(pid, _STEPS_THREAD, "Steps", start, end, np.arange(len(steps)), labels)
    )


def _runs(pid: int, runs: pl.DataFrame, labels: list[Label]) -> Iterator[Track]:
    start, end = _bounds(runs)
    label = runs["program"].fill_null(len(labels) - 1).to_numpy().astype(np.int64)
    step = runs["step"].fill_null(NO_STEP).to_numpy().astype(np.int64)
    yield from _nested(Track(pid, _RUNS_THREAD, "XLA Modules", start, end, label, labels, step))


def _lines(
    pid: int, spans: pl.DataFrame, names: Sequence[str], labels: list[Label]
) -> Iterator[Track]:
    thread = _FIRST_LINE_THREAD
    for line, line_spans in sorted(_by(spans, "line").items()):
        start, end = _bounds(line_spans.with_columns(end_ps=pl.col("start_ps") + pl.col("dur_ps")))
        label = line_spans["op"].to_numpy().astype(np.int64)
        step = line_spans["step"].fill_null(NO_STEP).to_numpy()
        name = _LINE_PREFIX.sub("", names[line], count=1)
        for track in _nested(Track(pid, thread, name, start, end, label, labels, step)):
            yield track
            thread = track.tid + 1


def _host_tracks(timeline: Timeline) -> Iterator[Track]:
    labels = [Label(name, "host") for name in timeline.host_names]
    for host, events in sorted(_by(timeline.host_events, "host").items()):
        pid, thread = len(timeline.devices) + 1 + host, _FIRST_LINE_THREAD
        for line, line_events in sorted(_by(events, "line").items()):
            start, end = _bounds(
                line_events.with_columns(end_ps=pl.col("start_ps") + pl.col("dur_ps"))
            )
            label = line_events["name"].to_numpy().astype(np.int64)
            name = _LINE_PREFIX.sub("", timeline.lines[line], count=1)
            for track in _nested(Track(pid, thread, name, start, end, label, labels)):
                yield track
                thread = track.tid + 1


def _bounds(frame: pl.DataFrame) -> tuple[Longs, Longs]:
    return frame["start_ps"].to_numpy(), frame["end_ps"].to_numpy()


def _nested(track: Track) -> Iterator[Track]:
    """Yield the track, sorted; as several tracks of the same name if its slices don't nest."""
    by_start = order(track.start_ps, track.end_ps)
    row = rows(track.start_ps[by_start], track.end_ps[by_start])
    for number in range(int(row.max(initial=0)) + 1):
        positions = by_start[row == number]
        step = None if track.step is None else track.step[positions]
        yield Track(
            track.pid,
            track.tid + number,
            track.name,
            track.start_ps[positions],
            track.end_ps[positions],
            track.label[positions],
            track.labels,
            step,
        )
