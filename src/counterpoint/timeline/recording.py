"""Raw data that one profiler wrote on one host, before any interpretation.

A reader turns a file into a Recording and guesses nothing: data that the file lacks is null, and
`notes` gives the reason. `assemble` then builds the Timeline: it finds lanes, runs and steps, joins
hosts, and looks up scopes, sources and collectives in the embedded Programs. So each of these rules
is written once, for all formats.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import pairwise
from typing import Final

import numpy as np
import polars as pl

from counterpoint.core import Basis, Range
from counterpoint.core.columns import order_by, values_of
from counterpoint.timeline.model import MEMORY, Device, EmbeddedProgram, Schema

__all__ = ["IN_GRAPHS", "OPS", "EmbeddedProgram", "Schema"]

IN_GRAPHS: Final = "inside CUDA graphs"
"""Phrase in every note on work in CUDA graphs that names no instruction."""

PYTHON_SAMPLED: Final = "python_sampled"
"""An entry of the environment: what Python did is known from samples, with their distance."""

WORKS_IN_PYTHON: Final = "thread works in Python"
WORKS_IN_NATIVE_CODE: Final = "thread works in native code"
"""Events of a sampled thread beside those that nest: when it did not sleep or wait."""

SPANS: Final[Schema] = {
    "device": pl.UInt16,  # index into Recording.devices
    "line": pl.UInt32,  # index into Recording.lines: a stream, a thread, a TPU line
    "op": pl.UInt32,  # row of Recording.ops
    "run_key": pl.Int64,  # same for all spans of one execution on a device; null if unknown
    "start_ps": pl.Int64,  # on the host's clock, from any time 0 that all its devices share
    "dur_ps": pl.Int64,
}
"""Work on a device. Spans on one line nest or follow each other."""

OPS: Final[Schema] = {
    "name": pl.String,  # as the profiler names the event: a kernel, or the HLO instruction
    "op": pl.String,  # HLO instruction; null if the profiler does not know it
    "module": pl.String,  # HLO module; null if unknown
    "program_key": pl.String,  # identifies one of the host's Programs; null if unknown
    "async_window": pl.Boolean,  # the span is start-to-done of an async op, not work on a core
    "hint": pl.String,  # the profiler's own name of the kind: "memcpy", "non-fusion", ...
    "scope": pl.String,  # op_name path, as written
    "source": pl.String,  # file:line
    "flops": pl.Float64,  # of one execution
    "bytes": pl.Float64,  # accessed by one execution
    "text": pl.String,  # HLO text of the instruction
}
"""One row for each distinct op that spans refer to."""

TIMELINE_COLUMNS: Final[Schema] = {
    "said_category": pl.String,
    "said_lane": pl.String,
    "said_phase": pl.String,
    "said_scope": pl.String,
    "said_collective": pl.String,
    "said_bytes": pl.Int64,
    "said_group_size": pl.UInt32,
    "said_bus_factor": pl.Float64,
}
"""Additional columns of OPS in a trace written from a Timeline: the Timeline's data on each op.

`said_X` is the Timeline's column X. It takes precedence over what is derived from names.
"""

EXECUTIONS: Final[Schema] = {
    "device": pl.UInt16,
    "module": pl.String,
    "program_key": pl.String,
    "run_key": pl.Int64,
    "start_ps": pl.Int64,
    "dur_ps": pl.Int64,
}
"""Executions of whole modules, if the profiler records them itself."""

MARKERS: Final[Schema] = {
    "device": pl.UInt16,  # null: a marker on a host thread
    "step": pl.Int64,
    "name": pl.String,
    "start_ps": pl.Int64,
    "dur_ps": pl.Int64,
}
"""Steps as the user or the profiler marked them."""

HOST_EVENTS: Final[Schema] = {
    "line": pl.UInt32,
    "name": pl.UInt32,  # index into Recording.host_names
    "start_ps": pl.Int64,
    "dur_ps": pl.Int64,
}
"""Events on host threads."""

LAUNCHES: Final[Schema] = {
    "run_key": pl.Int64,  # of the runs that it launched, one on each of its devices
    "module": pl.String,
    "start_ps": pl.Int64,
    "dur_ps": pl.Int64,
}
"""Calls of a host that executed a module, if the profiler tells which runs each launched."""

EXECUTE: Final = re.compile(r"^\w+LoadedExecutable::Execute \((.+)\)$")
"""The runtime's event of such a call, with its module."""

TRANSFERS: Final[Schema] = {
    "device": pl.UInt16,  # null: the host itself, or unknown
    "line": pl.UInt32,
    "action": pl.String,  # of Action in the Timeline's model
    "name": pl.String,
    "start_ps": pl.Int64,
    "dur_ps": pl.Int64,
    "bytes": pl.Int64,
    "latency_ps": pl.Int64,
    "peer": pl.String,
}
"""Transfers of a runtime between hosts or slices."""


@dataclass(frozen=True, slots=True)
class RecordedPart:
    """The known steps of a host of which only some were read.

    `marks` describes all markers, and `own_marks` those that were read.
    """

    whole: tuple[int, ...]  # numbers of all steps that were recorded whole
    marks: str
    own_marks: str


@dataclass(frozen=True, slots=True, eq=False)
class Recording:
    """One host's profile as columns."""

    source: str
    host: str
    devices: tuple[Device, ...]
    lines: tuple[str, ...]
    ops: pl.DataFrame
    spans: pl.DataFrame
    executions: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=EXECUTIONS))
    markers: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=MARKERS))
    host_events: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=HOST_EVENTS))
    host_names: tuple[str, ...] = ()
    launches: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=LAUNCHES))
    transfers: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=TRANSFERS))
    memory: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=MEMORY))
    programs: Mapping[str, EmbeddedProgram] = field(default_factory=dict[str, EmbeddedProgram])
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    notes: tuple[str, ...] = ()
    truncated: bool = False
    basis: Basis = Basis.MEASURED
    target: str | None = None  # of a prediction, as in Timeline
    predicted_range: Range | None = None
    zero_ns: int | None = None  # host clock at time 0, since 1970, if known
    tells_host: bool = True  # false: `host` is only the file's name
    part: RecordedPart | None = None  # None: all of it
    rank: tuple[int, int] | None = None  # of the process, and the number of ranks of its run


_FARTHEST_NS: Final = 1 << 50
"""13 days: hosts whose clocks are farther apart than this keep their own times."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingSummary:
    """Properties of a Recording. `content` is equal for profiles with the same spans."""

    source: str
    host: str
    devices: tuple[Device, ...]
    basis: Basis
    target: str | None
    predicted_range: Range | None
    environment: Mapping[str, str]
    truncated: bool
    content: bytes | None  # None: it has no spans, or there is no other to compare it with
    zero_ns: int | None  # its own clock at time 0, since 1970
    tells_host: bool
    rank: tuple[int, int] | None
    first_ps: int | None
    last_ps: int | None

    @property
    def interval_ns(self) -> tuple[int, int] | None:
        """First start and last end of its spans, since 1970 by its own clock."""
        if self.zero_ns is None or self.first_ps is None or self.last_ps is None:
            return None
        return self.zero_ns + self.first_ps // 1000, self.zero_ns + self.last_ps // 1000


def summarize_recording(recording: Recording, *, alone: bool = False) -> RecordingSummary:
    """Return the properties of a Recording that outlast it.

    `alone`: it is the only one, so its content is not compared with that of others.
    """
    spans = recording.spans
    first, last = spans["start_ps"].min(), (spans["start_ps"] + spans["dur_ps"]).max()
    return RecordingSummary(
        source=recording.source,
        host=recording.host,
        devices=recording.devices,
        basis=recording.basis,
        target=recording.target,
        predicted_range=recording.predicted_range,
        environment=recording.environment,
        truncated=recording.truncated,
        content=_content(recording) if len(spans) and not alone else None,
        zero_ns=recording.zero_ns,
        tells_host=recording.tells_host,
        rank=recording.rank,
        first_ps=first if isinstance(first, int) else None,
        last_ps=last if isinstance(last, int) else None,
    )


def _content(recording: Recording) -> bytes:
    ordinals = [device.ordinal for device in recording.devices]  # distinguishes ranks of one host
    content = sha256(repr((ordinals, recording.ops.rows())).encode())
    for name in ("device", "line", "op", "start_ps", "dur_ps"):
        content.update(np.ascontiguousarray(recording.spans[name].to_numpy()).data)
    return content.digest()


def zero_of(first: RecordingSummary, own: RecordingSummary) -> int | None:
    """Return what a host's clock showed at the time 0 of its times in a Timeline."""
    if first.zero_ns is None or own.zero_ns is None:
        return own.zero_ns
    return first.zero_ns if abs(own.zero_ns - first.zero_ns) <= _FARTHEST_NS else own.zero_ns


def on_clock_of(first: RecordingSummary, own: RecordingSummary, recording: Recording) -> Recording:
    """Return the Recording with times relative to the time 0 of the first host.

    Times of a host have an arbitrary zero. With a known zero they are put on the scale of the first
    host, so remaining differences are those of the clocks, not of when each host began to record.
    """
    zero = zero_of(first, own)
    if own.zero_ns is None or zero is None or own.zero_ns == zero:
        return recording
    apart = own.zero_ns - zero

    def later(frame: pl.DataFrame) -> pl.DataFrame:
        return frame.with_columns(pl.col("start_ps") + apart * 1000)

    return replace(
        recording,
        spans=later(recording.spans),
        executions=later(recording.executions),
        markers=later(recording.markers),
        host_events=later(recording.host_events),
        launches=later(recording.launches),
        transfers=later(recording.transfers),
        memory=later(recording.memory),
    )


def without_idle_devices(recording: Recording) -> Recording:
    """Return the Recording with only its busy devices, in order, and a note on the others.

    A host shows all its devices, though a program may use only one.
    """
    device = recording.spans["device"].to_numpy()
    stretches = np.append(0, np.flatnonzero(device[1:] != device[:-1]) + 1)
    used: list[int] = values_of(device[stretches[: len(device)]]).tolist()
    busy = sorted(used, key=lambda index: recording.devices[index].ordinal)
    if busy == list(range(len(recording.devices))):
        return recording
    new_index = {old: new for new, old in enumerate(busy)}

    renamed = pl.col("device").replace_strict(new_index, default=None, return_dtype=pl.UInt16)

    def renumbered(frame: pl.DataFrame) -> pl.DataFrame:
        busy_rows = frame.filter(pl.col("device").is_in(busy) | pl.col("device").is_null())
        return busy_rows.with_columns(renamed)

    idle = len(recording.devices) - len(busy)
    idle_note = [f"{idle} of {len(recording.devices)} devices have no work in it and are left out"]
    return replace(
        recording,
        devices=tuple(recording.devices[index] for index in busy),
        spans=renumbered(recording.spans),
        executions=renumbered(recording.executions),
        markers=renumbered(recording.markers),
        transfers=recording.transfers.with_columns(renamed),
        memory=renumbered(recording.memory),
        notes=(*recording.notes, *(idle_note if idle else ())),
    )


def joined_by_line(frames: list[pl.DataFrame]) -> pl.DataFrame:
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

    orders = {
        line: _line_order(rows("start_ps", line), rows("dur_ps", line)) for line in sorted(runs)
    }
    made: list[pl.Series] = []
    for name in list(columns):
        ordered = (
            rows(name, line) if order is None else rows(name, line).gather(order)
            for line, order in orders.items()
        )
        made.append(pl.concat(list(ordered), rechunk=True))
        del columns[name]
    return pl.DataFrame(made)


def _line_order(start: pl.Series, duration: pl.Series) -> pl.Series | None:
    """Return the order of a line's rows: by start, the longer first; None if they are in order."""
    if start.is_sorted():
        return None
    return pl.Series(order_by(start.to_numpy(), -duration.to_numpy()).astype(np.uint32))
