"""A picture of one Timeline: its lanes at all levels, divided into tiles that a browser fetches.

`describe` is what a page must know at once; `block` has the segments of a tile.
docs/formats/levels.md describes both.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property
from itertools import chain, pairwise, repeat
from operator import itemgetter
from typing import Any, Final, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counterpoint.core.columns import Intervals, union
from counterpoint.core.frozen import frozen
from counterpoint.timeline import Timeline
from counterpoint.view.blocks import encode
from counterpoint.view.lanes import (
    CLASSES,
    COMPUTE,
    EXPOSED,
    HIDDEN,
    SUMMARY,
    PictureLane,
    device_lanes,
    host_lanes,
    origin,
    transfer_lanes,
)
from counterpoint.view.segments import BASE, Longs, Segments, levels

Columns: TypeAlias = dict[str, NDArray[Any]]

_REACHING: Final = 256
"""Spans before a step that are looked through for some that reach into it."""
_WORKERS: Final = 8
"""Threads that draw devices: numpy works beside them."""

_TILE: Final = 2048
"""Segments of a tile: what a browser fetches and decodes at once."""


@frozen(eq=False, kw_only=True, slots=False)
class LevelColumns:
    """One level of a lane: the columns of its segments in all rows, sorted by start.

    `exposed` are the moments at which exposed time begins and ends, in turns: where spans of
    collectives are cut. A tile has those that it needs, so a browser needs no other tile for it.
    """

    width: int
    columns: Columns
    exposed: Longs | None = None
    borders: tuple[int, ...] = ()
    """Rows at which a tile ends, so that one step can be had alone."""

    def __len__(self) -> int:
        return len(self.columns["start"])

    @cached_property
    def tiles(self) -> list[slice]:
        return [
            slice(at, min(at + _TILE, last))
            for first, last in pairwise((0, *self.borders, len(self)))
            for at in range(first, last, _TILE)
        ]

    @cached_property
    def extents(self) -> list[tuple[int, int]]:
        """Start and latest end of each tile."""
        start, end = self.columns["start"], self.columns["start"] + self.columns["dur"]
        return [(int(start[tile][0]), int(end[tile].max())) for tile in self.tiles]

    def block(self, tile: int) -> bytes:
        rows = self.tiles[tile]
        columns = {name: column[rows] for name, column in self.columns.items()}
        if self.exposed is not None:
            columns["cuts"] = _cuts(self.exposed, columns)
        return encode(columns)


def _cuts(exposed: Longs, columns: Columns) -> Longs:
    """Return the exposed intervals in which spans lie that are exposed in part, as moments."""
    partly = (columns["exposed"] > 0) & (columns["exposed"] < columns["dur"])
    start = columns["start"][partly]
    begins, ends = exposed[::2], exposed[1::2]
    first = np.searchsorted(ends, start, side="right")
    last = np.searchsorted(begins, start + columns["dur"][partly], side="left")
    change = np.bincount(first, minlength=len(begins) + 1)
    change -= np.bincount(last, minlength=len(begins) + 1)
    return exposed.reshape(-1, 2)[np.cumsum(change)[:-1] > 0].reshape(-1)


@frozen(eq=False, kw_only=True)
class PictureTrack:
    """A lane with its levels, the finest first."""

    device: int | None
    line: int | None
    title: str
    kind: str
    rows: int
    classes: tuple[int, ...]
    levels: tuple[LevelColumns, ...]
    transfers: tuple[int, str] | None = None

    def describe(self, has: Mapping[tuple[int, int], bool] | None = None) -> dict[str, Any]:
        """Return the track as a page knows it; `has` names tiles (level, number) in a file."""
        return {
            "device": self.device,
            "title": self.title,
            "kind": self.kind,
            "rows": self.rows,
            "classes": [CLASSES[each] for each in self.classes],
            "levels": [
                {
                    "width": level.width,
                    "start": [start for start, _ in level.extents],
                    "end": [end for _, end in level.extents],
                    "count": [tile.stop - tile.start for tile in level.tiles],
                    "has": [
                        has is None or has.get((number, tile), False)
                        for tile in range(len(level.tiles))
                    ],
                }
                for number, level in enumerate(self.levels)
            ],
        }


@frozen(eq=False, kw_only=True)
class Picture:
    """The tracks of a Timeline; times count from `since`, the Timeline's first moment.

    `complete` is false while tracks are still to come, behind those that are there.
    """

    timeline: Timeline
    since: int
    end: int
    tracks: tuple[PictureTrack, ...]
    complete: bool = True


def extent(timeline: Timeline) -> tuple[int, int]:
    """Return the first and the last moment of a Timeline."""
    ends = [
        table.select((pl.col("start_ps") + pl.col("dur_ps")).max()).item()
        for table in (timeline.spans, timeline.host_events)
        if len(table)
    ]
    ends += [table["end_ps"].max() for table in (timeline.steps, timeline.runs) if len(table)]
    since = origin(timeline)
    return since, max((int(end) for end in ends if end is not None), default=since)


def draw(timeline: Timeline, step: tuple[int, int] = (0, 0)) -> Picture:
    """Compute the tracks of a Timeline: devices, transfers, threads of the hosts, then a fold.

    The spans between the two moments of `step` get tiles of their own.
    """
    *_, picture = drawing(timeline, step)
    return picture


def drawing(timeline: Timeline, step: tuple[int, int] = (0, 0)) -> Iterator[Picture]:
    """Yield the Picture of a Timeline as it grows, device by device; the last one is complete."""
    since, end = extent(timeline)
    device = timeline.spans["device"].to_numpy()
    count = len(timeline.devices)
    # Needles of the same type: else numpy converts the whole column.
    first_rows = np.searchsorted(device, np.arange(count, dtype=device.dtype))
    borders = [*first_rows.tolist(), len(device)]

    def of_device(number: int) -> tuple[Segments, list[PictureTrack]]:
        rows = slice(borders[number], borders[number + 1])
        lanes = device_lanes(timeline, number, rows, since)
        return lanes[0].rows[0], [_track(lane, step) for lane in lanes]

    drawn = Picture(timeline=timeline, since=since, end=end - since, tracks=(), complete=False)
    summaries: list[Segments] = []
    with ThreadPoolExecutor(min(os.cpu_count() or 1, _WORKERS)) as pool:
        for summary, tracks in pool.map(of_device, range(count)):
            summaries.append(summary)
            drawn = replace(drawn, tracks=(*drawn.tracks, *tracks))
            yield drawn
        lanes = chain(transfer_lanes(timeline, since, end), host_lanes(timeline, since))
        hosts = list(pool.map(_track, lanes, repeat(step)))
    fold = [_fold(summaries, end - since)] if len(summaries) > 1 else []
    yield replace(drawn, tracks=(*drawn.tracks, *hosts, *fold), complete=True)


def _track(lane: PictureLane, step: tuple[int, int]) -> PictureTrack:
    return PictureTrack(
        device=lane.device,
        line=lane.line,
        title=lane.title,
        kind=lane.kind,
        rows=len(lane.rows),
        classes=lane.classes,
        levels=tuple(_levels(lane, step)),
        transfers=lane.transfers,
    )


def _levels(lane: PictureLane, step: tuple[int, int]) -> Iterator[LevelColumns]:
    """Yield the finest level, then each width that any row has, for all rows.

    A row without that width shows its next finer segments: it has few.
    """
    rows = [[(0, row), *levels(row)] for row in lane.rows]
    columns_of = _timed if lane.kind == "summary" else _spans
    finest = [columns_of(lane, row) for row in lane.rows]
    columns = _merged(finest)
    yield LevelColumns(
        width=0, columns=columns, exposed=lane.exposed, borders=_borders(columns, step)
    )
    for width in sorted({width for found in rows for width, _ in found if width}):
        chosen = [
            max((each for each in found if each[0] <= width), key=itemgetter(0)) for found in rows
        ]
        yield LevelColumns(
            width=width, columns=_merged([_timed(lane, segments) for _, segments in chosen])
        )


def _borders(columns: Columns, step: tuple[int, int]) -> tuple[int, ...]:
    """Return the rows between which the spans of a step lie.

    A few rows that began before it may belong to it, but not all that precede a single long one.
    """
    ends = np.maximum.accumulate(columns["start"] + columns["dur"])
    first, last = np.searchsorted(columns["start"], step).tolist()
    reaching = int(np.searchsorted(ends, step[0], side="right"))
    return tuple(sorted({max(reaching, first - _REACHING), last})) if last else ()


def _timed(lane: PictureLane, segments: Segments) -> Columns:
    """Return the columns of segments with several classes."""
    return {
        "start": segments.start,
        "dur": segments.end - segments.start,
        **{CLASSES[each]: segments.times[at] for at, each in enumerate(lane.classes)},
        "count": segments.count.astype(np.uint32),
        "op": segments.op,
    }


def _spans(lane: PictureLane, pieces: Segments) -> Columns:
    """Return the columns of whole spans; collectives were cut where they become exposed."""
    first = np.flatnonzero(pieces.count)
    last = np.append(first[1:], len(pieces)) - 1
    columns = {
        "start": pieces.start[first],
        "dur": pieces.end[last] - pieces.start[first],
        "op": pieces.op[first],
    }
    if pieces.span is not None:
        columns["span"] = pieces.span[first]
    if EXPOSED in lane.classes:
        exposed = pieces.times[lane.classes.index(EXPOSED)]
        columns["exposed"] = np.add.reduceat(exposed, first) if len(first) else exposed
    return columns


def _merged(rows: Sequence[Columns]) -> Columns:
    """Put the rows of a lane into one table, sorted by start."""
    if not rows:
        return {"start": np.empty(0, np.int64), "dur": np.empty(0, np.int64)}
    columns = {name: np.concatenate([row[name] for row in rows]) for name in rows[0]}
    lengths = [len(row["start"]) for row in rows]
    columns["row"] = np.repeat(np.arange(len(rows), dtype=np.uint32), lengths)
    if len(rows) == 1:
        return columns
    order = np.argsort(columns["start"], kind="stable")
    return {name: column[order] for name, column in columns.items()}


def _fold(summaries: Sequence[Segments], end: int) -> PictureTrack:
    return PictureTrack(
        device=None,
        line=None,
        title=f"{len(summaries)} devices",
        kind="fold",
        rows=1,
        classes=SUMMARY,
        levels=tuple(folded(summaries, end)),
    )


_FEWEST_BUCKETS: Final = 8192
_MOST_BUCKETS: Final = 131072
_CELLS: Final = 1 << 23
"""Buckets times devices of the finest level, at most, except of very many devices."""
_FEWEST: Final = 128
_NARROWEST: Final = 1000


def folded(summaries: Sequence[Segments], end: int) -> list[LevelColumns]:
    """Return the levels of a fold, the finest first: buckets in which any device does something.

    Each has the time of each class, summed over the devices, and the least, the median and the most
    time that single devices compute.
    """
    most = min(max(_CELLS // len(summaries), _FEWEST_BUCKETS), _MOST_BUCKETS)
    busy = union(
        np.concatenate([each.start for each in summaries]),
        np.concatenate([each.end for each in summaries]),
    )
    width = _NARROWEST
    while _touched(busy, width) > most:
        width *= BASE
    start = _buckets(busy, width)
    borders = np.stack([start, start + width])
    times = np.stack([np.diff(_until(each, borders), axis=1)[:, 0] for each in summaries])
    found = [_level(times, start, width)]
    while width < end and len(start) > _FEWEST:
        width *= BASE
        first = np.flatnonzero(np.diff(start // width, prepend=-1))
        start, times = start[first] // width * width, np.add.reduceat(times, first, axis=2)
        found.append(_level(times, start, width))
    return found


def _touched(busy: Intervals, width: int) -> int:
    """Return the number of buckets that intervals touch; neighbors may share one."""
    first, last = busy.start // width, (busy.end - 1) // width
    return int((last - first + 1).sum() - (first[1:] == last[:-1]).sum())


def _buckets(busy: Intervals, width: int) -> Longs:
    """Return the starts of the buckets that intervals touch."""
    first, last = busy.start // width, (busy.end - 1) // width
    count = last - first + 1
    before = np.repeat(np.cumsum(count) - count, count)
    return np.unique(np.repeat(first, count) + np.arange(int(count.sum())) - before) * width


def _level(times: Longs, start: Longs, width: int) -> LevelColumns:
    """Return a level from the time of each class (second) by device (first) and bucket (third)."""
    busy = times[:, COMPUTE] + times[:, HIDDEN]
    columns = {
        "start": start,
        "dur": np.full(len(start), width),
        "row": np.zeros(len(start), np.int64),
        **{CLASSES[each]: times[:, at].sum(axis=0) for at, each in enumerate(SUMMARY)},
        "busy_min": busy.min(axis=0),
        "busy_median": np.median(busy, axis=0).astype(np.int64),
        "busy_max": busy.max(axis=0),
    }
    return LevelColumns(width=width, columns=columns)


def _until(summary: Segments, at: Longs) -> Longs:
    """Return the time of each class before each moment."""
    if not len(summary):
        return np.zeros((len(SUMMARY), *at.shape), np.int64)
    before = np.concatenate(
        [np.zeros((len(SUMMARY), 1), np.int64), np.cumsum(summary.times, axis=1)], axis=1
    )
    last = np.searchsorted(summary.start, at, side="right") - 1
    known = np.maximum(last, 0)
    inside = np.clip(at - summary.start[known], 0, summary.end[known] - summary.start[known])
    partial = np.where(summary.times[:, known] > 0, inside, 0)
    return np.where(last < 0, 0, before[:, known] + partial)
