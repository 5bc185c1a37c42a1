"""Sorts the tracks of a trace into the columns of a Recording by what they hold."""

from __future__ import annotations

from collections import defaultdict
from typing import Final, cast

import numpy as np
from numpy.typing import NDArray

from counterpoint.timeline.chrome.columns import DURATION, KIND, Columns, Rows
from counterpoint.timeline.chrome.roles import (
    DeviceKey,
    Role,
    device_of_kind,
    device_of_process,
    naming_of,
    role_of,
    step_of_kind,
)
from counterpoint.timeline.chrome.tracks import Kind, Track, Tracks
from counterpoint.timeline.megascale.told import PLANE as MEGASCALE

# XLA writes a length of zero as one picosecond, so that viewers draw it.
_NO_LENGTH_PS: Final = 1


def sort_tracks(tracks: Tracks, *, ours: bool = False) -> tuple[Columns, tuple[str, ...]]:
    """The columns, and the names of the threads and processes that are not in them."""
    kinds = [_sane(kind) for kind in tracks.all_kinds()]
    columns, left_out = Columns(kinds, ours=ours), set[str]()
    threads: dict[int | str, set[str]] = defaultdict(set)
    for track in tracks.rows:
        threads[track[0]].add(tracks.thread(track))
    naming = {process: naming_of(names) for process, names in threads.items()}
    for track in sorted(tracks.rows, key=lambda track: _order(tracks, track)):
        process, thread = _sane_text(tracks.process(track)), _sane_text(tracks.thread(track))
        rows: Rows = np.frombuffer(tracks.rows[track], np.int64).reshape(-1, 4)
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


def _order(tracks: Tracks, track: Track) -> tuple[bool, DeviceKey, str, str]:
    """Devices first, in their order; then by names, so that it never depends on the file's."""
    device = device_of_process(tracks.process(track))
    return device is None, device or ("", "", 0), tracks.process(track), str(track[1])


def _add_device(columns: Columns, device: int, role: Role, name: str, rows: Rows) -> None:
    if role is Role.MODULES:
        columns.add_executions(device, rows)
    elif role is Role.STEPS:
        columns.add_steps(device, rows)
    else:
        columns.add_spans(device, columns.line(name), rows, role is Role.ASYNC_OPS)


def _add_host(columns: Columns, kinds: list[Kind], name: str, rows: Rows) -> None:
    """Events of a host thread: the ops of virtual devices, step marks, and what the host did."""
    of_group = _split(kinds, rows)
    marks = of_group.pop(Role.STEPS, rows[:0])
    columns.add_marks(marks)
    events = np.concatenate((of_group.pop(Role.HOST, rows[:0]), marks))
    events = events[events[:, DURATION] > _NO_LENGTH_PS]
    telling = rows[_tells(kinds, rows)]
    if not of_group and not len(events) and not len(telling):
        return
    line = columns.line(name)
    for group, mine in of_group.items():
        if not isinstance(group, Role):
            columns.add_spans(columns.device(group), line, mine, False)
    if len(events):
        columns.add_host_events(line, events)
    if len(telling):
        columns.add_messages(line, telling)


def _tells(kinds: list[Kind], rows: Rows) -> NDArray[np.bool_]:
    """Which events tell of transfers."""
    telling = np.array([kind.carries is not None for kind in kinds], bool)
    return telling[rows[:, KIND]]


def _split(kinds: list[Kind], rows: Rows) -> dict[Role | DeviceKey, Rows]:
    """The rows of each group, in their order."""
    numbers: dict[Role | DeviceKey, int] = {}
    found, code = np.unique(rows[:, KIND], return_inverse=True)
    groups = [_group(kinds[kind]) for kind in cast("list[int]", found.tolist())]
    of_kind = np.array([numbers.setdefault(group, len(numbers)) for group in groups], np.int64)
    of_row = of_kind[code]
    by_group = rows[np.argsort(of_row, kind="stable")]
    bounds = np.cumsum(np.bincount(of_row, minlength=len(numbers)))[:-1]
    return dict(zip(numbers, np.split(by_group, bounds), strict=True))


def _group(kind: Kind) -> Role | DeviceKey:
    device = device_of_kind(kind)
    if device is not None:
        return device
    return Role.HOST if step_of_kind(kind) is None else Role.STEPS


def _sane(kind: Kind) -> Kind:
    """The same, with a name, and with texts that can be written as UTF-8."""
    parts = (_sane_text(part) if isinstance(part, str) else part for part in kind)
    clean = Kind._make(parts)
    return clean if isinstance(cast(object, clean.name), str) else clean._replace(name="")


def _sane_text(text: str) -> str:
    """JSON can escape half of a surrogate pair, which no encoding takes."""
    return text.encode("utf-8", "replace").decode("utf-8")
