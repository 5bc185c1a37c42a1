"""Lets ops of CPU devices last until their ends are marked.

An XPlane tells which mark ends which op; a trace.json has only the op's name. So a mark ends an op
if that is the only one of its name that goes on at that time: with several devices, ops of which
more than one runs at once keep the times of their events.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import polars as pl

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
)
from counterpoint.timeline.late_ends import NONE, WAIT, over_at, paired_at_once

_NEVER: Final = int(np.iinfo(np.int64).max)


def until_their_ends(
    tracks: Tracks, kinds: Sequence[EventKind], rows_of: Mapping[ThreadKey, Rows]
) -> Mapping[ThreadKey, Rows]:
    """Return the rows of threads, with longer durations where a mark tells of a later end."""
    if not tracks.ends:
        return rows_of
    names = [tracks.ended.get(kind.name, NONE) for kind in kinds]
    op_of_kind = np.array(
        [NONE if kind.hlo_op is None else name for kind, name in zip(kinds, names, strict=True)]
    )
    threads = [
        track for track in rows_of if track in tracks.ends or _works(op_of_kind, rows_of[track])
    ]
    parts = [
        _of_thread(number, tracks, rows_of[track], track, op_of_kind)
        for number, track in enumerate(threads)
    ]
    ended = _ended(pl.concat(parts)) if parts else None
    if ended is None or not len(ended):
        return rows_of
    longer = {**rows_of}
    over = _over(kinds, rows_of)
    for (thread,), own in ended.group_by("thread"):
        track = threads[int(str(thread))]
        rows = rows_of[track].copy()
        at = own["row"].to_numpy()
        end = np.minimum(
            own["end_ps"].to_numpy(), [over.get(run, _NEVER) for run in rows[at, RUN].tolist()]
        )
        rows[at, DURATION] = np.maximum(rows[at, DURATION], end - rows[at, START])
        longer[track] = rows
    return longer


def _works(op_of_kind: Rows, rows: Rows) -> bool:
    return bool((op_of_kind[rows[:, KIND]] != NONE).any())


def _of_thread(
    thread: int, tracks: Tracks, rows: Rows, track: ThreadKey, op_of_kind: Rows
) -> pl.DataFrame:
    """Return the ops of a thread that go on after their events, and the marks of other ops."""
    marks = np.frombuffer(tracks.ends.get(track, b""), np.int64).reshape(-1, 2)
    start = np.concatenate((rows[:, START], marks[:, 1]))
    duration = np.concatenate((rows[:, DURATION], np.zeros(len(marks), np.int64)))
    op = np.concatenate((op_of_kind[rows[:, KIND]], np.full(len(marks), NONE)))
    ended = np.concatenate((np.full(len(rows), NONE), marks[:, 0]))
    order = np.lexsort((-duration, start))
    start, duration, op, ended = start[order], duration[order], op[order], ended[order]
    work, marked = np.flatnonzero(op != NONE), np.flatnonzero(ended != NONE)
    at_once, before = paired_at_once(start, duration, op, ended, work, marked)
    of_mark = np.flatnonzero(at_once)
    _, first = np.unique(before[of_mark], return_index=True)
    paired = of_mark[first]
    goes_on, late = np.delete(work, before[paired]), np.delete(marked, paired)
    over = over_at(start, duration, ended, late)
    return pl.DataFrame(
        {
            "name": np.concatenate((op[goes_on], ended[late])),
            "at_ps": np.concatenate((start[goes_on], start[late])),
            "begins": np.repeat([True, False], [len(goes_on), len(late)]),
            "end_ps": np.concatenate((start[goes_on], over)),
            "row": np.concatenate((order[goes_on], np.full(len(late), NONE))),
            "thread": np.full(len(goes_on) + len(late), thread),
        }
    )


def _ended(marks: pl.DataFrame) -> pl.DataFrame:
    """Return the ops that a mark ends for certain: nothing else of their name goes on then."""
    change = pl.when("begins").then(1).otherwise(-1)
    alone = pl.col("open") == 1
    return (
        marks.sort("name", "at_ps", "begins", descending=[False, False, True])
        .with_columns(open=change.cum_sum().over("name"))
        .with_columns(
            ends=pl.col("begins").not_().shift(-1).over("name"),
            end_ps=pl.col("end_ps").shift(-1).over("name"),
        )
        .filter(pl.col("begins") & alone & pl.col("ends"))
        .select("thread", "row", "end_ps")
    )


def _over(kinds: Sequence[EventKind], rows_of: Mapping[ThreadKey, Rows]) -> dict[int, int]:
    """Return when all ops of each run had ended."""
    waits = [number for number, kind in enumerate(kinds) if kind.name == WAIT]
    over: dict[int, int] = {}
    for rows in rows_of.values() if waits else ():
        own = rows[np.isin(rows[:, KIND], waits) & (rows[:, RUN] != NO_RUN)]
        for run, end in zip(
            own[:, RUN].tolist(), (own[:, START] + own[:, DURATION]).tolist(), strict=True
        ):
            over[run] = max(over.get(run, 0), end)
    return over
