"""Tables of a Recording from columns of Nsight Systems: clock, spans, ops, events and markers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import polars as pl

from counterpoint.timeline.model import Schema
from counterpoint.timeline.recording import EXECUTIONS, HOST_EVENTS, MARKERS, OPS, SPANS

_LONGEST_NS: Final = (1 << 63) // 1000 - 1
_FURTHEST_NS: Final = 1 << 62
_LAYERS: Final = 16
_MOST_LINES: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class ReportClock:
    """The file's time that becomes time zero of a Recording."""

    zero_ns: int

    def sane(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return the rows with possible times: not before time 0, no negative durations."""
        start, end = pl.col("start"), pl.col("end")
        latest = self.zero_ns + _LONGEST_NS
        return frame.filter((start >= self.zero_ns) & (end >= start) & (end <= latest))

    def picoseconds(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Convert `start` and `end` to start_ps and dur_ps."""
        return frame.with_columns(
            start_ps=(pl.col("start") - self.zero_ns) * 1000,
            dur_ps=(pl.col("end") - pl.col("start")) * 1000,
        )


def find_clock(*frames: pl.DataFrame) -> ReportClock:
    """Return the file's own time 0 if its times fit, since other hosts of the run may share it.

    Nanoseconds of a clock that started when the machine booted don't fit in 64 bits as picoseconds
    after 106 days; then the earliest time in the file becomes time zero.
    """
    # Within half of the 64-bit range, so that differences fit too, even in a damaged file.
    possible = [
        frame.filter(pl.col("start").abs() < _FURTHEST_NS).select(
            first=pl.col("start").min(), last=pl.max_horizontal("start", "end").max()
        )
        for frame in frames
    ]
    bounds = pl.concat(possible).select(pl.col("first").min(), pl.col("last").max())
    first, last = bounds["first"].item(), bounds["last"].item()
    if first is None or (first >= 0 and last <= _LONGEST_NS):
        return ReportClock(0)
    return ReportClock(first)


def number_lines(
    frame: pl.DataFrame, keys: Sequence[str], most: int = _MOST_LINES
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the distinct keys, sorted, and the frame with `line`, its row among them.

    A Recording numbers its lines with 16 bits: rows on lines beyond `most` are left out.
    """
    distinct = frame.select(keys).unique().sort(keys, nulls_last=True).head(max(most, 0))
    distinct = distinct.with_row_index("line")
    return distinct, frame.join(
        distinct, on=keys, how="inner", maintain_order="left", nulls_equal=True
    )


def add_layers(frame: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """Add `layer`: 0, or more for spans that overlap an earlier one with the same keys.

    Nodes of a CUDA graph run concurrently although they carry the stream they were launched on, and
    spans on one line of a Recording must not cross.
    """
    rows = frame.select(*keys, "start", "end").with_row_index("row").sort(*keys, "start", "end")
    layers = pl.repeat(0, len(frame), dtype=pl.UInt32, eager=True)
    for layer in range(1, _LAYERS):
        before = pl.col("end").cum_max().shift(1).over(keys)
        rows = rows.filter((pl.col("start") < before).fill_null(value=False))
        if not len(rows):
            break
        layers = layers.scatter(rows["row"], layer)
    return frame.with_columns(layer=layers)


def build_spans(spans: pl.DataFrame, keys: Sequence[str], names: pl.DataFrame) -> pl.DataFrame:
    """Return SPANS, with `op` the row of `names` that has the span's keys."""
    numbered = names.select(keys).with_row_index("op")
    return (
        spans.drop("op", strict=False)
        .join(numbered, on=keys, how="left", maintain_order="left", nulls_equal=True)
        .select(*SPANS)
        .cast({**SPANS})
    )


def complete(frame: pl.DataFrame, schema: Schema) -> pl.DataFrame:
    """Return the frame with exactly the schema's columns; missing ones are null."""
    absent = [pl.lit(None).alias(name) for name in schema if name not in frame.columns]
    return frame.with_columns(absent).select(*schema).cast({**schema})


def build_ops(names: pl.DataFrame) -> pl.DataFrame:
    """Return OPS; Nsight Systems has no async windows, since its NVTX ranges hold launched work."""
    return complete(names.with_columns(async_window=pl.lit(value=False)), OPS)


def build_executions(frame: pl.DataFrame, clock: ReportClock) -> pl.DataFrame:
    """Return EXECUTIONS, sorted by device and time."""
    return complete(clock.picoseconds(frame), EXECUTIONS).sort("device", "start_ps")


def place_events(
    happened: pl.DataFrame, clock: ReportClock, first_line: int
) -> tuple[list[int], pl.DataFrame]:
    """Return threads, and HOST_EVENTS from columns thread, name (row of the names), start and end.

    The threads' lines follow those of the devices.
    """
    sane = clock.sane(happened.filter(pl.col("end").is_not_null()))
    threads, events = number_lines(sane, ["thread"], _MOST_LINES - first_line)
    placed = clock.picoseconds(events.with_columns(pl.col("line") + first_line))
    return threads["thread"].to_list(), complete(placed, HOST_EVENTS)


def build_markers(frame: pl.DataFrame, clock: ReportClock) -> pl.DataFrame:
    """Return MARKERS on host threads, from columns step, name, start and end."""
    return complete(clock.picoseconds(clock.sane(frame)), MARKERS).sort("start_ps")
