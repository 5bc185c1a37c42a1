"""Steps that differ: some are much longer than the others, or each is longer than the one before.

The median step hides them by design, whether one step in a hundred is slow or every second. The
time of a step is looked at in two parts, that in which devices work and that in which they are
idle: a noisy machine scatters the one, a hook of the host lengthens the other. In each part, the
values of the short steps lie close together, and between them and the slow ones is a gap. What the
slow ones lose is their excess over the short ones, spread over all steps.

A gap alone may be noise. So slow steps also need a cause that the others lack, a function of the
host or a program, or a period, or else a gap far beyond the scatter.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import mean, median
from typing import Final

import polars as pl

from counterpoint.core.columns import EMPTY, Intervals, union
from counterpoint.diagnose.attribution import IDLE, STATES
from counterpoint.diagnose.environment import on_virtual_devices
from counterpoint.diagnose.finding import Gap
from counterpoint.diagnose.host.causes import CAUSES, IdleCause, matching
from counterpoint.diagnose.host.compiles import compiled_in_steps
from counterpoint.diagnose.host.hosts import calling_line
from counterpoint.diagnose.host.idle import WORTH, IdleTime, idle_of
from counterpoint.diagnose.host.threads import TRACED
from counterpoint.diagnose.selection import PS_PER_MS, Selection, device_slices, of_all
from counterpoint.diagnose.step_data import StepData
from counterpoint.diagnose.step_lengths import (
    FEWEST,
    StepParts,
    all_of,
    build_lengths,
    growth,
    step_lengths,
    step_parts,
)
from counterpoint.timeline.recording import WORKS_IN_NATIVE_CODE, WORKS_IN_PYTHON
from counterpoint.timeline.step_range import CALL

_SHORT: Final = 0.3
"""Least share of steps that are short: they show what a step takes without the trouble."""

_GAP_OF_STEP: Final = 0.05
_GAP_OF_SCATTER: Final = 1.5
"""The gap is at least this share of a median step, and of how far short steps lie apart."""

_SHOWS: Final = 0.5
"""Least share of the excess in one part of slow steps by which the steps are longer."""

_FAR: Final = 4.0
"""A gap of so many times the scatter needs no cause, on devices that nothing else uses."""
_VERY_FAR: Final = 10.0
_STEPS_LONG: Final = 2.0
"""Where other programs share the cores, it is so many times the scatter, and so many steps long."""

_OFTEN: Final = 3
"""So many slow steps show that a period is none by chance."""

_WORTH_NAMING: Final = 0.1
"""Share of the excess from which on an event of the host is named."""
_MANY: Final = 1000

_OF_MEDIAN: Final = 1.4826 * 1.2533
"""From median absolute deviations of lengths to the standard error of their median."""

_APART: Final = 24
"""Most slow steps that are looked into one by one."""
_ENOUGH: Final = 20
"""Short steps that tell what is usual."""

_TELL_NOTHING: Final = re.compile(
    rf"PjitFunction\(|{re.escape(WORKS_IN_PYTHON)}$|{re.escape(WORKS_IN_NATIVE_CODE)}$"
)
"""Calls of jitted functions, and that a thread works: they tell nothing of the host."""

_RUNTIMES: Final = frozenset(
    (
        IdleCause.BLOCKED,
        IdleCause.RUNTIME,
        IdleCause.DISPATCH,
        IdleCause.LAUNCHING,
        IdleCause.OTHERS,
        IdleCause.DEVICE,
        IdleCause.UNMATCHED,
        IdleCause.UNKNOWN,
    )
)
"""Causes that a thread which the system stops for a while shows, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowSteps:
    """Slow ones of the steady steps that have one cause, with their excess in milliseconds."""

    longer_ms: Mapping[int, float]  # of the part of the step that differs
    usual: tuple[int, ...]  # steps that are not slow
    short_ms: float  # median length of those
    mean_ms: float  # of all
    count: int  # of all
    period: int | None  # every so many steps one is slow
    by_host: bool  # devices are idle longer, else they work longer
    state: str = IDLE  # what devices do longer
    cause: IdleCause | None = None
    functions: tuple[tuple[str, float], ...] = ()  # of the host, which the others lack: excess
    named: tuple[tuple[str, float], ...] = ()  # what the host does more of, with its excess
    gaps: tuple[Gap, ...] = ()  # the worst of them
    programs: tuple[str, ...] = ()  # programs that only these run
    other_part_ms: float = 0.0  # of the excess, what is in the other part: idle time, or work

    @property
    def lost_ms(self) -> float:
        """What a step loses on average: of those that come at a fixed distance, in the long run."""
        if self.period is not None:
            return self.excess_ms / self.period
        return sum(self.longer_ms.values()) / self.count

    @property
    def excess_ms(self) -> float:
        """What a slow step loses."""
        return mean(self.longer_ms.values())

    @property
    def is_explained(self) -> bool:
        """Whether something is known that these steps do, and that the others do not."""
        if not self.by_host:
            return bool(self.programs)
        return bool(self.functions) or self.cause not in (*_RUNTIMES, IdleCause.PYTHON)


def slow_steps(data: StepData) -> tuple[SlowSteps, ...]:
    """Return the slow steps by cause, the largest loss first; none if one step was requested."""
    if data.selection.step is not None or data.cached(growth) is not None:
        return ()
    lengths = data.cached(step_parts).length
    each_slow = [
        slow
        for slow in (*_slow_by_host(data), *_slow_by_devices(data))
        if _are_longer(slow, lengths)
    ]
    return tuple(sorted(_by_cause(data, each_slow), key=lambda slow: -slow.lost_ms))


def _by_cause(data: StepData, several: Sequence[SlowSteps]) -> list[SlowSteps]:
    """Return one SlowSteps for each cause: idle time and work of the same steps may have one."""
    joined: list[SlowSteps] = []
    for slow in sorted(several, key=lambda it: (not it.is_explained, -it.lost_ms)):
        same = (at for at, other in enumerate(joined) if _have_one_cause(data, other, slow))
        at = next(same, None)
        if at is None:
            joined.append(slow)
        else:
            joined[at] = _joined(joined[at], slow)
    return joined


def _have_one_cause(data: StepData, first: SlowSteps, slow: SlowSteps) -> bool:
    """Return whether `slow` belongs to `first`, which is explained, or loses more.

    It does if nothing else is known of it, if the host runs functions of both in the same steps,
    one after the other, or if a function of one calls the programs of the other.
    """
    mine, others = set(slow.longer_ms), set(first.longer_ms)
    if not slow.is_explained:
        return mine <= others
    if first.by_host and slow.by_host:
        return mine == others and bool(first.functions and slow.functions)
    if first.by_host == slow.by_host or not (mine <= others or others <= mine):
        return False
    host, devices = (first, slow) if first.by_host else (slow, first)
    return bool(devices.programs) and _calls(data, host, devices)


def _calls(data: StepData, host: SlowSteps, devices: SlowSteps) -> bool:
    """Return whether most programs that only slow steps run begin within the host's functions."""
    timeline = data.timeline
    names = [timeline.host_names.index(name) for name, _ in host.functions]
    events = timeline.host_events.filter(pl.col("name").is_in(names))
    start = events["start_ps"].to_numpy()
    times = union(start, start + events["dur_ps"].to_numpy())
    own = [at for at, it in enumerate(timeline.programs) if it.name in devices.programs]
    runs = timeline.runs.filter(
        pl.col("program").is_in(own) & pl.col("step").is_in([*devices.longer_ms])
    )
    begun = runs.select(pl.coalesce("launched_ps", "start_ps")).to_series().to_numpy()
    inside = times.covered(begun, begun + 1)
    return 2 * int(inside.sum()) > len(begun)


def _joined(first: SlowSteps, other: SlowSteps) -> SlowSteps:
    """Return the steps of both, which have the cause of the first one."""
    more, fewer = (first, other) if set(other.longer_ms) <= set(first.longer_ms) else (other, first)
    longer = {step: ms + fewer.longer_ms.get(step, 0.0) for step, ms in more.longer_ms.items()}
    apart = 0.0 if first.by_host == other.by_host else sum(other.longer_ms.values()) / len(longer)
    return replace(
        first,
        longer_ms=longer,
        usual=tuple(step for step in more.usual if step not in longer),
        period=more.period,
        other_part_ms=first.other_part_ms + apart,
        gaps=first.gaps or other.gaps,
        functions=(*first.functions, *other.functions),
        named=first.named or other.named,
    )


def _are_longer(slow: SlowSteps, lengths: Mapping[int, float]) -> bool:
    """Return whether the steps themselves are longer, not only the part that differs.

    What the host does longer in some steps may overlap work that is longer in the others.
    """
    usual = median(lengths[step] for step in slow.usual)
    longer = median(lengths[step] for step in slow.longer_ms) - usual
    return longer >= _SHOWS * slow.excess_ms


@dataclass(frozen=True, slots=True)
class _Candidates:
    """Steps whose value is beyond a gap, with their excess; `far` is the gap by the scatter."""

    longer_ms: Mapping[int, float]
    usual: tuple[int, ...]
    gap_ms: float
    scatter_ms: float


def _candidates(values: Mapping[int, float], step_ms: float) -> _Candidates | None:
    """Return the steps beyond the widest gap in these values, if it is wide enough.

    Then it is looked whether a gap among the short ones divides them, too: slow steps may be of
    several kinds. But most steps stay short then, since noise divides a few of them at any rate.
    """
    ordered = sorted(values.values())
    fewest = max(2, round(_SHORT * len(ordered)))
    short, gap, has_gap = ordered, 0.0, False
    while len(short) > fewest and len(ordered) >= FEWEST:
        gaps = [above - below for below, above in pairwise(short)]
        count = max(range(fewest, len(short)), key=lambda count: gaps[count - 1])
        near = short[:count]
        if gaps[count - 1] <= max(_GAP_OF_STEP * step_ms, _GAP_OF_SCATTER * (near[-1] - near[0])):
            break
        short, gap, has_gap = near, gaps[count - 1], True
        fewest = max(fewest, (len(ordered) + 1) // 2)
    if not has_gap:
        return None
    usual = median(short)
    return _Candidates(
        longer_ms={step: ms - usual for step, ms in values.items() if ms > short[-1]},
        usual=tuple(step for step, ms in values.items() if ms <= short[-1]),
        gap_ms=gap,
        scatter_ms=short[-1] - short[0],
    )


def _slow_by_host(data: StepData) -> Iterator[SlowSteps]:
    """Yield the steps in which devices are idle longer, by what the host does then."""
    parts = data.cached(step_parts)
    if len(parts.length) < FEWEST:
        return
    compiling = compiled_in_steps(data)
    compiled = compiling.steps if compiling is not None else frozenset[int]()
    left = dict(parts.idle)
    for function, ms in _rare_functions(data, parts, compiled):
        usual = tuple(step for step in parts.length if step not in ms)
        yield _by_host(data, parts, ms, usual, function)
        left = {step: idle - ms.get(step, 0.0) for step, idle in left.items()}
    step_ms = median(parts.length.values())
    candidates = _candidates(left, step_ms)
    if candidates is None:
        return
    slow = {step: ms for step, ms in candidates.longer_ms.items() if step not in compiled}
    by_cause: dict[IdleCause, list[int]] = {}
    usual_idle = all_of(data, _some(candidates.usual)).cached(idle_of)
    for step in slow if len(slow) <= _APART else ():
        idle = all_of(data, (step,)).cached(idle_of)
        cause = max(CAUSES, key=lambda it: idle.ms(it) - usual_idle.ms(it))
        by_cause.setdefault(cause, []).append(step)
    if len(slow) > _APART:
        idle = all_of(data, _some([*slow])).cached(idle_of)
        by_cause = {max(CAUSES, key=lambda it: idle.ms(it) - usual_idle.ms(it)): [*slow]}
    traced = any(name.startswith(TRACED) for name in data.timeline.host_names)
    for cause, steps in by_cause.items():
        period = _period([*parts.length], steps)
        explained = cause not in _RUNTIMES
        if not explained and traced and on_virtual_devices(data.timeline):
            continue  # Python would show what the host does: other programs take its cores
        if _is_far(data, candidates, period, len(steps), step_ms, explained=explained):
            yield _by_host(
                data, parts, {step: slow[step] for step in steps}, candidates.usual, None
            )


def _some(steps: Sequence[int]) -> Sequence[int]:
    return steps[:: max(1, len(steps) // _ENOUGH)]


def _by_host(
    data: StepData,
    parts: StepParts,
    longer_ms: Mapping[int, float],
    usual: Sequence[int],
    function: str | None,
) -> SlowSteps:
    idle = all_of(data, _some([*longer_ms])).cached(idle_of)
    usually = all_of(data, _some(usual)).cached(idle_of)
    cause = max(CAUSES, key=lambda it: idle.ms(it) - usually.ms(it))
    return SlowSteps(
        longer_ms=longer_ms,
        usual=tuple(usual),
        short_ms=median(parts.length[step] for step in usual),
        mean_ms=mean(parts.length.values()),
        count=len(parts.length),
        period=_period([*parts.length], longer_ms),
        by_host=True,
        cause=cause,
        functions=() if function is None else ((function, mean(longer_ms.values())),),
        named=_named(idle, usually, cause, _WORTH_NAMING * mean(longer_ms.values())),
        gaps=idle.gaps(cause),
    )


def _named(
    idle: IdleTime, usually: IdleTime, cause: IdleCause, worth: float
) -> tuple[tuple[str, float], ...]:
    """Return events of the host that slow steps have more of, with their excess."""
    known = dict(usually.top(cause, count=_MANY))
    more = [(what, ms - known.get(what, 0.0)) for what, ms in idle.top(cause, count=_MANY)]
    ranked = sorted(more, key=lambda item: -item[1])
    return tuple((what, ms) for what, ms in ranked if ms > worth)


def _rare_functions(
    data: StepData, parts: StepParts, compiled: Collection[int]
) -> Iterator[tuple[str, Mapping[int, float]]]:
    """Yield events of launching threads in which devices are idle, and that most steps lack.

    With the idle milliseconds of each step that has one. What lies around it, as the loop itself or
    a loader that only sometimes opens a file, is in nearly all steps, so it is not yielded; of what
    lies within it, only the outermost is.
    """
    least_ps = int(_GAP_OF_STEP * median(parts.length.values()) * PS_PER_MS)
    events, names = data.timeline.host_events, data.timeline.host_names
    most = (1 - _SHORT) * len(parts.length)
    least_ms = WORTH * sum(parts.length.values())
    long = events.filter(pl.col("dur_ps") >= least_ps)
    calls = events.filter(pl.col("name").is_in(matching(names, CALL)))
    for host, devices in _devices_of_hosts(data, parts).items():
        called = calls.filter(pl.col("host") == host)
        line = calling_line(called, names)
        if line is None:
            continue
        known = long.filter((pl.col("host") == host) & (pl.col("line") == line))["name"].unique()
        candidates = events.filter(
            (pl.col("line") == line)
            & (pl.col("host") == host)
            & pl.col("name").is_in(known.implode())
        )
        functions: list[tuple[float, int, dict[int, float], Intervals]] = []
        for (name,), rows in candidates.group_by("name", maintain_order=True):
            number = int(str(name))
            if _TELL_NOTHING.match(names[number]):
                continue
            start = rows["start_ps"].to_numpy()
            times = union(start, start + rows["dur_ps"].to_numpy())
            touched, ms = _in_steps(parts, devices, times)
            ms = {step: own_ms for step, own_ms in ms.items() if step not in compiled}
            if len(touched) <= most and sum(ms.values()) > least_ms:
                functions.append((sum(ms.values()), number, ms, times))
        taken = EMPTY
        for _, number, ms, times in sorted(functions, key=lambda it: (-it[0], -it[3].total)):
            if (times & taken).total < times.total / 2:
                taken |= times
                enough = max(ms.values()) * _GAP_OF_STEP
                yield names[number], {step: own for step, own in ms.items() if own > enough}


def _devices_of_hosts(data: StepData, parts: StepParts) -> dict[int, list[int]]:
    devices_of: dict[int, list[int]] = {}
    for device in parts.busy:
        devices_of.setdefault(data.timeline.devices[device].host, []).append(device)
    return devices_of


def _in_steps(
    parts: StepParts, devices: Sequence[int], times: Intervals
) -> tuple[set[int], dict[int, float]]:
    """Return the steps that these times touch, and their idle time in milliseconds."""
    touched: set[int] = set()
    ms: dict[int, float] = {}
    slices = device_slices(parts.windows)
    for device in devices:
        own = parts.windows[slices[device]]
        start, end = own["start_ps"].to_numpy(), own["end_ps"].to_numpy()
        inside = times.covered(start, end)
        idle = (inside - (times & parts.busy[device]).covered(start, end)).tolist()
        touches = (inside > 0).tolist()
        for step, touch, ps in zip(own["step"].to_list(), touches, idle, strict=True):
            if touch:
                touched.add(step)
            if ps:
                ms[step] = ms.get(step, 0.0) + ps / PS_PER_MS / len(devices)
    return touched, ms


def _is_far(
    data: StepData,
    candidates: _Candidates,
    period: int | None,
    count: int,
    step_ms: float,
    *,
    explained: bool,
) -> bool:
    """Return whether slow steps are no noise although no function or program shows it.

    Other programs take the cores of virtual devices for a while: what the host does then is what it
    does in all steps.
    """
    far = candidates.gap_ms >= _FAR * candidates.scatter_ms
    often = period is not None and count >= _OFTEN
    if not on_virtual_devices(data.timeline):
        return far or often or explained
    very_far = candidates.gap_ms >= _VERY_FAR * candidates.scatter_ms
    return often or (very_far and candidates.gap_ms >= _STEPS_LONG * step_ms)


def _slow_by_devices(data: StepData) -> Iterator[SlowSteps]:
    """Yield the steps in which devices work longer."""
    parts = data.cached(step_parts)
    if len(parts.length) < FEWEST or data.cached(build_lengths) is not None:
        return
    step_ms = median(parts.length.values())
    works = {step: ms - parts.idle[step] for step, ms in parts.length.items()}
    candidates = _candidates(works, step_ms)
    if candidates is None:
        return
    steps = sorted(candidates.longer_ms)
    period = _period([*parts.length], steps)
    programs = _programs(data, steps, candidates.usual)
    if not programs and on_virtual_devices(data.timeline) and len(steps) < _OFTEN:
        return  # other programs of the machine take the cores for a while
    if not programs and not _is_far(data, candidates, period, len(steps), step_ms, explained=False):
        return
    usual = all_of(data, _some(candidates.usual))
    apart = all_of(data, steps[:_APART])
    more = {state: ms - _states(usual)[state] for state, ms in _states(apart).items()}
    more.pop(IDLE)
    yield SlowSteps(
        longer_ms=candidates.longer_ms,
        usual=candidates.usual,
        short_ms=median(parts.length[step] for step in candidates.usual),
        mean_ms=mean(parts.length.values()),
        count=len(parts.length),
        period=period,
        by_host=False,
        state=max(more, key=lambda state: more[state]),
        programs=programs,
    )


def _programs(data: StepData, slow: Sequence[int], usual: Sequence[int]) -> tuple[str, ...]:
    """Return programs that run in each slow step, and in no other, the longest first."""
    runs = data.timeline.runs.filter(pl.col("step").is_in([*slow, *usual]))
    took = (pl.col("end_ps") - pl.col("start_ps")).sum()
    by_program = runs.group_by("program").agg(
        own=pl.col("step").filter(pl.col("step").is_in([*slow])).n_unique(),
        others=pl.col("step").filter(pl.col("step").is_in([*usual])).n_unique(),
        took=took,
    )
    only = by_program.filter((pl.col("own") == len(slow)) & (pl.col("others") == 0))
    rows = only.sort("took", "program", descending=[True, False])["program"].to_list()
    return tuple(dict.fromkeys(data.timeline.programs[int(row)].name for row in rows))


def _states(of: StepData) -> dict[str, float]:
    summed = of.attributed.group_by("state").agg(pl.col("ps").sum())
    ms_of = {state: ps * of.selection.scale for state, ps in summed.rows()}
    return {str(state): ms_of.get(str(state), 0.0) for state in (*STATES, IDLE)}


def _period(steps: Sequence[int], slow: Collection[int]) -> int | None:
    """Return the distance of the slow steps if it is always the same, and none is missing."""
    apart = {later - earlier for earlier, later in pairwise(sorted(slow))}
    if len(apart) != 1:
        return None
    (period,) = apart
    expected = {step for step in steps if step % period == min(slow) % period}
    return period if period > 1 and expected == set(slow) else None


def noise_share(data: StepData) -> float:
    """Return how uncertain the median step is, as a share of it: a standard error of the median.

    Slow steps that have a finding are not counted, and fewer than five steps do not tell.
    """
    slow = {step for steps_of_cause in data.cached(slow_steps) for step in steps_of_cause.longer_ms}
    lengths = [ms for step, ms in step_lengths(data.selection).items() if step not in slow]
    if data.selection.step is not None or len(lengths) < FEWEST:
        return 0.0
    middle = median(lengths)
    deviation = median(abs(ms - middle) for ms in lengths)
    return _OF_MEDIAN * deviation / len(lengths) ** 0.5 / middle if middle else 0.0


def typical_are_slow(data: StepData) -> bool:
    """Return whether so many steps are slow that typical ones are among them."""
    slow = {step for steps_of_cause in data.cached(slow_steps) for step in steps_of_cause.longer_ms}
    return 2 * len(slow) >= len(data.selection.lengths_ms)


def without_slow(data: StepData) -> Selection:
    """Return the Selection without slow steps among the typical ones; of all, if half are slow."""
    selection = data.selection
    slow = {step for steps_of_cause in data.cached(slow_steps) for step in steps_of_cause.longer_ms}
    if slow and typical_are_slow(data):
        return of_all(selection)
    kept = selection.windows.filter(~pl.col("step").is_in([*slow]))
    if not slow or kept.is_empty():
        return selection
    total = int((kept["end_ps"] - kept["start_ps"]).sum())
    return replace(selection, windows=kept, scale=selection.median_ms / total)
