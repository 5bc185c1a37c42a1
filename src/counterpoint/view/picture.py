"""A picture of one Timeline: its lanes at all levels, divided into tiles that a browser fetches.

`describe` is what a page must know at once; `block` has the segments of a tile.
docs/formats/levels.md describes both.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import chain, repeat
from operator import itemgetter
from typing import Any, Final

import numpy as np
import polars as pl

from counterpoint.timeline.model import Timeline
from counterpoint.view.fold import folded
from counterpoint.view.lanes import (
    CLASSES,
    EXPOSED,
    SUMMARY,
    PictureLane,
    device_lanes,
    host_lanes,
    time_zero,
    transfer_lanes,
)
from counterpoint.view.levels import Columns, LevelColumns
from counterpoint.view.segments import Segments, levels

_REACHING: Final = 256
"""Spans before a step that are looked through for some that reach into it."""
_WORKERS: Final = 8
"""Threads that draw devices: numpy works beside them."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
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


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
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
    since = time_zero(timeline)
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
    levels_of_rows = [[(0, row), *levels(row)] for row in lane.rows]
    columns_of = _timed if lane.kind == "summary" else _spans
    finest = [columns_of(lane, row) for row in lane.rows]
    columns = _merged(finest)
    yield LevelColumns(
        width=0, columns=columns, exposed=lane.exposed, borders=_borders(columns, step)
    )
    for width in sorted({width for of_row in levels_of_rows for width, _ in of_row if width}):
        chosen = [
            max((each for each in of_row if each[0] <= width), key=itemgetter(0))
            for of_row in levels_of_rows
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
