"""The Chrome trace format: a list of complete events, times in microseconds.

Times are written to the nanosecond, rounded down. Perfetto rounds start and length of an event to
nanoseconds each by itself; with picoseconds, neighbours would then overlap, and it drops those.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import numpy as np

from counterpoint.timeline.perfetto.layout import NO_STEP, Label, Process, Track
from counterpoint.timeline.perfetto.nesting import Longs

_PS_PER_NS: Final = 1_000
_NS_PER_US: Final = 1_000
_AT_A_TIME: Final = 1 << 15


def json_blocks(
    processes: Iterable[Process],
    tracks: Iterable[Track],
    origin_ps: int,
    about: Mapping[str, object],
) -> Iterator[bytes]:
    """The text of the trace, piece by piece."""
    head = {"displayTimeUnit": "ns", "otherData": about}
    yield (_compact(head)[:-1] + ',"traceEvents":[').encode()
    separator = ""
    for process in processes:
        yield (separator + _describe(process)).encode()
        separator = ",\n"
    for track in tracks:
        yield (separator + _describe(track)).encode()
        for events in _slices(track, origin_ps):
            yield (separator + separator.join(events)).encode()
    yield b"]}\n"


def _describe(what: Process | Track) -> str:
    """The name and the place of a process or a thread."""
    kind, where = "process", {"pid": what.pid}
    if isinstance(what, Track):
        kind, where = "thread", {**where, "tid": what.tid}
    event = {"ph": "M", **where}
    order = where.get("tid", what.pid)
    named = {**event, "name": f"{kind}_name", "args": {"name": what.name}}
    placed = {**event, "name": f"{kind}_sort_index", "args": {"sort_index": order}}
    return f"{_compact(named)},\n{_compact(placed)}"


def _slices(track: Track, origin_ps: int) -> Iterator[list[str]]:
    texts = [_open(label) for label in track.labels]
    head = f'{{"ph":"X","pid":{track.pid},"tid":{track.tid},"ts":'
    for first in range(0, len(track.start_ps), _AT_A_TIME):
        piece = slice(first, first + _AT_A_TIME)
        start = (track.start_ps[piece] - origin_ps) // _PS_PER_NS
        length = (track.end_ps[piece] - origin_ps) // _PS_PER_NS - start
        labels: list[int] = track.label[piece].tolist()
        steps: list[int] = [NO_STEP] * len(labels)
        if track.step is not None:
            steps = track.step[piece].tolist()
        times = zip(_microseconds(start), _microseconds(length), strict=True)
        yield [
            f'{head}{at},"dur":{long},{texts[label]}{_close(texts[label], step)}'
            for (at, long), label, step in zip(times, labels, steps, strict=True)
        ]


def _microseconds(time_ns: Longs) -> list[str]:
    whole, rest = np.divmod(time_ns, _NS_PER_US)
    return [f"{us}.{ns:03d}" for us, ns in zip(whole.tolist(), rest.tolist(), strict=True)]


def _open(label: Label) -> str:
    """Everything of an event but its times, its step and the two closing braces."""
    said = {"name": label.name, "cat": label.category, "args": dict(label.arguments)}
    return _compact(said)[1:-2]


def _close(text: str, step: int) -> str:
    if step == NO_STEP:
        return "}}"
    return f'"step":{step}}}}}' if text.endswith("{") else f',"step":{step}}}}}'


def _compact(value: Mapping[str, object]) -> str:
    return json.dumps(value, separators=(",", ":"))
