"""Chrome traces made by hand: the events that a test needs, in the form that XLA writes."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence

import polars as pl

from counterpoint.timeline.recording import Recording

Event = dict[str, object]


def process(pid: int | str, name: str) -> Event:
    return {"ph": "M", "pid": pid, "name": "process_name", "args": {"name": name}}


def thread(pid: int | str, tid: int | str, name: str) -> Event:
    return {"ph": "M", "pid": pid, "tid": tid, "name": "thread_name", "args": {"name": name}}


def span(track: tuple[int, int], at: float, length: float, name: str, /, **args: object) -> Event:
    pid, tid = track
    event: Event = {"ph": "X", "pid": pid, "tid": tid, "ts": at, "dur": length, "name": name}
    return {**event, "args": args} if args else event


def text_of(events: Sequence[Event]) -> bytes:
    head = {"displayTimeUnit": "ns", "metadata": {"highres-ticks": True}}
    # XLA ends its list with an empty event.
    return json.dumps({**head, "traceEvents": [*events, {}]}, separators=(",", ":")).encode()


def packed(events: Sequence[Event]) -> bytes:
    return gzip.compress(text_of(events), mtime=0)


def spans_of(recording: Recording) -> list[tuple[object, ...]]:
    """Each span as device, line, name, start and length."""
    ops = recording.ops["name"].to_list()
    devices = [f"{device.kind}{device.ordinal}" for device in recording.devices]
    columns = recording.spans.select("device", "line", "op", "start_ps", "dur_ps")
    return [
        (devices[device], recording.lines[line], ops[op], start, length)
        for device, line, op, start, length in columns.rows()
    ]


def wide(recording: Recording) -> pl.DataFrame:
    """Spans with all that is known about them, in an order that no reader decides."""
    ops = recording.ops.with_row_index("row")
    devices = [f"{device.kind}{device.ordinal}" for device in recording.devices]
    return (
        recording.spans.rename({"op": "row"})
        .join(ops, on="row")
        .with_columns(
            device=pl.Series(devices)[recording.spans["device"]],
            line=pl.Series(recording.lines)[recording.spans["line"]],
        )
        .drop("row")
        .sort("device", "line", "start_ps", "dur_ps", "name")
    )
