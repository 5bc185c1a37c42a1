"""Reads an `.xplane.pb` or `.xplane.riegeli` into a Recording.

Content of each plane (docs/formats/xplane.md):

    /device:GPU:N    one line per stream; lines derived from these are left out
    /device:TPU:N    XLA Ops, Async XLA Ops, XLA Modules, Steps
    /device:CUSTOM:Megascale Trace   transfers between TPU slices
    /host:CPU        one line per thread; with the CPU backend also the ops of virtual devices,
                     identified by `device_ordinal`
    /host:metadata   the HLO of the compiled modules
    Task Environment when the profile was taken
"""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np
import polars as pl

from counterpoint.core import InputError
from counterpoint.core.riegeli import UnreadRiegeli, chunks
from counterpoint.core.wire import Malformed
from counterpoint.timeline.late_ends import WAIT
from counterpoint.timeline.megascale import PLANE as _MEGASCALE
from counterpoint.timeline.model import EmbeddedProgram
from counterpoint.timeline.recording import EXECUTE, Recording
from counterpoint.timeline.step_range import StepRange
from counterpoint.timeline.step_window import LateWorkError, StepWindow, window_of
from counterpoint.timeline.xplane.arrange import (
    ArrangedHost,
    ArrangedSpans,
    arrange_host,
    arrange_spans,
    compiled_host,
    compiled_spans,
)
from counterpoint.timeline.xplane.collect import Collector
from counterpoint.timeline.xplane.events import Events
from counterpoint.timeline.xplane.lines import begun_ahead, read_arranged, read_events
from counterpoint.timeline.xplane.planes import (
    CONSUMER,
    DEVICE,
    HOST,
    LARGE,
    MEMORY_STATS,
    MODULE_LINE,
    OP_STATS,
    PRODUCER,
    STEP_LINE,
    Plane,
    PlaneLine,
    SpaceTexts,
    describe_device,
    read_planes,
    read_texts,
    starts,
)
from counterpoint.timeline.xplane.python_samples import SAMPLE, STATS, THREAD
from counterpoint.timeline.xplane.transfers import (
    GRAPH_STAT,
    LAUNCHED_PLAINLY,
    Messages,
    wanted_actions,
)

_METADATA: Final = "/host:metadata"
_TASK: Final = "Task Environment"

_DEVICE_STATS: Final = (*OP_STATS, "prefix", "name", GRAPH_STAT)
_HOST_STATS: Final = (
    *(*OP_STATS, "device_ordinal", PRODUCER, CONSUMER),
    *sorted(MEMORY_STATS),
)
_PROTO_STATS: Final = ("Hlo Proto", "HLO Proto")

_SINCE_1970_NS: Final = 10**17  # 1973: longer than any time since a machine or a profiler started

_PEAK: Final = 4
"""Memory that `explain` takes, as a multiple of the rows of a Recording (benchmarks/pieces.py)."""

_OPS_LINE: Final = "XLA Ops"
_ASYNC_LINE: Final = "Async XLA Ops"
_STREAM_PREFIX: Final = "Stream #"


Reached = Callable[[int], None]
Cut = Callable[[PlaneLine, Events], Events]


def _ignore(offset: int) -> None:
    del offset


def is_xplane(head: bytes) -> bool:
    """Return whether a file with this head is an XSpace: field 1, length-delimited, not text."""
    return head[:1] == b"\x0a" and any(byte < 9 or byte > 126 for byte in head[1:64])


def read_xplane(
    data: memoryview,
    source: str,
    reached: Reached = _ignore,
    wanted: StepRange | None = None,
) -> Recording:
    """Read one host's profile; of a large one only the `wanted` steps, if its markers tell them.

    `reached` is called with the offset after each line that has been read and is not needed again:
    to show progress, and to release the file's memory.
    """
    try:
        if wanted is not None and (part := _read_part(data, source, reached, wanted)):
            return part
        capture = _Capture()
        capture.add(data, reached)
        return capture.finish(source, host=source)
    except Malformed as damage:
        raise InputError(
            f"{source}: not a complete XPlane profile: {damage}",
            why=_guess_damage(data),
            next="copy the file again in binary mode, or capture the profile again",
        ) from None


def _read_part(
    data: memoryview, source: str, reached: Reached, wanted: StepRange
) -> Recording | None:
    """Read the wanted steps of a large profile; None if its markers do not tell when they ran."""
    from counterpoint.timeline.xplane.marks import read_host_markers

    window = window_of(read_host_markers(data), wanted) if len(data) >= LARGE else None
    if window is None:
        return None
    capture = _Capture(window)
    try:
        capture.add(data, reached)
    except LateWorkError:
        return None
    if not window.holds(capture.markers):
        return None
    recording = capture.finish(source, host=source)
    return replace(recording, **window.part(recording))


def read_pieces(
    data: memoryview, source: str, memory_bytes: int, reached: Reached = _ignore
) -> Recording:
    """Read one host's profile from a Riegeli file; each record is an XSpace, a piece of the whole.

    The pieces follow each other in time. What lies behind damage, or would take more memory, is
    left out with a note.
    """
    capture = _Capture()
    problem = None
    next_: str = "copy the file again in binary mode, or capture the profile again"
    try:
        for chunk in chunks(data):
            if _PEAK * capture.size + chunk.size > memory_bytes:
                share = chunk.start / len(data)
                problem = (
                    f"only the first {share:.0%} of the file was read, which takes the"
                    f" {memory_bytes / 1e9:,.1f} GB of memory allowed: --memory allows more"
                )
                next_ = f"use --memory {chunk.size / 1e9 + 1:.0f}"
                break
            for record in chunk.records():
                capture.add(record, _ignore)
            reached(chunk.end)
            _give_back_freed()
    except UnreadRiegeli as other:
        raise InputError(f"{source}: a Riegeli file of another kind: {other}") from None
    except Malformed as damage:
        problem = f"the file is cut off or damaged, and the rest is left out: {damage}"
    try:
        return capture.finish(source, host=_host_in(source), problem=problem)
    except Malformed as damage:
        raise InputError(
            f"{source}: no XPlane profile could be read from this Riegeli file",
            why=problem or str(damage),
            next=next_,
        ) from None


def _give_back_freed() -> None:
    """Return what a piece took to the system: glibc's heap keeps a third of it otherwise."""
    with suppress(OSError, AttributeError):  # another C library
        ctypes.CDLL(None).malloc_trim(0)


def _host_in(source: str) -> str:
    """Return the host in a file name: the pieces that XLA writes do not name it."""
    name = source.replace("\\", "/").rpartition("/")[2]
    return name.partition(".xplane.")[0] or source


class _Capture:
    """Reads a capture XSpace by XSpace: usually one, or many if XLA wrote it piece by piece.

    Each has its own tables of names. Planes of the same name, and lines of the same id and name,
    are the same in all.
    """

    def __init__(self, window: StepWindow | None = None) -> None:
        self._collector = Collector()
        self._window = window
        self._programs: dict[str, EmbeddedProgram] = {}
        self._environment: dict[str, str] = {}
        self._notes: dict[str, str] = {}
        self._skipped: Counter[str] = Counter()
        self._unread: Counter[str] = Counter()
        self._planes: dict[str, None] = {}
        self._texts: list[SpaceTexts] = []
        self._zero_ns: int | None = None

    @property
    def markers(self) -> pl.DataFrame:
        """The markers read so far."""
        return self._collector.markers

    @property
    def size(self) -> int:
        """About how many bytes the rows read so far take."""
        return self._collector.size

    def add(self, data: memoryview, reached: Reached) -> None:
        """Read an XSpace, of which nothing is needed afterwards."""
        planes = list(read_planes(data))
        stamps = [line.timestamp_ns for plane in planes for line in plane.lines]
        self._collector.begin_piece(stamps, len(data))
        if self._zero_ns is None and max(stamps, default=0) > _SINCE_1970_NS:
            self._zero_ns = min(stamp for stamp in stamps if stamp)
        unread: Counter[str] = Counter()
        for plane in planes:
            self._planes[plane.name] = None
            if not self._read(data, plane, reached):
                unread[plane.name] += len(plane.lines)
        self._unread |= unread  # the larger count: a line may be in every piece
        for name, lines in self._unread.items():
            self._notes[name] = f"plane {name} was not read: {lines} lines"
        self._texts.append(read_texts(data))

    def _read(self, data: memoryview, plane: Plane, reached: Reached) -> bool:
        """Read a plane; return whether it is one of those that are read."""
        device = DEVICE.match(plane.name)
        if device:
            number = int(device[2])
            cut = self._cut(plane, None)
            note = _read_device(data, plane, device[1], number, self._collector, reached, cut)
            if note:
                self._notes[plane.name] = note
        elif plane.name == HOST:
            cut = self._cut(plane, "device_ordinal")
            self._skipped[plane.name] += _read_host(data, plane, self._collector, reached, cut)
            if skipped := self._skipped[plane.name]:
                self._notes[plane.name] = (
                    f"{skipped:,} book-keeping marks of the host's thread pools are left out"
                )
        elif plane.name == _MEGASCALE:
            _read_megascale(data, plane, self._collector, reached)
        elif plane.name == _METADATA:
            self._programs |= _embedded_programs(plane)
            self._environment |= {key: str(value) for key, value in plane.stats.items()}
        elif plane.name == _TASK:
            self._environment |= {
                key: str(value) for key, value in plane.stats.items() if isinstance(value, int)
            }
        else:
            return not plane.lines
        return True

    def _cut(self, plane: Plane, of_device: str | None) -> Cut | None:
        """Return what leaves out the events of a line that are outside the window."""
        window, zero_ns = self._window, self._collector.zero_ns
        if window is None:
            return None
        kept = [key for key, it in plane.event_names.items() if it.name == LAUNCHED_PLAINLY]

        def cut(line: PlaneLine, events: Events) -> Events:
            if not len(events):
                return events
            start = starts(line, events, zero_ns)
            end = start + events.duration_ps
            run = events.stats.get("run_id")
            module = events.stats.get("hlo_module")
            if module is not None:
                own = module.known & events.known(of_device) if of_device else module.known
                work = np.flatnonzero(own)
                known = run is not None and bool(run.known[work].all())
                window.look(
                    start[work],
                    end[work],
                    plane.name,
                    module.value[work],
                    run.value[work] if run and known else None,
                )
            mask = window.overlaps(start, end) | events.known(plane.marker_stat)
            mask |= np.isin(events.metadata, kept)
            return replace(events.select(mask, events.stats), summaries=events.summaries)

        return cut

    def finish(self, source: str, host: str, problem: str | None = None) -> Recording:
        """Build the Recording; `host` is its name if no XSpace has one."""
        if not any(self._planes):
            raise Malformed("it holds no named planes")
        hostnames = [name for texts in self._texts for name in texts.hostnames]
        warnings = [warning for texts in self._texts for warning in texts.warnings]
        passed_on = dict.fromkeys(note for texts in self._texts for note in _passed_on(texts))
        notes = [*passed_on, *self._notes.values(), *_warn(self._collector, self._planes)]
        recording = self._collector.finish(
            source=source,
            host=hostnames[0] if hostnames else host,
            programs=self._programs,
            environment=self._environment,
            notes=notes if problem is None else [f"{source}: {problem}", *notes],
            truncated=problem is not None or any("dropped" in warning for warning in warnings),
        )
        started = self._environment.get("profile_start_time", "")
        known = started.isdecimal() and int(started) > _SINCE_1970_NS
        # Lines count from 1970, or from the profile's start.
        zero_ns = int(started) if self._zero_ns is None and known else self._zero_ns
        return replace(recording, zero_ns=zero_ns)


def _passed_on(texts: SpaceTexts) -> list[str]:
    return [
        *(f"the profiler reports an error: {error}" for error in texts.errors),
        *(f"the profiler warns: {warning}" for warning in texts.warnings),
    ]


def _warn(collector: Collector, planes: Iterable[str]) -> list[str]:
    if collector.devices:
        return []
    listed = ", ".join(planes) or "none"
    return [f"no device plane and no device ops on host threads (planes found: {listed})"]


def _read_device(
    data: memoryview,
    plane: Plane,
    kind: str,
    ordinal: int,
    collector: Collector,
    reached: Reached,
    cut: Cut | None,
) -> str | None:
    """Read a device's plane; return a note on what is left out."""
    device = collector.device(describe_device(plane, kind.lower(), ordinal))
    has_streams = any(line.name.startswith(_STREAM_PREFIX) for line in plane.lines)
    wanted = plane.selection(_DEVICE_STATS)
    left_out: list[str] = []
    for line in plane.lines:
        where = (data, line.start, line.end, wanted, plane.strings)
        if line.name == MODULE_LINE:
            for events, _ in read_events(*where):
                collector.add_executions(plane, device, line, events)
        elif line.name == STEP_LINE:
            for events, _ in read_events(*where):
                collector.add_steps(plane, device, line, events)
        elif line.name.startswith(_STREAM_PREFIX) if has_streams else _is_ops_line(line):
            collector.open_line(plane, line)
            arrange = partial(_cut_spans, cut, line, collector.zero_ns)
            compiled = None if cut else compiled_spans(wanted, line, collector.zero_ns)
            for spans, _ in read_arranged(*where, arrange, compiled):
                collector.add_spans(plane, device, spans, line.name == _ASYNC_LINE)
        elif line.start < line.end:
            left_out.append(line.name)
        reached(line.end)
    if not left_out or ordinal:
        return None
    return f"{plane.name}: lines derived by the profiler are left out: {', '.join(left_out)}"


def _cut_spans(cut: Cut | None, line: PlaneLine, zero_ns: int, events: Events) -> ArrangedSpans:
    return arrange_spans(cut(line, events) if cut else events, line, zero_ns)


def _cut_host(
    cut: Cut | None, line: PlaneLine, zero_ns: int, ends: Mapping[int, int], events: Events
) -> ArrangedHost:
    return arrange_host(cut(line, events) if cut else events, line, zero_ns, ends)


def _is_ops_line(line: PlaneLine) -> bool:
    return line.name in (_OPS_LINE, _ASYNC_LINE)


def _read_host(
    data: memoryview, plane: Plane, collector: Collector, reached: Reached, cut: Cut | None
) -> int:
    """Read a host's plane; return how many book-keeping marks were skipped."""
    wanted, messages = plane.selection((*_HOST_STATS, plane.marker_stat)), Messages(plane)
    modules = {
        key: match[1]
        for key, event in plane.event_names.items()
        if (match := EXECUTE.match(event.name))
    }
    waits = {key for key, event in plane.event_names.items() if event.name == WAIT}
    launching = plane.selection_of(modules.keys() | waits, ("run_id",))
    sampled = {key for key, event in plane.event_names.items() if event.name in (SAMPLE, THREAD)}
    sampling = plane.selection_of(sampled, STATS)
    skipped = 0

    def begin(line: PlaneLine) -> Iterator[tuple[ArrangedHost, int]]:
        arrange = partial(_cut_host, cut, line, collector.zero_ns, wanted.ends)
        compiled = None if cut else compiled_host(wanted, line, collector.zero_ns)
        return read_arranged(data, line.start, line.end, wanted, plane.strings, arrange, compiled)

    for line, batches in begun_ahead(plane.lines, begin):
        collector.open_line(plane, line)
        for arranged, dropped in batches:
            skipped += dropped
            collector.add_host_events(plane, arranged)
        if launching is not None:
            for events, _ in read_events(data, line.start, line.end, launching, plane.strings):
                collector.add_launches(line, events, modules)
                collector.add_waits(line, events, waits)
        if sampling is not None:
            for events, _ in read_events(data, line.start, line.end, sampling, plane.strings):
                collector.add_samples(plane, line, events)
                skipped -= len(events)  # they are no book-keeping
        transfer_events = messages.of(line.name)
        if transfer_events is not None:
            wanted_messages, actions = transfer_events
            for events, _ in read_events(
                data, line.start, line.end, wanted_messages, plane.strings
            ):
                collector.add_messages(plane, line, events, actions)
        reached(line.end)
    return skipped


def _read_megascale(data: memoryview, plane: Plane, collector: Collector, reached: Reached) -> None:
    wanted = wanted_actions(plane)
    for line in plane.lines:
        collector.open_line(plane, line)
        for events, _ in read_events(data, line.start, line.end, wanted, plane.strings):
            collector.add_actions(plane, line, events)
        reached(line.end)


def _embedded_programs(plane: Plane) -> dict[str, EmbeddedProgram]:
    """Return HLO protos, by program id; the plane names them `module(id)`."""
    programs: dict[str, EmbeddedProgram] = {}
    for key, event in plane.event_names.items():
        for value in map(event.stats.get, _PROTO_STATS):
            if isinstance(value, bytes) and value:
                name, _, number = event.name.rpartition("(")
                program = number.rstrip(")") if name else str(key)
                programs[program] = EmbeddedProgram(name or event.name, _constant(value))
    return programs


def _constant(value: bytes) -> Callable[[], bytes]:
    return lambda: value


def _guess_damage(data: memoryview) -> str:
    head = bytes(data[: 1 << 16])
    # By chance a profile may hold these three bytes, too, but a converted one holds UTF-8 only.
    if b"\xef\xbf\xbd" in head and len(head.decode(errors="ignore").encode()) > len(head) - 4:
        return (
            "it went through a text conversion: bytes that are not UTF-8 were replaced by U+FFFD"
            " and cannot be recovered"
        )
    return "it is cut off or damaged"
