"""Host activity while devices are idle, in the typical steps.

A device's idle time is split three times. Between kernels of one run it is the device's own, unless
the run's kernels were still being launched. Between runs it is the device's own if the next run had
been launched, or if the gap is no longer than a launch takes, and nobody's if the profile does not
tell when it was. The rest is the host's, and belongs to what the launching thread does at that
moment, or, if that thread waits, to what the other threads do. Every moment of idle time has one
cause, so the causes add up to it.

From the moment at which the host waits for a result, a gap is *held*: the host could have called
the next run instead, and what it does in the rest of the gap would have been hidden.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counterpoint.core.columns import EMPTY, Intervals, union
from counterpoint.core.threads import on_threads
from counterpoint.diagnose.finding import Evidence, Gap
from counterpoint.diagnose.host.causes import IdleCause
from counterpoint.diagnose.host.eager import LittlePrograms, little_programs
from counterpoint.diagnose.host.hosts import HostActivity, IdleEvent, host_activities
from counterpoint.diagnose.host.launches import (
    NEVER,
    CallReturns,
    InTurn,
    Launched,
    calling_names,
    functions_of,
    launched,
    taking_turns,
    while_launching,
)
from counterpoint.diagnose.selection import device_slices
from counterpoint.diagnose.step_data import StepData
from counterpoint.timeline.model import Lane

_READ: Final = re.compile(r"(?i)d2h|dtoh|device ?to ?host")


def compute_longer(data: StepData) -> pl.DataFrame:
    """Return `longer` by device and step: excess compute of the slowest other host, in picoseconds.

    Based on lengths, which need no common clock. A host counts by its device with the least
    compute: a device waits for all others in a step, and the minimum is the work common to all of
    them.

    A device that has finished its step and waits for a slower host or slice is idle, but not
    because of a late launch.
    """
    work = data.timeline.ops["lane"].is_in([Lane.COMPUTE, Lane.COPY]).to_numpy()
    spans = data.spans.filter(pl.Series(work[data.spans["op"].to_numpy()]) & (pl.col("step") >= 0))
    host = dict(enumerate(device.host for device in data.timeline.devices))
    per_device = spans.group_by("device", "step").agg(ps=pl.col("dur_ps").sum())
    per_device = per_device.with_columns(
        host=pl.col("device").replace_strict(host, return_dtype=pl.UInt16, default=None)
    )
    hosts = per_device.group_by("host", "step").agg(least=pl.col("ps").min())
    slowest = hosts.group_by("step").agg(slowest=pl.col("least").max())
    return per_device.join(slowest, on="step").select(
        "device", "step", longer=(pl.col("slowest") - pl.col("ps")).clip(0)
    )


def waits_for_hosts(data: StepData, longer: pl.DataFrame) -> dict[int, Intervals]:
    """Return by device the time after each of its runs in which another host still computes."""
    waits = (
        data.timeline.runs.filter(pl.col("step").is_not_null())
        .group_by("device", "step")
        .agg(pl.col("end_ps").max())
        .join(longer, on=["device", "step"])
        .sort("device", "end_ps")
    )
    end = waits["end_ps"].to_numpy()
    until = end + waits["longer"].to_numpy()
    return {device: union(end[rows], until[rows]) for device, rows in device_slices(waits).items()}


def reads(data: StepData) -> NDArray[np.int64]:
    """Return the rows of ops that copy to the host and are no op of a program."""
    names = data.timeline.ops.with_row_index("row").filter(pl.col("op").is_null())
    rows = names.select("row", "name").iter_rows()
    return np.array([row for row, name in rows if _READ.search(name)], np.int64)


def after_reads(reading: NDArray[np.int64], gaps: Intervals, spans: pl.DataFrame) -> Intervals:
    """Return the gaps that begin where one of these ops ends.

    Reading a program's results (`float(loss)`) leaves a copy to the host behind the last kernel.
    Where nothing runs after it, the host had waited for it. This works without a profile of the
    host.
    """
    if not len(reading):
        return EMPTY
    own = np.flatnonzero(np.isin(spans["op"].to_numpy(), reading))
    ends = spans["start_ps"].to_numpy()[own] + spans["dur_ps"].to_numpy()[own]
    follows = np.isin(gaps.start, ends)
    return union(gaps.start[follows], gaps.end[follows])


Longs = NDArray[np.int64]


def by_device(data: StepData) -> Iterator[tuple[int, tuple[Longs, Longs], pl.DataFrame]]:
    """Yield each device with starts and ends of its windows and its spans around them."""
    spans = device_slices(data.spans)
    for device, rows in device_slices(data.selection.windows).items():
        own = data.selection.windows[rows]
        windows = own["start_ps"].to_numpy(), own["end_ps"].to_numpy()
        yield device, windows, data.spans[spans.get(device, slice(0, 0))]


def busy(data: StepData, spans: pl.DataFrame) -> Intervals:
    """Return when any of these spans works; loops and calls only contain spans that do."""
    contains = (data.timeline.ops["lane"] == Lane.CONTROL).to_numpy()
    start = spans["start_ps"].to_numpy()
    end = start + spans["dur_ps"].to_numpy()
    works = ~contains[spans["op"].to_numpy()]
    return union(start[works], end[works])


def busy_anywhere(of_devices: Iterable[Intervals]) -> Intervals:
    """Return when any device works, by their common clock, from when each works."""
    busy_times = (EMPTY, *of_devices)
    return union(
        np.concatenate([times.start for times in busy_times]),
        np.concatenate([times.end for times in busy_times]),
    )


PARTS: Final = {"device": pl.UInt16, "cause": pl.String, "held": pl.Boolean, "ms": pl.Float64}
TOPS: Final = {"cause": pl.String, "held": pl.Boolean, "what": pl.String, "ms": pl.Float64}

WORTH: Final = 0.01
"""Share of a step below which idle time is not reported."""

HIDEABLE: Final = (IdleCause.BLOCKED, IdleCause.RUNTIME, IdleCause.DISPATCH)
"""Idle time that only ends because the host waits for results: it belongs to that wait.

Python, copies and waits for other threads cost the host as much without it. They could overlap the
step, too, but it is they that should be shorter.
"""

_ROWS: Final = 5

_BEHIND: Final = 0.1
"""A host that is too slow leaves gaps everywhere. If less than this share of the time in which it
launches a run is idle, it was ahead and waited for room in the queue.
"""

_LAUNCH_PS: Final = 20_000_000
"""Shorter gaps between runs occur even with launches in time: a kernel's launch takes some 5 us,
and the notice of its end as long.
"""


_LITTLE_PS: Final = 1_000_000_000
"""Gaps before a little program up to which all of it is the price of its launch.

A call that is not jitted takes 5 to 50 us, with the Python tracer several times that.
"""

_VIRTUAL: Final = "cpu"
"""Kind of devices that are threads of the host."""

_HANDOVER_PS: Final = 100_000_000
"""Longest gap on a virtual CPU device in which one thread hands over to the next."""

_NEAR: Final = 20
"""A copy ends with a gap if no more than this part of the gap lies between their ends."""


@dataclass(frozen=True, eq=False)
class IdleTime:
    """Idle time in milliseconds of a median step, mean over devices.

    `parts` has one row per device, cause and whether the gap was held, `tops` the host events by
    cause. `seen`: the launching thread is known on every host. `blocked_ms`: how long that thread
    waits for results, whether devices are busy or not; if no thread is known, the length of gaps
    that follow a read. `worst` are the gaps in which most time has a cause, with that time.
    `awaited` is what other threads did while the launching thread waited for them, as cause, event
    and milliseconds. `in_turn`: the host waits for one device before it calls the next.
    """

    parts: pl.DataFrame
    tops: pl.DataFrame
    seen: bool
    blocked_ms: float
    worst: Sequence[tuple[IdleCause, bool, Gap, int]]
    awaited: Sequence[tuple[IdleCause, str, float]] = ()
    in_turn: bool = False

    def others_did(self, *causes: IdleCause, count: int = 2) -> list[tuple[str, float]]:
        """Return what other threads did while the host waited for them, longest first."""
        rows = [(what, ms) for cause, what, ms in self.awaited if cause in causes]
        return sorted(rows, key=lambda row: -row[1])[:count]

    def ms(self, *causes: IdleCause, held: bool | None = None) -> float:
        """Return the time of these causes, in total, or in held or in other gaps only."""
        kinds = (True, False) if held is None else (held,)
        return sum(self._sums.get((cause, kind), 0.0) for cause in causes for kind in kinds)

    @cached_property
    def _sums(self) -> dict[tuple[str, bool], float]:
        summed = self.parts.group_by("cause", "held").agg(pl.col("ms").sum())
        return {(cause, held): ms for cause, held, ms in summed.rows()}

    @property
    def hidden_by_not_waiting_ms(self) -> float:
        """The most a step could gain if the host did not wait for results.

        The host could be ahead by as long as it waited, no longer.
        """
        return min(self.ms(*self.hideable, held=True), self.blocked_ms)

    @property
    def hideable(self) -> tuple[IdleCause, ...]:
        """Causes that not waiting would hide: where no host is seen, also what it does then."""
        return HIDEABLE if self.seen else (*HIDEABLE, IdleCause.UNKNOWN)

    def host_ms(self, cause: IdleCause) -> float:
        """Return the time of this cause that would remain if the host did not wait for results."""
        left = self._left if cause in self.hideable else 1.0
        return self.ms(cause, held=False) + left * self.ms(cause, held=True)

    @property
    def _left(self) -> float:
        """The share of held gaps that would remain if the host did not wait for results."""
        held = self.ms(*self.hideable, held=True)
        return 1 - self.hidden_by_not_waiting_ms / held if held else 1.0

    @property
    def total_ms(self) -> float:
        """Total idle time."""
        return float(self.parts["ms"].sum())

    def top(self, *causes: IdleCause, count: int = 5) -> list[tuple[str, float]]:
        """Return events behind these causes with their milliseconds, longest first.

        As in `host_ms`, without what would be hidden if the host did not wait; waits themselves in
        full.
        """
        counted = pl.col("held") & pl.col("cause").is_in(self.hideable)
        counted &= pl.col("cause") != IdleCause.BLOCKED
        rows = (
            self.tops.filter(pl.col("cause").is_in(causes))
            .with_columns(ms=pl.col("ms") * pl.when(counted).then(self._left).otherwise(1.0))
            .group_by("what")
            .agg(pl.col("ms").sum())
            .filter(pl.col("ms") > 0)
            .sort("ms", "what", descending=[True, False])
        )
        return [(what, ms) for what, ms in rows.head(count).rows()]

    def gaps(self, *causes: IdleCause, held: bool | None = None) -> tuple[Gap, ...]:
        """Return the worst gaps of these causes; each is whole, whatever else happens in it."""
        summed: dict[Gap, int] = {}
        for cause, is_held, gap, ps in self.worst:
            if cause in causes and held in (None, is_held):
                summed[gap] = summed.get(gap, 0) + ps
        return tuple(sorted(summed, key=lambda gap: -summed[gap])[:_ROWS])

    def evidence(self, cause: IdleCause) -> tuple[Evidence, ...]:
        """Return the gaps in which the host is late for this cause, and what it does in them."""
        ms, own_gaps = self.host_ms(cause), self.gaps(cause)
        gaps = Evidence(what="gaps before the next step", ms=ms, gaps=own_gaps)
        return (gaps, *(Evidence(what=what, ms=ms) for what, ms in self.top(cause)))


def idle_of(data: StepData) -> IdleTime:
    """Attribute the idle time of the typical steps."""
    scale = data.selection.scale
    sides = data.cached(host_activities)
    per_device = [*by_device(data)]
    rows = len(data.spans)
    busy_times = on_threads(lambda of: busy(data, of[2]), per_device, rows=rows)
    calls_of = calling_names(data.timeline)
    runs = data.timeline.runs.sort("device", "start_ps")
    own_runs = device_slices(runs)
    returns = {host: CallReturns(side.calls, calls_of) for host, side in sides.items()}
    given = _Given(
        data=data,
        anywhere=busy_anywhere(busy_times),
        for_hosts=waits_for_hosts(data, compute_longer(data)) if len(sides) > 1 else {},
        reading=reads(data),
        returns=returns,
        turns=taking_turns(data.timeline, returns),
        little=data.cached(little_programs),
    )

    def split(of: tuple[tuple[int, tuple[Longs, Longs], pl.DataFrame], Intervals]) -> _Split:
        (device, windows, spans), busy_time = of
        own = runs[own_runs.get(device, slice(0, 0))]
        host = data.timeline.devices[device].host
        return given.split(device, host, sides[host], own, windows, spans, busy_time)

    splits = on_threads(split, zip(per_device, busy_times, strict=True), rows=rows)
    tops: dict[tuple[IdleEvent, bool], int] = {}
    for one in splits:
        for behind, ps in one.tops.items():
            tops[behind] = tops.get(behind, 0) + ps
    names = data.timeline.host_names
    parts = [(*key, ps * scale) for one in splits for key, ps in one.parts]
    named = [
        (event.cause, is_held, event.text(names), ps * scale)
        for (event, is_held), ps in tops.items()
    ]
    return IdleTime(
        parts=pl.DataFrame(parts, schema=PARTS, orient="row").filter(pl.col("ms") > 0),
        tops=pl.DataFrame(named, schema=TOPS, orient="row"),
        seen=all(side.known for side in sides.values()),
        blocked_ms=sum(one.blocked for one in splits) * scale,
        worst=[row for one in splits for row in one.worst],
        awaited=[
            (cause, what, ps * scale) for one in splits for (cause, what), ps in one.awaited.items()
        ],
        in_turn=any(one.in_turn for one in splits),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Split:
    """The idle time of one device, in picoseconds."""

    parts: list[tuple[tuple[int, IdleCause, bool], int]]
    tops: dict[tuple[IdleEvent, bool], int]
    worst: list[tuple[IdleCause, bool, Gap, int]]
    blocked: int
    awaited: dict[tuple[IdleCause, str], int]
    in_turn: bool


@dataclass(frozen=True, slots=True, eq=False)
class _Given:
    """What the devices share."""

    data: StepData
    anywhere: Intervals
    for_hosts: Mapping[int, Intervals]
    reading: Longs
    returns: Mapping[int, CallReturns]
    turns: Mapping[tuple[int, str], InTurn]
    little: LittlePrograms

    def split(
        self,
        device: int,
        host: int,
        side: HostActivity,
        runs: pl.DataFrame,
        windows: tuple[Longs, Longs],
        spans: pl.DataFrame,
        busy_time: Intervals,
    ) -> _Split:
        """Split the idle time of a device of a host."""
        inside = union(*windows)
        gaps = inside - busy_time
        turns = {function: runs for (at, function), runs in self.turns.items() if at == host}
        times = launched(self.data.timeline, runs, self.returns[host], turns)
        called_singly = [*self.little.runs] if side.known else []
        eager = np.isin(runs["program"].to_numpy(), called_singly)
        in_turn = _before(runs, [*self._programs_of(turns)], gaps)
        anywhere = self.anywhere - in_turn
        virtual = self.data.timeline.devices[device].kind == _VIRTUAL
        own, late, little = _split(runs, inside, gaps, side, times, eager, virtual)
        if virtual:
            own = _without_threads(own)
        blocked_here = inside & side.blocked
        if not side.known:
            elsewhere = late & self.for_hosts.get(device, EMPTY)
            own, late = {**own, IdleCause.OTHERS: elsewhere}, late - elsewhere
            blocked_here = after_reads(self.reading, late, spans)
        held = _from_wait(late, blocked_here)
        free = late - held
        split = (
            (own, False),
            (_launching_little(side.attribute(free, anywhere, virtual=virtual), little), False),
            (_launching_little(side.attribute(held, anywhere, virtual=virtual), little), True),
        )
        pieces = [
            (cause, is_held, piece)
            for by_cause, is_held in split
            for cause, piece in by_cause.items()
        ]
        awaited: dict[tuple[IdleCause, str], int] = {}
        for by_cause, _ in split[1:]:
            for behind, ps in side.awaited(by_cause).items():
                awaited[behind] = awaited.get(behind, 0) + ps
        parts = [((device, cause, is_held), piece.total) for cause, is_held, piece in pieces]
        worst = [
            (cause, is_held, gap, ps)
            for cause, is_held, piece in pieces
            for gap, ps in _worst(device, gaps, piece)
        ]
        tops = {
            (behind, is_held): ps
            for gap, is_held in ((free, False), (held, True))
            for behind, ps in side.tops(gap).items()
        }
        return _Split(parts, tops, worst, blocked_here.total, awaited, bool(len(in_turn & held)))

    def _programs_of(self, turns: Mapping[str, InTurn]) -> Iterator[int]:
        """Yield the programs of functions that are called for each device."""
        for program, function in enumerate(functions_of(self.data.timeline)):
            if function in turns:
                yield program


def idle_gaps(data: StepData) -> tuple[Gap, ...]:
    """Return the longest gaps of the typical steps, whatever their cause."""
    length_of: dict[Gap, int] = {}
    for device, windows, spans in by_device(data):
        gaps = union(*windows) - busy(data, spans)
        length_of.update(_worst(device, gaps, gaps))
    return tuple(sorted(length_of, key=lambda gap: -length_of[gap])[:_ROWS])


def _worst(device: int, gaps: Intervals, pieces: Intervals) -> list[tuple[Gap, int]]:
    """Return the gaps with most of these pieces of gaps, and their time."""
    if not len(pieces):
        return []
    inside = pieces.covered(gaps.start, gaps.end)
    most = np.arange(len(gaps))
    if len(most) > _ROWS:
        most = np.sort(np.argpartition(-inside, _ROWS)[:_ROWS])
    start, length = gaps.start[most], (gaps.end - gaps.start)[most]
    rows = zip(start.tolist(), length.tolist(), inside[most].tolist(), strict=True)
    return [(Gap(device, at, dur), ps) for at, dur, ps in rows if ps > 0]


def _from_wait(gaps: Intervals, blocked: Intervals) -> Intervals:
    """Return each gap from the first moment at which the host is blocked."""
    if not len(blocked):
        return EMPTY
    first = np.searchsorted(blocked.end, gaps.start, side="right")
    since = np.append(blocked.start, np.iinfo(np.int64).max)[first]
    return union(np.maximum(since, gaps.start), gaps.end)


def _awaited(gaps: Intervals, copies: Intervals) -> Intervals:
    """Return the parts of gaps in which a copy is made that goes on until their end.

    A run that was launched in time starts when its arguments are there, whoever copies them.
    """
    if not len(copies):
        return EMPTY
    last = np.searchsorted(copies.start, gaps.end, side="left") - 1
    near = np.maximum(_LAUNCH_PS, (gaps.end - gaps.start) // _NEAR)
    chosen = (last >= 0) & (copies.end[np.maximum(last, 0)] >= gaps.end - near)
    return union(gaps.start[chosen], gaps.end[chosen]) & copies


def _before(runs: pl.DataFrame, programs: Sequence[int], gaps: Intervals) -> Intervals:
    """Return the gaps behind which the next run of the device is one of these programs."""
    if not programs or not len(gaps):
        return EMPTY
    chosen = np.append(np.isin(runs["program"].to_numpy(), programs), False)
    following = np.searchsorted(runs["start_ps"].to_numpy(), gaps.start, side="right")
    own = chosen[following]
    return union(gaps.start[own], gaps.end[own])


def _without_threads(own: dict[IdleCause, Intervals]) -> dict[IdleCause, Intervals]:
    """Return a virtual CPU device's own gaps without those in which a thread waits for a core."""
    gaps = own[IdleCause.DEVICE]
    long = gaps.end - gaps.start > _HANDOVER_PS
    waits = Intervals(gaps.start[long], gaps.end[long])
    kept = Intervals(gaps.start[~long], gaps.end[~long])
    return {
        **own,
        IdleCause.DEVICE: kept,
        IdleCause.SETTLING: own.get(IdleCause.SETTLING, EMPTY) | waits,
    }


def _launching_little(
    by_cause: dict[IdleCause, Intervals], little: Intervals
) -> dict[IdleCause, Intervals]:
    """Tell the launching of little programs from that of others."""
    if not len(little) or IdleCause.DISPATCH not in by_cause:
        return by_cause
    dispatch = by_cause[IdleCause.DISPATCH]
    eager = dispatch & little
    return {**by_cause, IdleCause.DISPATCH: dispatch - eager, IdleCause.EAGER: eager}


def _split(
    runs: pl.DataFrame,
    windows: Intervals,
    gaps: Intervals,
    side: HostActivity,
    times: Launched,
    little: NDArray[np.bool_],
    virtual: bool,
) -> tuple[dict[IdleCause, Intervals], Intervals, Intervals]:
    """Split gaps into those that are not the host's, and gaps before runs that it launched late.

    `runs` are the device's, in order of start, `times` is when each had been launched, and `little`
    which are of little programs. The third result are the late gaps before those. Where such a gap
    is short, all of it is the price of launching, whatever the host does at a moment.
    """
    if not len(runs):
        return {IdleCause.DEVICE: EMPTY}, gaps, EMPTY
    start, end = runs["start_ps"].to_numpy(), runs["end_ps"].to_numpy()
    inside = gaps & union(start, end)
    during = while_launching(runs, side.enqueues) & windows
    launching = inside & during
    if launching.total < _BEHIND * during.total:
        launching = EMPTY
    between = gaps - inside
    length = between.end - between.start
    following = np.searchsorted(start, between.start, side="right")
    # The gap after the profile's last run has no run behind it.
    earliest, latest = (np.append(time, NEVER)[following] for time in times)
    before_little = np.append(little, False)[following] & (earliest > between.start)
    own = (latest <= between.start) | ((length <= _LAUNCH_PS) & ~before_little)
    late = ~own & (earliest > between.start)
    unmatched = ~own & ~late
    short = before_little & (length <= _LITTLE_PS)
    eager = union(between.start[short], between.end[short]) - side.during(
        IdleCause.INPUT, IdleCause.COMPILE, IdleCause.BLOCKED
    )
    # Long after its call has returned, a run of a virtual device that does not begin waits for
    # memory or a core; a little one waits for a thread that runs it.
    splits = late & ~before_little & virtual
    until = np.where(splits, np.maximum(latest, between.start), between.end)
    until = np.where(until < between.end - _LAUNCH_PS, until, between.end)
    launched_late = union(until, between.end)
    in_time = union(between.start[own], between.end[own])
    copying = _awaited(in_time | launched_late, side.beside.get(IdleCause.TRANSFER, EMPTY)) - eager
    by_others = launched_late & side.beside.get(IdleCause.DISPATCH, EMPTY)
    return (
        {
            IdleCause.DEVICE: (inside - launching) | (in_time - copying - eager),
            IdleCause.DISPATCH: by_others - copying - eager,
            IdleCause.SETTLING: launched_late - by_others - copying - eager,
            IdleCause.TRANSFER: copying,
            IdleCause.UNMATCHED: union(between.start[unmatched], between.end[unmatched]),
            IdleCause.LAUNCHING: launching,
            IdleCause.EAGER: eager,
        },
        union(between.start[late], until[late]) - eager,
        union(between.start[before_little], between.end[before_little]),
    )
