"""Collects the columns of a Recording line by line while an XSpace is read."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import median
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counterpoint.timeline.megascale import TransferCollector
from counterpoint.timeline.model import MEMORY, Action, Device, EmbeddedProgram
from counterpoint.timeline.recording import (
    EXECUTIONS,
    HOST_EVENTS,
    IN_GRAPHS,
    LAUNCHES,
    MARKERS,
    OPS,
    PYTHON_SAMPLED,
    SPANS,
    Recording,
)
from counterpoint.timeline.xplane import transfers
from counterpoint.timeline.xplane.arrange import ArrangedHost, ArrangedSpans, StepMarkers
from counterpoint.timeline.xplane.events import Events
from counterpoint.timeline.xplane.growing import KNOWN, Coded, Column, GrowingTable
from counterpoint.timeline.xplane.missed_samples import with_missed
from counterpoint.timeline.xplane.planes import (
    LATEST_PS,
    EventName,
    Plane,
    PlaneLine,
    StatValue,
    as_number,
    as_text,
    starts,
)
from counterpoint.timeline.xplane.python_samples import STATS, Sample, frames_of, work_of
from counterpoint.timeline.xplane.transfers import COLLECTIVE_STAT, group_size

_EVENT_BYTES: Final = 50
"""Bytes of an event in a file, about."""

_STEP_DIGITS: Final = 19
_OF_OPS: Final = frozenset(
    ("hlo_op", "hlo_module", "program_id", "prefix", "name", "tf_op", "hlo_category", "source")
)
_NOTHING_KNOWN: Final = (None, None, None)

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
        self._zero_ns = 0
        self._ops = _Ops()
        self._summaries = 0
        self._spans = GrowingTable(SPANS, nullable="run_key")
        self._going_on: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
        self._over: dict[int, int] = {}
        self._ended: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
        self._host = GrowingTable(HOST_EVENTS)
        self._transfers = TransferCollector()
        self._memory: list[pl.DataFrame] = []
        self._names: dict[str, int] = {}
        self._threads: dict[tuple[str, int], int] = {}  # their lines
        self._samples: dict[tuple[str, int], list[Sample]] = {}
        self._executions: list[tuple[object, ...]] = []
        self._launches: list[tuple[int, str, int, int]] = []
        self._markers: list[tuple[object, ...]] = []

    @property
    def markers(self) -> pl.DataFrame:
        """The markers added so far."""
        markers = pl.DataFrame(self._markers, schema=MARKERS, orient="row")
        # Those without a number are numbered in order, each name for itself.
        turn = pl.col("start_ps").rank("ordinal").over("name").cast(pl.Int64) - 1
        return markers.with_columns(pl.coalesce("step", turn))

    @property
    def size(self) -> int:
        """About how many bytes the rows take."""
        return self._spans.size + self._host.size

    @property
    def zero_ns(self) -> int:
        """Time zero of the piece that was begun, by the clock of its lines."""
        return self._zero_ns

    def begin_piece(self, stamps_ns: Sequence[int], size: int) -> None:
        """Start an XSpace, the first or the next of a capture: its lines' timestamps and its size.

        Time zero is the earliest line if picoseconds since 1970 would not fit 64 bits.
        """
        self._pieces += 1
        self._opened.clear()
        self._ops.forget_planes()
        if not self._zero_ns and max(stamps_ns, default=0) * 1000 >= LATEST_PS:
            self._zero_ns = min(stamp for stamp in stamps_ns if stamp)
        self._spans.expect(size // _EVENT_BYTES)
        self._host.expect(size // _EVENT_BYTES)

    def device(self, device: Device) -> int:
        """Return the index of a device, adding it if it is new."""
        key = (device.kind, device.ordinal)
        index = self._device_of.setdefault(key, len(self.devices))
        if index == len(self.devices):
            self.devices.append(device)
        else:
            known = self.devices[index]
            if (device.chip, device.peak_flops, device.peak_bytes) != _NOTHING_KNOWN:
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

    def add_spans(self, plane: Plane, device: int, spans: ArrangedSpans, is_async: bool) -> None:
        """Add work that a device plane records."""
        self._summaries += spans.summaries
        self._add_spans(plane, device, spans, is_async)

    def add_host_events(self, plane: Plane, arranged: ArrangedHost) -> None:
        """Add events of a host thread: ops of virtual CPU devices, step markers, the rest."""
        if len(arranged.ordinals):
            # Sorted: the numbers do not depend on the order in which a decoder met them.
            number = {
                n: self.device(Device(ordinal=n, kind="cpu")) for n in sorted(arranged.ordinals)
            }
            index = [number[ordinal] for ordinal in arranged.ordinals]
            self._going_on.append((arranged.ends.row + self._spans.rows, arranged.ends.producer))
            self._add_spans(
                plane, Coded(np.array(index, np.uint16), arranged.device), arranged.ops, False
            )
        self._ended.append((arranged.ends.consumer, arranged.ends.end_ps))
        self._add_markers(plane, arranged.markers)
        if len(arranged.memory):
            from counterpoint.timeline.xplane.memory import memory_changes

            changes = memory_changes(plane, arranged.memory, arranged.memory_start_ps)
            self._memory.append(changes)
        self._add_host(plane, arranged)

    def add_actions(self, plane: Plane, line: PlaneLine, events: Events) -> None:
        """Add actions recorded by Megascale."""
        if len(events):
            start = starts(line, events, self._zero_ns)
            self._transfers.add_actions(transfers.table(plane, self._line, events, start))

    def add_messages(
        self, plane: Plane, line: PlaneLine, events: Events, tells: Mapping[str, Action]
    ) -> None:
        """Add events of a host thread that describe transfers."""
        if len(events):
            table = transfers.table(plane, self._line, events, starts(line, events, self._zero_ns))
            self._transfers.add_messages(table, tells)

    def add_executions(self, plane: Plane, device: int, line: PlaneLine, events: Events) -> None:
        """Add executions of modules, named `module(program id)`."""
        start = starts(line, events, self._zero_ns)
        run = events.stats.get("run_id")
        for row, metadata in enumerate(events.metadata.tolist()):
            name = plane.event_name(metadata).name
            match = _MODULE.match(name)
            module, program = (match[1], match[2]) if match else (name, None)
            key = int(run.value[row]) if run is not None and run.known[row] else None
            self._executions.append(
                (device, module, program, key, int(start[row]), int(events.duration_ps[row]))
            )

    def add_launches(self, line: PlaneLine, events: Events, modules: Mapping[int, str]) -> None:
        """Add calls that launched runs; `modules` has the module by kind of event."""
        run = events.stats.get("run_id")
        if run is None:
            return
        start = starts(line, events, self._zero_ns)
        called = run.known & np.isin(events.metadata, [*modules])
        for row in np.flatnonzero(called).tolist():
            module = modules[int(events.metadata[row])]
            times = int(start[row]), int(events.duration_ps[row])
            self._launches.append((int(run.value[row]), module, *times))

    def add_waits(self, line: PlaneLine, events: Events, kinds: Container[int]) -> None:
        """Add events that end when all ops of a run have ended."""
        run = events.stats.get("run_id")
        if run is None:
            return
        end = starts(line, events, self._zero_ns) + events.duration_ps
        for row in np.flatnonzero(run.known).tolist():
            if int(events.metadata[row]) in kinds:
                key = int(run.value[row])
                self._over[key] = max(self._over.get(key, 0), int(end[row]))

    def add_samples(self, plane: Plane, line: PlaneLine, events: Events) -> None:
        """Add samples of what Python did on a thread, and which thread this one is."""
        if "thread" not in events.stats:
            return
        start = starts(line, events, self._zero_ns)
        threads, stacks, ran, waited, in_python = (
            plane.values(events.stats[name]) if name in events.stats else [None] * len(events)
            for name in STATS
        )
        for at_ps, thread, stack, *times, python in zip(
            start.tolist(), threads, stacks, ran, waited, in_python, strict=True
        ):
            if not isinstance(thread, int):
                continue
            if isinstance(stack, str):
                known = (time if isinstance(time, int) else None for time in times)
                sample = Sample(at_ps, tuple(stack.split("|")), *known, in_python=python == 1)
                self._samples.setdefault((plane.name, thread), []).append(sample)
            else:
                self._threads[plane.name, thread] = self._line

    def add_steps(self, plane: Plane, device: int, line: PlaneLine, events: Events) -> None:
        """Add steps that a device plane marks; the event's name is the step number."""
        start = starts(line, events, self._zero_ns)
        for row, metadata in enumerate(events.metadata.tolist()):
            name = plane.event_name(metadata).name
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
        self._extend_to_ends()
        self._add_sampled_frames()
        return Recording(
            source=source,
            host=host,
            devices=tuple(self.devices),
            lines=tuple(self._lines),
            ops=self._ops.frame(),
            spans=self._spans.frame(by_line=self._pieces > 1),
            executions=pl.DataFrame(self._executions, schema=EXECUTIONS, orient="row"),
            markers=self.markers,
            host_events=self._host.frame(by_line=self._pieces > 1 or bool(self._samples)),
            host_names=tuple(self._names),
            launches=pl.DataFrame(self._launches, schema=LAUNCHES, orient="row"),
            transfers=transfer_table,
            memory=self._memory_of_devices(),
            programs=programs,
            environment={**environment, **self._sampling()},
            notes=(*notes, *self._notes(), *transfer_notes),
            truncated=truncated,
        )

    def _extend_to_ends(self) -> None:
        """Let ops last until their ends are marked, where that is later than their events tell."""
        if not self._going_on or not self._ended:
            return
        row, producer = map(np.concatenate, zip(*self._going_on, strict=True))
        consumer, end_ps = map(np.concatenate, zip(*self._ended, strict=True))
        _, own, mark = np.intersect1d(producer, consumer, return_indices=True)
        rows, end_ps = row[own], end_ps[mark]
        over = [self._over.get(key, LATEST_PS) for key in self._spans.run_keys(rows)]
        self._spans.extend(rows, np.minimum(end_ps, np.array(over, np.int64)))

    def _sampling(self) -> Mapping[str, str]:
        apart = [
            (after.at_ps - before.at_ps) / 1e9
            for samples in self._samples.values()
            for before, after in pairwise(samples)
        ]
        return {PYTHON_SAMPLED: f"every {median(apart):.1f} ms"} if apart else {}

    def _add_sampled_frames(self) -> None:
        """Add what Python did by its samples, on the lines of the threads."""
        for key, samples in self._samples.items():
            line = self._threads.get(key, len(self._lines))
            if line == len(self._lines):
                self._lines.append(f"{key[0]}/python")
            start, end, named = self._host.events_of(line)
            known = with_missed(samples, start, end, named)
            frames = [*frames_of(known, start, end), *work_of(samples)]
            name = [self._names.setdefault(it.name, len(self._names)) for it in frames]
            self._host.append(
                len(frames),
                {
                    "line": line,
                    "name": np.array(name, np.uint32),
                    "start_ps": np.array([it.start_ps for it in frames], np.int64),
                    "dur_ps": np.array([it.end_ps - it.start_ps for it in frames], np.int64),
                },
            )

    def _memory_of_devices(self) -> pl.DataFrame:
        if not self._memory:
            return pl.DataFrame(schema=MEMORY)
        from counterpoint.timeline.xplane.memory import of_devices

        return of_devices(self._memory, self.devices)

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
        unnumbered = dict.fromkeys(name for _, step, name, *_ in self._markers if step is None)
        notes += [
            f"markers '{name}' have no step_num: their steps are numbered from 0, in order"
            for name in unnumbered
        ]
        return notes

    def _add_spans(
        self, plane: Plane, device: Column, spans: ArrangedSpans, is_async: bool
    ) -> None:
        if not len(spans):
            return
        self._spans.append(
            len(spans),
            {
                "device": device,
                "line": self._line,
                "op": Coded(self._ops.rows(plane, spans, is_async), spans.kind),
                "run_key": spans.run,
                "run_key" + KNOWN: spans.has_run,
                "start_ps": spans.start_ps,
                "dur_ps": spans.duration_ps,
            },
        )

    def _add_host(self, plane: Plane, arranged: ArrangedHost) -> None:
        number = {
            kind: self._names.setdefault(plane.event_name(kind).name, len(self._names))
            for kind in sorted(arranged.names)
        }
        index = np.array([number[kind] for kind in arranged.names], np.uint32)
        self._host.append(
            len(arranged.name),
            {
                "line": self._line,
                "name": Coded(index, arranged.name),
                "start_ps": arranged.others_start_ps,
                "dur_ps": arranged.others_duration_ps,
            },
        )

    def _add_markers(self, plane: Plane, markers: StepMarkers) -> None:
        columns = (markers.metadata, markers.step, markers.start_ps, markers.duration_ps)
        for kind, step, start, duration in zip(*(c.tolist() for c in columns), strict=True):
            number = step if markers.numbered else None
            self._markers.append((None, number, plane.event_name(kind).name, start, duration))


class _Ops:
    """Rows of the ops table; one for each distinct name, instruction and program."""

    def __init__(self) -> None:
        self._rows: dict[tuple[object, ...], int] = {}
        # Batches of one plane use the same ids for the same ops: a row is built once per id.
        self._met: dict[tuple[Plane, bool], dict[tuple[int, ...], int]] = {}
        # Planes of several devices have other ids for the same ops: a row is built once for all.
        self._built: dict[tuple[object, ...], int] = {}
        self._nameless: set[int] = set()
        self._slices: dict[int, int] = {}
        self.nameless_in_graphs = 0

    def forget_planes(self) -> None:
        """Release the planes read so far, which have no more events."""
        self._met.clear()

    def rows(self, plane: Plane, spans: ArrangedSpans, is_async: bool) -> NDArray[np.uint32]:
        """Return the row of each kind of op, adding new rows as needed."""
        row_of = self._met.setdefault((plane, is_async), {})
        rows = np.empty(len(spans.keys), np.uint32)
        said: Mapping[str, Sequence[StatValue | None]] = {}
        # In order of appearance: the numbers of ops do not depend on the size of batches.
        for position, key in enumerate(spans.keys):
            if key not in row_of:
                said = said or {
                    n: plane.values(spans.stats[n]) for n in _OF_OPS & spans.stats.keys()
                }
                on_event = {name: values[position] for name, values in said.items()}
                event = plane.event_name(key[0])
                row_of[key] = self._row(event, on_event, bool(spans.in_graph[position]), is_async)
            rows[position] = row_of[key]
        if spans.in_graph.any():
            nameless = np.isin(rows, [*self._nameless]) & spans.in_graph
            self.nameless_in_graphs += int(np.count_nonzero(nameless[spans.kind]))
        return rows

    def _row(
        self,
        event: EventName,
        on_event: Mapping[str, StatValue | None],
        in_graph: bool,
        is_async: bool,
    ) -> int:
        all_of_it = (event.name, is_async, in_graph, *on_event.items(), *event.stats.items())
        if (built := self._built.get(all_of_it)) is not None:
            return built

        def text(name: str) -> str | None:
            value = on_event.get(name)
            return as_text(event.stats.get(name) if value is None else value)

        from_text = _TPU_NAME.match(event.name)
        own = from_text[1] if from_text else None
        launched_by = transfers.instruction(text("hlo_op"), in_graph)
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
            as_number(event.stats.get("flops")),
            as_number(event.stats.get("bytes_accessed")),
            event.name if from_text else None,
        )
        index = self._built[all_of_it] = self._rows.setdefault(row, len(self._rows))
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
