"""Collects the columns of a Recording line by line while an XSpace is read."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counterpoint.core.columns import distinct
from counterpoint.core.wire import Malformed
from counterpoint.timeline.megascale import TransferCollector
from counterpoint.timeline.model import Action, Device, EmbeddedProgram, Schema
from counterpoint.timeline.recording import (
    EXECUTIONS,
    HOST_EVENTS,
    IN_GRAPHS,
    MARKERS,
    OPS,
    SPANS,
    Recording,
)
from counterpoint.timeline.xplane import transfers
from counterpoint.timeline.xplane.events import Events, Stat
from counterpoint.timeline.xplane.planes import EventName, Plane, PlaneLine, StatValue
from counterpoint.timeline.xplane.transfers import COLLECTIVE_STAT, GRAPH_STAT, group_size

Columns = dict[str, NDArray[np.generic]]
Longs = NDArray[np.int64]

_LATEST_PS: Final = 1 << 61
_NONE: Final = -1
_JOINED_ROWS: Final = 1 << 18

_STEP_DIGITS: Final = 19

_TPU_NAME: Final = re.compile(r"%?([\w.\-]+) = ")
_MODULE: Final = re.compile(r"(.+)\((\d+)\)$")


class Collector:
    """Collects what the reader finds; `finish` builds the Recording."""

    def __init__(self) -> None:
        self.devices: list[Device] = []
        self._device_of: dict[tuple[str, int], int] = {}
        self._lines: list[str] = []
        self._line = 0
        self._line_of: dict[tuple[str, int, str, int], int] = {}
        self._opened: Counter[tuple[str, int, str]] = Counter()
        self._pieces = 0
        self._origin_ns = 0
        self._ops = _Ops()
        self._summaries = 0
        self._spans = _Table(SPANS)
        self._host = _Table(HOST_EVENTS)
        self._transfers = TransferCollector()
        self._names: dict[str, int] = {}
        self._executions: list[tuple[object, ...]] = []
        self._markers: list[tuple[object, ...]] = []

    @property
    def size(self) -> int:
        """About how many bytes the rows take."""
        return self._spans.size + self._host.size

    def begin_piece(self, stamps_ns: Sequence[int]) -> None:
        """Start an XSpace, the first or the next of a capture, whose lines have these timestamps.

        Time zero is the earliest line if picoseconds since 1970 would not fit 64 bits.
        """
        self._pieces += 1
        self._opened.clear()
        self._ops.forget_planes()
        if not self._origin_ns and max(stamps_ns, default=0) * 1000 >= _LATEST_PS:
            self._origin_ns = min(stamp for stamp in stamps_ns if stamp)

    def device(self, device: Device) -> int:
        """Return the index of a device, adding it if it is new."""
        key = (device.kind, device.ordinal)
        index = self._device_of.setdefault(key, len(self.devices))
        if index == len(self.devices):
            self.devices.append(device)
        else:
            known = self.devices[index]
            self.devices[index] = replace(
                known,
                chip=known.chip or device.chip,
                peak_flops=known.peak_flops or device.peak_flops,
                peak_bytes=known.peak_bytes or device.peak_bytes,
            )
        return index

    def open_line(self, plane: Plane, line: PlaneLine) -> None:
        """Start a line for the spans and host events that follow, or continue that of a piece."""
        twin = (plane.name, line.id, line.name)
        self._opened[twin] += 1
        self._line = self._line_of.setdefault((*twin, self._opened[twin]), len(self._lines))
        if self._line == len(self._lines):
            self._lines.append(f"{plane.name}/{line.name}")

    def add_spans(
        self, plane: Plane, device: int, line: PlaneLine, events: Events, is_async: bool
    ) -> None:
        """Add work that a device plane records."""
        self._summaries += events.summaries
        self._add_spans(plane, np.full(len(events), device, np.uint16), line, events, is_async)

    def add_host_events(self, plane: Plane, line: PlaneLine, events: Events) -> None:
        """Add events of a host thread: ops of virtual CPU devices, step markers, the rest."""
        on_device = _known(events, "hlo_op") & _known(events, "device_ordinal")
        if on_device.any():
            ops = _select(events, on_device, events.stats)
            ordinals = ops.stats["device_ordinal"].value
            first, code = distinct([ordinals])
            index = np.array(
                [self.device(Device(ordinal=int(n), kind="cpu")) for n in ordinals[first]],
                np.uint16,
            )
            self._add_spans(plane, index[code], line, ops, False)
        marked = _known(events, "step_num") & ~on_device
        if marked.any():
            self._add_markers(plane, None, line, _select(events, marked, ("step_num",)))
        self._add_host(plane, line, _select(events, (events.duration_ps > 0) & ~on_device))

    def add_actions(self, plane: Plane, line: PlaneLine, events: Events) -> None:
        """Add actions recorded by Megascale."""
        if len(events):
            self._transfers.add_actions(self._told(plane, line, events))

    def add_messages(
        self, plane: Plane, line: PlaneLine, events: Events, tells: Mapping[str, Action]
    ) -> None:
        """Add events of a host thread that describe transfers."""
        if len(events):
            self._transfers.add_messages(self._told(plane, line, events), tells)

    def add_executions(self, plane: Plane, device: int, line: PlaneLine, events: Events) -> None:
        """Add executions of modules, named `module(program id)`."""
        start = self._start(line, events)
        run = events.stats.get("run_id")
        for row, metadata in enumerate(events.metadata.tolist()):
            name = _event_name(plane, metadata).name
            match = _MODULE.match(name)
            module, program = (match[1], match[2]) if match else (name, None)
            key = int(run.value[row]) if run is not None and run.known[row] else None
            self._executions.append(
                (device, module, program, key, int(start[row]), int(events.duration_ps[row]))
            )

    def add_steps(self, plane: Plane, device: int, line: PlaneLine, events: Events) -> None:
        """Add steps that a device plane marks; the event's name is the step number."""
        start = self._start(line, events)
        for row, metadata in enumerate(events.metadata.tolist()):
            name = _event_name(plane, metadata).name
            step = int(name) if name.isdecimal() and len(name) < _STEP_DIGITS else row
            duration = int(events.duration_ps[row])
            self._markers.append((device, step, name, int(start[row]), duration))

    def finish(
        self,
        *,
        source: str,
        host: str,
        programs: Mapping[str, EmbeddedProgram],
        environment: Mapping[str, str],
        notes: Sequence[str],
        truncated: bool,
    ) -> Recording:
        """Build the Recording."""
        transfer_table, transfer_notes = self._transfers.finish(self.devices)
        return Recording(
            source=source,
            host=host,
            devices=tuple(self.devices),
            lines=tuple(self._lines),
            ops=self._ops.frame(),
            spans=self._spans.frame(by_line=self._pieces > 1),
            executions=pl.DataFrame(self._executions, schema=EXECUTIONS, orient="row"),
            markers=pl.DataFrame(self._markers, schema=MARKERS, orient="row"),
            host_events=self._host.frame(by_line=self._pieces > 1),
            host_names=tuple(self._names),
            transfers=transfer_table,
            programs=programs,
            environment=environment,
            notes=(*notes, *self._notes(), *transfer_notes),
            truncated=truncated,
        )

    def _notes(self) -> list[str]:
        notes: list[str] = []
        if self._ops.nameless_in_graphs:
            notes.append(
                f"{self._ops.nameless_in_graphs:,} spans ran {IN_GRAPHS} and name no"
                " instruction; XLA_FLAGS=--xla_gpu_enable_command_buffer= launches them"
                " one by one"
            )
        if self._summaries:
            notes.append(
                f"{self._summaries:,} records summarize many kernels and have no times: left out;"
                " the profiler ran with gpu_aggregated_tracing"
            )
        if transfers.LAUNCHED_PLAINLY in self._names:
            notes.append(
                "XLA ran without command buffers (CUDA graphs) because the profiler was on:"
                " steps may be shorter without it"
            )
        return notes

    def _add_spans(
        self,
        plane: Plane,
        device: NDArray[np.uint16],
        line: PlaneLine,
        events: Events,
        is_async: bool,
    ) -> None:
        if not len(events):
            return
        run = events.stats.get("run_id")
        known = _known(events, "run_id")
        self._spans.append(
            {
                "device": device,
                "line": np.full(len(events), self._line, np.uint32),
                "op": self._ops.codes(plane, events, is_async),
                "run_key": run.value if run is not None else np.zeros(len(events), np.int64),
                "run_known": known,
                "start_ps": self._start(line, events),
                "dur_ps": events.duration_ps,
            }
        )

    def _add_host(self, plane: Plane, line: PlaneLine, events: Events) -> None:
        if not len(events):
            return
        first, code = distinct([events.metadata])
        names = [_event_name(plane, kind).name for kind in events.metadata[first].tolist()]
        index = np.array([self._names.setdefault(n, len(self._names)) for n in names], np.uint32)
        self._host.append(
            {
                "line": np.full(len(events), self._line, np.uint32),
                "name": index[code],
                "start_ps": self._start(line, events),
                "dur_ps": events.duration_ps,
            }
        )

    def _add_markers(
        self, plane: Plane, device: int | None, line: PlaneLine, events: Events
    ) -> None:
        start, step = self._start(line, events), events.stats["step_num"].value
        for row, metadata in enumerate(events.metadata.tolist()):
            name = _event_name(plane, metadata).name
            duration = int(events.duration_ps[row])
            self._markers.append((device, int(step[row]), name, int(start[row]), duration))

    def _told(self, plane: Plane, line: PlaneLine, events: Events) -> pl.DataFrame:
        return transfers.table(plane, self._line, events, self._start(line, events))

    def _start(self, line: PlaneLine, events: Events) -> Longs:
        if len(events):
            low = min(events.offset_ps.min(), events.duration_ps.min())
            high = max(events.offset_ps.max(), events.duration_ps.max())
            if low < -_LATEST_PS or high > _LATEST_PS or events.duration_ps.min() < 0:
                raise Malformed(f"an event of line {line.name!r} has an impossible time")
        base = (line.timestamp_ns - self._origin_ns) * 1000
        if abs(base) > _LATEST_PS:
            raise Malformed(f"line {line.name!r} has an impossible start")
        return events.offset_ps + base


@cache
def _joiner() -> ThreadPoolExecutor:
    """Return the thread that joins batches while the next ones are decoded."""
    return ThreadPoolExecutor(1, "counterpoint-join")


class _Table:
    """A table built from batches, which are joined early to avoid many small pieces."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._batches: list[Columns] = []
        self._waiting = 0
        self._frames: list[Future[pl.DataFrame]] = []
        self.size = 0

    def append(self, batch: Columns) -> None:
        self._batches.append(batch)
        self._waiting += len(batch["start_ps"])
        self.size += sum(column.nbytes for column in batch.values())
        if self._waiting >= _JOINED_ROWS:
            self._join()

    def frame(self, *, by_line: bool) -> pl.DataFrame:
        """Return the table; `by_line` if pieces of the same lines were appended in turn."""
        self._join()
        frames = [frame.result() for frame in self._frames]
        self._frames.clear()
        return _by_line(frames) if by_line else pl.concat(frames)

    def _join(self) -> None:
        self._frames.append(_joiner().submit(_concatenate, self._batches, self._schema))
        self._batches = []
        self._waiting = 0


class _Ops:
    """Rows of the ops table; one for each distinct name, instruction and program."""

    def __init__(self) -> None:
        self._rows: dict[tuple[object, ...], int] = {}
        # Batches of one plane use the same ids for the same ops: a row is built once per id.
        self._met: dict[tuple[Plane, bool], dict[tuple[int, ...], int]] = {}
        self._nameless: set[int] = set()
        self._slices: dict[int, int] = {}
        self.nameless_in_graphs = 0

    def forget_planes(self) -> None:
        """Release the planes read so far, which have no more events."""
        self._met.clear()

    def codes(self, plane: Plane, events: Events, is_async: bool) -> NDArray[np.uint32]:
        """Return the row of each event, adding new rows as needed."""
        columns = [events.metadata]
        for name in ("hlo_op", "hlo_module", "program_id"):
            stat = events.stats.get(name)
            if stat is not None:
                known = stat.known.all()
                columns.append(stat.value if known else np.where(stat.known, stat.value, _NONE))
        in_graph = _known(events, GRAPH_STAT)
        columns.append(in_graph.astype(np.int64))
        first, code = distinct(columns)
        row_of = self._met.setdefault((plane, is_async), {})
        rows = np.empty(len(first), np.uint32)
        keys = zip(*(column[first].tolist() for column in columns), strict=True)
        # In order of appearance: the numbers of ops do not depend on the size of batches.
        for at, position, key in sorted(zip(first.tolist(), range(len(first)), keys, strict=True)):
            if key not in row_of:
                row_of[key] = self._row(plane, events, at, is_async)
            rows[position] = row_of[key]
        codes = rows[code]
        if in_graph.any():
            self.nameless_in_graphs += int(np.isin(codes[in_graph], [*self._nameless]).sum())
        return codes

    def _row(self, plane: Plane, events: Events, at: int, is_async: bool) -> int:
        event = _event_name(plane, int(events.metadata[at]))
        on_event = {name: _stat(plane, events.stats[name], at) for name in events.stats}

        def text(name: str) -> str | None:
            value = on_event.get(name)
            return _as_text(event.stats.get(name) if value is None else value)

        from_text = _TPU_NAME.match(event.name)
        own = from_text[1] if from_text else None
        launched_by = transfers.instruction(text("hlo_op"), on_event.get(GRAPH_STAT) is not None)
        op = own if is_async and own else launched_by or own
        if from_text:
            # TPU profiles write `scope:type`, with no type for JAX.
            scope = (text("tf_op") or "").removesuffix(":") or None
        else:
            scope = transfers.scope(text("prefix"), text("name"))
        row = (
            own or event.name,
            op,
            text("hlo_module"),
            text("program_id"),
            is_async,
            text("hlo_category"),
            scope,
            text("source"),
            _as_number(event.stats.get("flops")),
            _as_number(event.stats.get("bytes_accessed")),
            event.name if from_text else None,
        )
        index = self._rows.setdefault(row, len(self._rows))
        if op is None:
            self._nameless.add(index)
        slices = group_size(event.stats.get(COLLECTIVE_STAT))
        if slices is not None:
            self._slices[index] = slices
        return index

    def frame(self) -> pl.DataFrame:
        frame = pl.DataFrame(list(self._rows), schema=OPS, orient="row")
        if not self._slices:
            return frame
        sizes = [self._slices.get(index) for index in range(len(frame))]
        return frame.with_columns(pl.Series("said_group_size", sizes, pl.UInt32))


def _event_name(plane: Plane, metadata: int) -> EventName:
    known = plane.event_names.get(metadata)
    return known or EventName(name=f"event {metadata}", display="", stats={})


def _stat(plane: Plane, stat: Stat, at: int) -> StatValue | None:
    if not stat.known[at]:
        return None
    value = int(stat.value[at])
    return plane.strings.get(value) if stat.is_text[at] else value


def _as_text(value: StatValue | None) -> str | None:
    if value is None or value == "":
        return None
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _as_number(value: StatValue | None) -> float | None:
    return float(value) if isinstance(value, int | float) and value else None


def _known(events: Events, name: str) -> NDArray[np.bool_]:
    stat = events.stats.get(name)
    return stat.known if stat is not None else np.zeros(len(events), bool)


def _select(events: Events, mask: NDArray[np.bool_], stats: Iterable[str] = ()) -> Events:
    rows = np.flatnonzero(mask)
    if len(rows) == len(mask):
        return replace(events, stats={name: events.stats[name] for name in stats})
    return Events(
        events.metadata[rows],
        events.offset_ps[rows],
        events.duration_ps[rows],
        {name: _rows_of(events.stats[name], rows) for name in stats},
    )


def _rows_of(stat: Stat, rows: Longs) -> Stat:
    return Stat(stat.value[rows], stat.known[rows], stat.is_text[rows])


def _concatenate(parts: list[Columns], schema: Schema) -> pl.DataFrame:
    """Concatenate all parts, freeing each column's parts as soon as they are joined."""
    if not parts:
        return pl.DataFrame(schema=schema)
    joined = {name: np.concatenate([part.pop(name) for part in parts]) for name in [*parts[0]]}
    known = joined.pop("run_known", None)
    frame = pl.DataFrame(joined).cast({**schema})
    if known is not None:
        frame = frame.with_columns(
            run_key=pl.when(pl.Series(known)).then(pl.col("run_key")).otherwise(None)
        )
    return frame.select(*schema)


def _by_line(frames: list[pl.DataFrame]) -> pl.DataFrame:
    """Order rows as in an XSpace that is in one piece: line by line, and each by start.

    An event is recorded when it ends, and may have begun before all events of the piece before.
    Takes the frames, and frees them column by column.
    """
    runs: dict[int, list[tuple[int, int, int]]] = {}
    for number, frame in enumerate(frames):
        line = frame["line"].to_numpy()
        bounds = [0, *(np.flatnonzero(np.diff(line)) + 1).tolist(), len(line)]
        for first, end in pairwise(bounds if len(line) else ()):
            runs.setdefault(int(line[first]), []).append((number, first, end - first))
    if not runs:
        return frames[0]
    columns = {name: [frame[name] for frame in frames] for name in frames[0].columns}
    frames.clear()

    def rows(name: str, line: int) -> pl.Series:
        parts = [columns[name][at].slice(first, count) for at, first, count in runs[line]]
        return pl.concat(parts, rechunk=True)

    orders = {line: _order(rows("start_ps", line), rows("dur_ps", line)) for line in sorted(runs)}
    made: list[pl.Series] = []
    for name in list(columns):
        ordered = (
            rows(name, line) if order is None else rows(name, line).gather(order)
            for line, order in orders.items()
        )
        made.append(pl.concat(list(ordered), rechunk=True))
        del columns[name]
    return pl.DataFrame(made)


def _order(start: pl.Series, duration: pl.Series) -> pl.Series | None:
    """Return the order of a line's rows: by start, the longer first; None if they are in order."""
    if start.is_sorted():
        return None
    order = np.lexsort((-duration.to_numpy(), start.to_numpy()))
    return pl.Series(order.astype(np.uint32))
