"""Lanes of a Timeline for a picture: what each device does, its streams, and threads of the host.

Each lane has rows of Segments: spans that overlap lie in different rows. A summary lane holds the
attribution of a device's time (docs/guide/explain.md), and each collective is cut where compute
begins or ends to hide it, so hidden and exposed time add up at every level.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counterpoint.core.columns import order_by, union
from counterpoint.timeline.model import Lane, Timeline
from counterpoint.view.segments import NO_OP, Kinds, Longs, Numbers, Segments, pieces

CLASSES: Final = ("compute", "hidden", "exposed", "copy", "control", "host")
COMPUTE, HIDDEN, EXPOSED, COPY, CONTROL, HOST = range(len(CLASSES))
SUMMARY: Final = (COMPUTE, HIDDEN, EXPOSED, COPY)
_CLASS_OF: Final = {
    Lane.COMPUTE: COMPUTE,
    Lane.COLLECTIVE: EXPOSED,
    Lane.COPY: COPY,
    Lane.CONTROL: CONTROL,
}
_KIND_OF: Final = {COMPUTE: "compute", EXPOSED: "collective", COPY: "copy", CONTROL: "control"}
_STREAM: Final = re.compile(r"(?i)stream #?(\d{1,9})")
_BEGIN_END: Final = np.array([[1, -1], [2, -2], [4, -4]], np.int8)
"""What changes where a kernel, a collective or a copy begins and ends."""
_STATES: Final = np.array([-1, COMPUTE, EXPOSED, HIDDEN, COPY, COMPUTE, EXPOSED, HIDDEN], np.int8)
"""The class of each sum of them."""
_OWNER: Final = re.compile(r"^/?[^/]+/(?=.)")


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class PictureLane:
    """One lane: its rows of finest segments, and which classes of time are in them.

    `classes` are indices into CLASSES, one for each row of `Segments.times`. `exposed` has the
    moments at which the device's exposed time begins and ends, in turns, if collectives are here.
    """

    device: int | None
    line: int | None
    title: str
    kind: str
    classes: tuple[int, ...]
    rows: tuple[Segments, ...]
    exposed: Longs | None = None
    transfers: tuple[int, str] | None = None
    """Host and action, if the lane has transfers of that kind."""


@dataclass(frozen=True, eq=False, kw_only=True)
class _Spans:
    """Spans of one device or host, from time 0 on, with the row of each in its table."""

    line: Numbers
    op: Numbers
    start: Longs
    end: Longs
    row: Numbers

    @cached_property
    def of_lines(self) -> list[tuple[int, _Spans]]:
        """The spans of each line."""
        return [(int(self.line[rows[0]]), self.at(rows)) for rows in _groups(self.line)]

    def at(self, rows: Longs) -> _Spans:
        return _Spans(
            line=self.line[rows],
            op=self.op[rows],
            start=self.start[rows],
            end=self.end[rows],
            row=self.row[rows],
        )


def time_zero(timeline: Timeline) -> int:
    """Return the earliest time of a Timeline, from which a picture counts."""
    starts = [
        table["start_ps"].min()
        for table in (timeline.spans, timeline.steps, timeline.runs, timeline.host_events)
        if len(table)
    ]
    return min((int(start) for start in starts if isinstance(start, int)), default=0)


def device_lanes(timeline: Timeline, device: int, rows: slice, since: int) -> list[PictureLane]:
    """Return the summary of a device and its streams; `rows` are those of its spans."""
    spans = _spans(timeline.spans[rows], since, rows.start)
    class_of = np.array([_CLASS_OF[Lane(lane)] for lane in timeline.ops["lane"]], np.int8)
    kind = class_of[spans.op] if len(spans.op) else np.empty(0, np.int8)
    summary = attributed(spans.start, spans.end, kind)
    lanes = [
        PictureLane(
            device=device,
            line=None,
            title="step time",
            kind="summary",
            classes=SUMMARY,
            rows=(summary,),
        )
    ]
    exposed = _exposed(summary)
    lines = sorted(spans.of_lines, key=lambda line: _stream(_title(timeline, line[0])))
    for line, own in lines:
        kinds = class_of[own.op]
        classes = _present(kinds)
        lanes.append(
            PictureLane(
                device=device,
                line=line,
                title=_title(timeline, line),
                kind=_KIND_OF[_most(kinds, own)],
                classes=classes,
                rows=tuple(_cut(row, class_of[row.op], exposed, classes) for row in _rows(own)),
                exposed=exposed if EXPOSED in classes else None,
            )
        )
    return lanes


def host_lanes(timeline: Timeline, since: int) -> Iterator[PictureLane]:
    """Yield a lane for each thread of each host; its ops follow those of the devices."""
    events = timeline.host_events.rename({"name": "op"})
    several = len(timeline.hosts) > 1
    for host, name in enumerate(timeline.hosts):
        table = events.with_row_index("at").filter(pl.col("host") == host).sort("start_ps")
        spans = replace(
            _spans(table, since, 0),
            op=table["op"].to_numpy() + np.uint32(len(timeline.ops)),
        )
        owner = f"{name.name} " if several else ""
        for line, own in spans.of_lines:
            yield PictureLane(
                device=None,
                line=line,
                title=owner + _title(timeline, line),
                kind="host",
                classes=(HOST,),
                rows=tuple(map(_of_host, _rows(own))),
            )


def transfer_lanes(timeline: Timeline, since: int, end: int) -> Iterator[PictureLane]:
    """Yield a lane for each kind of transfer between slices; its ops follow those of the host."""
    table = shown_transfers(timeline, since, end).sort("host", "start_ps")
    first = len(timeline.ops) + len(timeline.host_names)
    number = {name: first + at for at, name in enumerate(transfer_names(timeline))}
    table = table.with_columns(op=pl.col("name").replace_strict(number, return_dtype=pl.UInt32))
    several = len(timeline.hosts) > 1
    for (host, action), own in table.group_by("host", "action", maintain_order=True):
        rows = _rows(_spans(own, since, 0))
        name = timeline.hosts[int(str(host))].name
        yield PictureLane(
            device=None,
            line=None,
            title=f"{name} {action}" if several else str(action),
            kind="transfer",
            classes=(HOST,),
            rows=tuple(map(_of_host, rows)),
            transfers=(int(str(host)), str(action)),
        )


def shown_transfers(timeline: Timeline, since: int, end: int) -> pl.DataFrame:
    """Return the transfers with their `row`, between the first and the last moment of the rest.

    Some begin, by the clock of another host, long before.
    """
    start = pl.col("start_ps")
    return (
        timeline.transfers.with_row_index("row")
        .filter((start < end) & (start + pl.col("dur_ps") > since))
        .with_columns(
            name=pl.coalesce("name", "action"),
            start_ps=start.clip(lower_bound=since),
            dur_ps=(start + pl.col("dur_ps")).clip(upper_bound=end) - start.clip(lower_bound=since),
        )
    )


def transfer_names(timeline: Timeline) -> list[str]:
    """Return all names of transfers between slices."""
    names = timeline.transfers.select(pl.coalesce("name", "action")).to_series()
    return names.unique().sort().to_list()


def _of_host(spans: _Spans) -> Segments:
    return pieces(spans.start, spans.end, np.zeros(len(spans.op), np.int8), spans.op, 1)


def _stream(title: str) -> int:
    """Return the number of a CUDA or ROCm stream: profilers list them in any order."""
    match = _STREAM.match(title)
    return int(match[1]) if match else 0


def _title(timeline: Timeline, line: int) -> str:
    """Return the name of a line without the device or host, which precedes it."""
    return _OWNER.sub("", timeline.lines[line])


def _spans(table: pl.DataFrame, since: int, first: int) -> _Spans:
    start = table["start_ps"].to_numpy() - since
    return _Spans(
        line=table["line"].to_numpy(),
        op=table["op"].to_numpy(),
        start=start,
        end=start + table["dur_ps"].to_numpy(),
        row=np.arange(first, first + len(table), dtype=np.uint32),
    )


def attributed(start: Longs, end: Longs, kind: Kinds) -> Segments:
    """Return the intervals in which a device computes, communicates or copies.

    The order of precedence is that of `diagnose.step.attribute`, with which a test compares this.
    """
    sets = [union(start[kind == each], end[kind == each]) for each in (COMPUTE, EXPOSED, COPY)]
    # Sorted runs: a stable sort merges them in linear time.
    times = np.concatenate([np.stack([each.start, each.end], axis=1).reshape(-1) for each in sets])
    change = np.repeat(_BEGIN_END, [len(each) for each in sets], axis=0).reshape(-1)
    order = np.argsort(times, kind="stable")
    times, states = times[order], _STATES[np.cumsum(change[order], dtype=np.int8)]
    # Of what changes at one time the last counts, and of equal states in a row the first.
    last = np.flatnonzero(np.diff(times, append=-1))
    kept = last[np.flatnonzero(np.diff(states[last], prepend=np.int8(-2)))]
    times, states = times[kept], states[kept]
    busy = np.flatnonzero(states >= 0)
    return pieces(
        times[busy],
        times[busy + 1],
        states[busy],
        np.full(len(busy), NO_OP, np.uint32),
        len(SUMMARY),
    )


def _exposed(summary: Segments) -> Longs:
    """Return where exposed time begins and ends, in turns."""
    rows = np.flatnonzero(summary.times[EXPOSED] > 0)
    return np.stack([summary.start[rows], summary.end[rows]], axis=1).reshape(-1)


def _cut(spans: _Spans, kind: Kinds, exposed: Longs, classes: tuple[int, ...]) -> Segments:
    """Return the spans of a row as segments, with collectives cut where they become exposed."""
    places = np.zeros(len(CLASSES), np.int8)
    places[list(classes)] = np.arange(len(classes))
    collective = np.flatnonzero(kind == EXPOSED)
    before = np.searchsorted(exposed, spans.start[collective], side="right")
    within = np.searchsorted(exposed, spans.end[collective], side="left") - before
    # Borders take turns: after an even number of them, nothing is exposed.
    if not (within > 0).any():
        kinds = kind.copy()
        kinds[collective[before % 2 == 0]] = HIDDEN
        whole = pieces(spans.start, spans.end, places[kinds], spans.op, len(classes))
        return replace(whole, span=spans.row)
    first, cuts = np.zeros((2, len(kind)), np.int64)
    first[collective], cuts[collective] = before, np.maximum(within, 0)
    row = np.repeat(np.arange(len(kind)), cuts + 1)
    at = np.arange(len(row)) - np.repeat(np.cumsum(cuts + 1) - cuts - 1, cuts + 1)
    border = np.append(exposed, 0)
    start = np.where(
        at == 0, spans.start[row], border[np.minimum(first[row] + at, len(border)) - 1]
    )
    end = np.append(start[1:], 0)
    is_last = at == cuts[row]
    end[is_last] = spans.end[row[is_last]]
    kinds = kind[row]
    pieces_of = np.flatnonzero(kinds == EXPOSED)
    hidden = pieces_of[(first[row] + at)[pieces_of] % 2 == 0]
    kinds[hidden] = HIDDEN
    segments = pieces(start, end, places[kinds], spans.op[row], len(classes))
    return replace(segments, count=(at == 0).astype(np.int64), span=spans.row[row])


def _present(kinds: Kinds) -> tuple[int, ...]:
    """Return the classes of a line; a collective may be hidden and exposed."""
    classes = set(np.flatnonzero(np.bincount(kinds)).tolist())
    return tuple(sorted(classes | {HIDDEN} if EXPOSED in classes else classes))


def _most(kinds: Kinds, spans: _Spans) -> int:
    """Return the class with the most time on a line; loops count only where nothing else is."""
    length = np.maximum(spans.end - spans.start, 1).astype(np.float64)
    times = np.bincount(kinds, length, minlength=CONTROL + 1)
    times[CONTROL] = min(times[CONTROL], 0.5)
    return int(np.argmax(times))


def _rows(spans: _Spans) -> list[_Spans]:
    """Divide spans into rows without overlap, outer spans above inner ones."""
    if (spans.start[1:] <= spans.start[:-1]).any():
        spans = spans.at(order_by(spans.start, -spans.end))
    if not (spans.start[1:] < np.maximum.accumulate(spans.end)[:-1]).any():
        return [spans]
    ends = np.sort(spans.end)
    depth = np.arange(len(ends)) - np.searchsorted(ends, spans.start, side="right")
    rows = [spans.at(rows) for rows in _groups(np.maximum(depth, 0))]
    if any((row.start[1:] < row.end[:-1]).any() for row in rows):
        rows = [spans.at(rows) for rows in _groups(_first_free(spans))]
    return rows


def _groups(keys: NDArray[np.integer[Any]]) -> list[Longs]:
    """Return the rows of each key, in the order of the keys."""
    if not len(keys):
        return []
    # Of so narrow numbers numpy sorts the digits, in linear time.
    narrow = keys.astype(np.uint16) if keys.max() <= np.iinfo(np.uint16).max else keys
    order = np.argsort(narrow, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(keys[order])) + 1)


def _first_free(spans: _Spans) -> Longs:
    """Return the first row that is free at each span's start; the number of rows is limited."""
    free: list[int] = []
    busy: list[tuple[int, int]] = []
    rows = np.zeros(len(spans.start), np.int64)
    used = 0
    for at, (start, end) in enumerate(zip(spans.start.tolist(), spans.end.tolist(), strict=True)):
        while busy and busy[0][0] <= start:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if free:
            row = heapq.heappop(free)
        else:
            row, used = used, used + 1
        rows[at] = row
        heapq.heappush(busy, (end, row))
    return rows
