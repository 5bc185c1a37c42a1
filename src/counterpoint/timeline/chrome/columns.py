"""The columns of a Recording, filled track by track."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Final, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counterpoint.timeline.chrome.ends import until_their_ends
from counterpoint.timeline.chrome.kineto import host_event_name, sent_data
from counterpoint.timeline.chrome.roles import (
    GPU_ANNOTATION,
    DeviceKey,
    Role,
    device_of_kind,
    device_of_process,
    mark_name,
    naming_of,
    role_of,
    step_of_kind,
)
from counterpoint.timeline.chrome.tracks import (
    DURATION,
    KIND,
    NO_RUN,
    RUN,
    START,
    EventKind,
    Rows,
    ThreadKey,
    Tracks,
    integer,
)
from counterpoint.timeline.megascale import (
    NUMBERS,
    TRANSFER_EVENTS,
    TransferCollector,
    message_action,
)
from counterpoint.timeline.megascale import PLANE as MEGASCALE
from counterpoint.timeline.model import Device, Lane, Schema
from counterpoint.timeline.recording import (
    EXECUTE,
    EXECUTIONS,
    HOST_EVENTS,
    LAUNCHES,
    MARKERS,
    OPS,
    SPANS,
    TIMELINE_COLUMNS,
)

_MOST: Final = 1 << 16  # devices and lines are numbered by UInt16

_HLO_NAME: Final = re.compile(r"%?([\w.\-]+) = ")
_LANES: Final = frozenset(Lane)
_MODULE: Final = re.compile(r"(.+)\((\d+)\)$", re.DOTALL)


class TooMany(ValueError):
    """Raised for more devices or lines than any profiler writes."""


class Columns:
    """Collects rows; the properties return the tables of a Recording."""

    def __init__(self, kinds: Sequence[EventKind], *, ours: bool = False) -> None:
        self._kinds = kinds
        self._ours = ours  # the trace was written from a Timeline
        self._devices: dict[DeviceKey, int] = {}
        self._lines: list[str] = []
        self._host_names: dict[str, int] = {}
        self._ops: dict[tuple[object, ...], int] = {}
        self._copied: dict[int, tuple[int, int]] = {}  # by op: bytes of its copies, their number
        self._spans: list[Rows] = []
        self._host_events: list[Rows] = []
        self._executions: list[tuple[object, ...]] = []
        self._launches: list[tuple[int, str, int, int]] = []
        self._markers: list[tuple[object, ...]] = []
        self._device_marks: dict[tuple[int, int | None, str], tuple[int, int]] = {}
        self._transfers = TransferCollector()

    def device(self, key: DeviceKey) -> int:
        """Return the index of a device, adding it if it is new."""
        if len(self._devices) == _MOST:
            raise TooMany(f"it names more than {_MOST:,} devices")
        return self._devices.setdefault(key, len(self._devices))

    def line(self, name: str) -> int:
        """Add a line and return its index."""
        if len(self._lines) == _MOST:
            raise TooMany(f"it has more than {_MOST:,} threads")
        self._lines.append(name)
        return len(self._lines) - 1

    def add_spans(self, device: int, line: int, rows: Rows, is_async: bool) -> None:
        """Add work on a device."""
        ops = self._ops
        op = self._map(rows, lambda kind: ops.setdefault(self._op_row(kind, is_async), len(ops)))
        self._add_copied(op, rows)
        parts = (np.full(len(rows), device), np.full(len(rows), line), op, *rows.T[RUN:])
        self._spans.append(np.column_stack(parts))

    def _add_copied(self, op: Rows, rows: Rows) -> None:
        """Note the bytes of copies; copies of one op may differ in them."""
        kinds, first, counts = np.unique(rows[:, KIND], return_index=True, return_counts=True)
        of_kind = np.column_stack((kinds, op[first], counts))
        for kind, number, times in cast("list[list[int]]", of_kind.tolist()):
            if (copied := integer(self._kinds[kind].copied)) is not None:
                total, count = self._copied.get(number, (0, 0))
                self._copied[number] = (total + copied * times, count + times)

    def add_host_events(self, line: int, rows: Rows) -> None:
        """Add events of a host thread."""
        names = self._host_names
        name = self._map(rows, lambda kind: names.setdefault(host_event_name(kind), len(names)))
        parts = (np.full(len(rows), line), name, *rows.T[START:])
        self._host_events.append(np.column_stack(parts))
        self._add_launches(rows[rows[:, RUN] != NO_RUN])

    def _add_launches(self, rows: Rows) -> None:
        """Add the calls among these events that launched runs."""
        for kind, run, start, duration in cast("list[list[int]]", rows.tolist()):
            if match := EXECUTE.match(self._kinds[kind].name):
                self._launches.append((run, match[1], start, duration))

    def add_executions(self, device: int, rows: Rows) -> None:
        """Add executions of modules, named `module(program id)`."""
        for kind, run, start, duration in cast("list[list[int]]", rows.tolist()):
            name = self._kinds[kind].name
            match = _MODULE.match(name)
            module, program = (match[1], match[2]) if match else (name, None)
            key = None if run == NO_RUN else run
            self._executions.append((device, module, program, key, start, duration))

    def add_steps(self, device: int, rows: Rows) -> None:
        """Add steps that a device marks; the event's name is the step number."""
        for row, (kind, _, start, duration) in enumerate(cast("list[list[int]]", rows.tolist())):
            name = self._kinds[kind].name
            step = integer(name)
            self._markers.append((device, row if step is None else step, name, start, duration))

    def add_marks(self, rows: Rows) -> None:
        """Add steps that the user marked on a host thread."""
        for kind, _, start, duration in cast("list[list[int]]", rows.tolist()):
            mark = self._kinds[kind]
            self._markers.append((None, step_of_kind(mark), mark_name(mark), start, duration))

    def add_device_marks(self, device: int, rows: Rows) -> None:
        """Add marks of the user's steps on one of a device's streams; all of a step are one."""
        for kind, _, start, duration in cast("list[list[int]]", rows.tolist()):
            mark = self._kinds[kind]
            key = (device, step_of_kind(mark), mark_name(mark))
            first, last = self._device_marks.get(key, (start, start + duration))
            self._device_marks[key] = (min(first, start), max(last, start + duration))

    def add_actions(self, line: int, rows: Rows) -> None:
        """Add actions recorded by Megascale."""
        self._transfers.add_actions(self._told(line, rows))

    def add_messages(self, line: int, rows: Rows) -> None:
        """Add events of a host thread that describe transfers."""
        events = self._told(line, rows)
        actions = {name: message_action(name) for name in events["event"].unique().to_list()}
        transfers = {name: action for name, action in actions.items() if action is not None}
        self._transfers.add_messages(events.filter(pl.col("event").is_in([*transfers])), transfers)

    @property
    def transfers(self) -> tuple[pl.DataFrame, tuple[str, ...]]:
        """The table TRANSFERS, and notes."""
        return self._transfers.finish(self.devices)

    @property
    def devices(self) -> tuple[Device, ...]:
        """Devices, at their index."""
        return tuple(Device(kind=kind, ordinal=ordinal) for _, kind, ordinal in self._devices)

    @property
    def lines(self) -> tuple[str, ...]:
        """Names of lines, at their index."""
        return tuple(self._lines)

    @property
    def host_names(self) -> tuple[str, ...]:
        """Names of host events, at their index."""
        return tuple(self._host_names)

    @property
    def ops(self) -> pl.DataFrame:
        """The table OPS."""
        told = any(len(row) > len(OPS) for row in self._ops)
        ops = [self._with_bytes(number, row) for number, row in enumerate(self._ops)]
        schema = {**OPS, **TIMELINE_COLUMNS} if told else OPS
        if told:
            padding = (None,) * len(TIMELINE_COLUMNS)
            ops = [(*row, *padding)[: len(schema)] for row in ops]
        return pl.DataFrame(ops, schema=schema, orient="row")

    def _with_bytes(self, number: int, row: tuple[object, ...]) -> tuple[object, ...]:
        """Return an op with the mean bytes of its executions, where Kineto tells those of each."""
        copied = self._copied.get(number)
        if self._ours or not copied:
            return row
        at, (total, count) = list(OPS).index("bytes"), copied
        return (*row[:at], total / count, *row[at + 1 :])

    @property
    def spans(self) -> pl.DataFrame:
        """The table SPANS."""
        run = pl.when(pl.col("run_key") != NO_RUN).then(pl.col("run_key"))
        return _frame(self._spans, SPANS).with_columns(run_key=run)

    @property
    def host_events(self) -> pl.DataFrame:
        """The table HOST_EVENTS."""
        return _frame(self._host_events, HOST_EVENTS)

    @property
    def executions(self) -> pl.DataFrame:
        """The table EXECUTIONS."""
        return pl.DataFrame(self._executions, schema=EXECUTIONS, orient="row")

    @property
    def launches(self) -> pl.DataFrame:
        """The table LAUNCHES."""
        return pl.DataFrame(self._launches, schema=LAUNCHES, orient="row")

    @property
    def markers(self) -> pl.DataFrame:
        """The table MARKERS."""
        on_devices = [
            (*key, first, last - first) for key, (first, last) in self._device_marks.items()
        ]
        return pl.DataFrame([*self._markers, *on_devices], schema=MARKERS, orient="row")

    def _told(self, line: int, rows: Rows) -> pl.DataFrame:
        events = [
            {
                "event": self._kinds[kind].name,
                "line": line,
                "start_ps": start,
                "dur_ps": duration,
                **_args(self._kinds[kind]),
            }
            for kind, _, start, duration in cast("list[list[int]]", rows.tolist())
        ]
        return pl.DataFrame(events, schema=TRANSFER_EVENTS)

    def _op_row(self, kind: EventKind, is_async: bool) -> tuple[object, ...]:
        row = _op_row(kind, is_async)
        if self._ours:
            return (*row, *_said(kind))
        sent = sent_data(kind)
        if sent is None:
            return row
        said = (sent.kind, sent.bytes, sent.group_size, sent.bus_factor)
        return (sent.named(kind.name), *row[1:], None, None, None, None, *said)

    def _map(self, rows: Rows, number: Callable[[EventKind], int]) -> Rows:
        """Return `number` of the kind of each row."""
        kinds, code = np.unique(rows[:, KIND], return_inverse=True)
        numbers = [number(self._kinds[kind]) for kind in cast("list[int]", kinds.tolist())]
        return np.array(numbers, np.int64)[code]


def _op_row(kind: EventKind, is_async: bool) -> tuple[object, ...]:
    """Return a row of OPS."""
    text = _text(kind.long_name)
    own = _HLO_NAME.match(text) if text else None
    return (
        kind.name,
        _text(kind.hlo_op) or (own[1] if own else None),
        _text(kind.hlo_module),
        _text(kind.program_id),
        is_async,
        _text(kind.hlo_category) or _text(kind.cat),
        # On GPU streams `tf_op` is only the word XlaModule, and the path is in the arg `name`.
        _text(kind.tf_op if own else kind.scope),
        _text(kind.source),
        _number(kind.flops) or _number(kind.model_flops),
        _number(kind.bytes_accessed),
        text if own else None,
    )


def _args(kind: EventKind) -> dict[str, object]:
    """Return the args of an event that describe a transfer."""
    args = cast("tuple[tuple[str, str], ...]", kind.carries or ())
    return {name: integer(text) if name in NUMBERS else text for name, text in args}


def _said(kind: EventKind) -> tuple[object, ...]:
    """Return a row of TIMELINE_COLUMNS."""
    return (
        _text(kind.said_category),
        kind.cat if kind.cat in _LANES else None,
        _text(kind.said_phase),
        _text(kind.said_scope),
        _text(kind.said_collective),
        integer(kind.said_bytes),
        _count(kind.said_group_size),
        _number(kind.said_bus_factor),
    )


def _count(value: object) -> int | None:
    number = integer(value)
    return number if number is not None and 0 <= number < 1 << 32 else None


def _text(value: object) -> str | None:
    return None if value is None or value == "" else str(value)


def _number(value: object) -> float | None:
    """Return a count, or None; XLA writes 0 for an unknown count."""
    try:
        number = float(value) if isinstance(value, str | int | Decimal) else 0.0
    except (ValueError, OverflowError):
        return None
    return number if 0 < number < float("inf") else None


def _frame(parts: list[Rows], schema: Schema) -> pl.DataFrame:
    if not parts:
        return pl.DataFrame(schema=schema)
    rows = np.concatenate(parts)
    return pl.DataFrame(
        {name: pl.Series(rows[:, at]).cast(kind) for at, (name, kind) in enumerate(schema.items())}
    )


# XLA writes a zero duration as one picosecond, so that viewers draw it.
_NO_LENGTH_PS: Final = 1


def sort_tracks(tracks: Tracks, *, ours: bool = False) -> tuple[Columns, tuple[str, ...]]:
    """Return the columns, and the names of the threads and processes that are left out."""
    kinds = [_sane(kind) for kind in tracks.all_kinds()]
    columns, left_out = Columns(kinds, ours=ours), set[str]()
    threads: dict[int | str, set[str]] = defaultdict(set)
    for track in tracks.rows:
        threads[track[0]].add(tracks.thread(track))
    naming = {process: naming_of(names) for process, names in threads.items()}
    events: Mapping[ThreadKey, Rows] = {
        track: np.frombuffer(rows, np.int64).reshape(-1, 4) for track, rows in tracks.rows.items()
    }
    events = until_their_ends(tracks, kinds, events)
    for track in sorted(tracks.rows, key=lambda track: _order(tracks, track)):
        process, thread = _sane_text(tracks.process(track)), _sane_text(tracks.thread(track))
        rows = events[track]
        role = role_of(process, thread, naming[track[0]])
        device = device_of_process(process)
        if process == MEGASCALE:
            columns.add_actions(columns.line(f"{process}/{thread}"), rows)
        elif role is Role.LEFT_OUT:
            # Newer derived lines are one per stream: `XLA Ops - from #16`.
            left_out.add(process if device is None else thread.partition(" - from ")[0])
        elif device is None:
            _add_host(columns, kinds, f"{process}/{thread}", rows)
        else:
            _add_device(columns, columns.device(device), role, f"{process}/{thread}", rows)
    return columns, tuple(sorted(left_out))


def _order(tracks: Tracks, track: ThreadKey) -> tuple[bool, DeviceKey, str, str]:
    """Sort devices first, in order, then by name, so that order in the file does not matter."""
    device = device_of_process(tracks.process(track))
    return device is None, device or ("", "", 0), tracks.process(track), str(track[1])


def _add_device(columns: Columns, device: int, role: Role, name: str, rows: Rows) -> None:
    if role is Role.MODULES:
        columns.add_executions(device, rows)
    elif role is Role.STEPS:
        columns.add_steps(device, rows)
    else:
        columns.add_spans(device, columns.line(name), rows, role is Role.ASYNC_OPS)


def _add_host(columns: Columns, kinds: list[EventKind], name: str, rows: Rows) -> None:
    """Add the events of a host thread: ops of virtual devices, step markers, and host events."""
    of_group = _split(kinds, rows)
    marks = of_group.pop(Role.STEPS, rows[:0])
    columns.add_marks(marks)
    of_group.pop(Role.LEFT_OUT, None)
    device_marks = of_group.pop(Role.DEVICE_STEPS, rows[:0])
    events = np.concatenate((of_group.pop(Role.HOST, rows[:0]), marks))
    events = events[events[:, DURATION] > _NO_LENGTH_PS]
    transfer_rows = rows[_tells(kinds, rows)]
    if not of_group and not len(events) and not len(transfer_rows):
        return
    line = columns.line(name)
    for group, group_rows in of_group.items():
        if not isinstance(group, Role):
            columns.add_spans(columns.device(group), line, group_rows, False)
            columns.add_device_marks(columns.device(group), device_marks)
    if len(events):
        columns.add_host_events(line, events)
    if len(transfer_rows):
        columns.add_messages(line, transfer_rows)


def _tells(kinds: list[EventKind], rows: Rows) -> NDArray[np.bool_]:
    """Return a mask of the events that describe transfers."""
    is_transfer = np.array([kind.carries is not None for kind in kinds], bool)
    return is_transfer[rows[:, KIND]]


def _split(kinds: list[EventKind], rows: Rows) -> dict[Role | DeviceKey, Rows]:
    """Return the rows of each group, in order."""
    numbers: dict[Role | DeviceKey, int] = {}
    distinct, code = np.unique(rows[:, KIND], return_inverse=True)
    groups = [_group(kinds[kind]) for kind in cast("list[int]", distinct.tolist())]
    of_kind = np.array([numbers.setdefault(group, len(numbers)) for group in groups], np.int64)
    of_row = of_kind[code]
    by_group = rows[np.argsort(of_row, kind="stable")]
    bounds = np.cumsum(np.bincount(of_row, minlength=len(numbers)))[:-1]
    return dict(zip(numbers, np.split(by_group, bounds), strict=True))


def _group(kind: EventKind) -> Role | DeviceKey:
    device = device_of_kind(kind)
    if device is not None:
        return device
    is_step = step_of_kind(kind) is not None
    if kind.cat == GPU_ANNOTATION:
        return Role.DEVICE_STEPS if is_step else Role.LEFT_OUT
    return Role.STEPS if is_step else Role.HOST


def _sane(kind: EventKind) -> EventKind:
    """Return the kind with a name and with texts that can be encoded as UTF-8."""
    parts = (_sane_text(part) if isinstance(part, str) else part for part in kind)
    clean = EventKind._make(parts)
    return clean if isinstance(cast(object, clean.name), str) else clean._replace(name="")


def _sane_text(text: str) -> str:
    """Replace unpaired surrogates, which JSON can escape but UTF-8 cannot encode."""
    return text.encode("utf-8", "replace").decode("utf-8")
