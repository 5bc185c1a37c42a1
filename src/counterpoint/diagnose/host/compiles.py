"""Compiles during training: in the profiled steps, and in a Run after its first steps."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from counterpoint.core.columns import Intervals, as_ranges, union
from counterpoint.diagnose.host.causes import IdleCause, matching, own_causes
from counterpoint.diagnose.host.threads import TRACED
from counterpoint.diagnose.selection import PS_PER_MS
from counterpoint.diagnose.step_data import StepData, longest_rows
from counterpoint.timeline.step_range import CALL

if TYPE_CHECKING:
    from counterpoint.runs.run import Run


_MODULE: Final = re.compile(r"(?:hlo_)?module=([^,#]+)")
WARM: Final = 3
"""Steps of a Run in which compiles count as startup: the first call, and a second one if the first
one's outputs differ from its inputs in layout or sharding.
"""

_JIT: Final = re.compile(r"\$api\.py:\d+ jit$")
_CACHE_READ: Final = re.compile(r"_cache_read|get_executable_and_time|DeserializeLoadedExecutable")
_COMPILER: Final = re.compile(r"backend_compile|Client::Compile|RunBackend|CompileAndLoad")

_LISTED: Final = 3

_REAL_PS: Final = 1_000_000_000
"""A compile takes longer than a millisecond; a cache lookup does not."""


@dataclass(frozen=True, slots=True)
class StepCompiles:
    """Compilation within the profiled steps."""

    names: tuple[str, ...]  # functions and modules, longest first
    ms: float  # total, with simultaneous compiles counted once
    steps: frozenset[int]  # steps that had to wait for it
    cost_ms: float  # per step, on average over all steps: by how much the waiting steps were longer
    mean_step_ms: float  # of all steady steps, the waiting ones included
    longest: tuple[int, ...] = ()  # rows of Timeline.host_events
    compiled: bool = True  # else the programs were traced, and loaded from a compilation cache
    made: bool | None = None  # whether jax.jit was called in these steps; None: not recorded


def compiled_in_steps(data: StepData) -> StepCompiles | None:
    """Return what hosts compiled between the first steady step and the end of the last.

    Of a step that was asked for, what they compiled in it.
    """
    timeline = data.timeline
    steady = _counted(data)
    causes = data.cached(own_causes)
    wanted = [index for index, cause in enumerate(causes) if cause is IdleCause.COMPILE]
    if not len(steady) or not wanted:
        return None
    inside = pl.col("start_ps").is_between(steady["start_ps"].min(), steady["end_ps"].max())
    long = pl.col("dur_ps") > _REAL_PS
    events = timeline.host_events.with_row_index("row").filter(
        pl.col("name").is_in(wanted) & inside & long
    )
    if not len(events):
        return None
    start = events["start_ps"].to_numpy()
    times = union(start, start + events["dur_ps"].to_numpy())
    steps, cost_ms, mean_ms = _cost(steady, times)
    if not steps:
        return None
    return StepCompiles(
        names=_functions(data, times, events),
        ms=times.total / PS_PER_MS,
        steps=steps,
        cost_ms=cost_ms,
        mean_step_ms=mean_ms,
        longest=longest_rows(events),
        compiled=_compiled(data, events),
        made=_made(data, steps),
    )


def _counted(data: StepData) -> pl.DataFrame:
    """Return the steps that count: the steady ones, or the one that was asked for."""
    asked = data.selection.step
    if asked is None:
        return data.timeline.steps.filter("steady")
    return data.timeline.steps.filter(pl.col("whole") & (pl.col("step") == asked))


def _compiled(data: StepData, events: pl.DataFrame) -> bool:
    """Return whether the compiler ran: no if JAX only read what its cache has."""
    names = data.timeline.host_names
    reads = matching(names, _CACHE_READ)
    runs = events["name"].is_in(matching(names, _COMPILER)).any()
    return runs or not data.timeline.host_events["name"].is_in(reads).any()


def _made(data: StepData, steps: frozenset[int]) -> bool | None:
    """Return whether a jitted function was made in most of these steps."""
    names, events = data.timeline.host_names, data.timeline.host_events
    if not any(name.startswith(TRACED) for name in names):
        return None
    calls = events.filter(pl.col("name").is_in(matching(names, _JIT)))["start_ps"]
    windows = data.timeline.steps.filter(pl.col("step").is_in([*steps]))
    spans = windows.group_by("step").agg(pl.col("start_ps").min(), pl.col("end_ps").max())
    made = [
        bool(calls.is_between(start, end).any())
        for start, end in spans.select("start_ps", "end_ps").iter_rows()
    ]
    return sum(made) > len(made) / 2


def compiled_before(data: StepData) -> str | None:
    """Return a note on what the host compiles in whole steps that are left out, if it does."""
    timeline = data.timeline
    steps = timeline.steps.filter(pl.col("whole"))
    wanted = [at for at, it in enumerate(data.cached(own_causes)) if it is IdleCause.COMPILE]
    left_out = steps.filter(~pl.col("steady"))
    if data.selection.step is not None:  # one that is asked for is not left out
        left_out = left_out.filter(pl.col("step") != data.selection.step)
    if left_out.is_empty() or not wanted:
        return None
    start, end = left_out["start_ps"].min(), left_out["end_ps"].max()
    events = timeline.host_events.filter(
        pl.col("name").is_in(wanted)
        & (pl.col("dur_ps") > _REAL_PS)
        & pl.col("start_ps").is_between(start, end)
    )
    begun = events["start_ps"].to_numpy()
    times = union(begun, begun + events["dur_ps"].to_numpy())
    held = sorted(_holding(left_out, times))
    if not held:
        return None
    names = ", ".join(_functions(data, times, events)[:_LISTED]) or "functions"
    which = f"step{'s' * (len(held) > 1)} {as_ranges(held)}"
    return (
        f"the host compiles {names} for {times.total / PS_PER_MS:,.1f} ms in {which}, which no"
        " figure contains"
    )


def _cost(steady: pl.DataFrame, times: Intervals) -> tuple[frozenset[int], float, float]:
    """Return the steps with a compile, their excess over the median of those without, and the mean.

    If every step compiles, none shows the time without; then the cost is the compile time. Steps of
    devices begin at different times: a compile belongs to the step that contains most of it,
    although the next one may wait for it too.
    """
    start, end = steady["start_ps"].to_numpy(), steady["end_ps"].to_numpy()
    steps = (
        steady.with_columns(
            ms=(pl.col("end_ps") - pl.col("start_ps")) / PS_PER_MS,
            compiling=pl.Series(times.covered(start, end), dtype=pl.Int64) / PS_PER_MS,
        )
        .group_by("step")
        .agg(pl.col("ms").mean(), pl.col("compiling").mean())
    )
    touched, others = steps.filter(pl.col("compiling") > 0), steps.filter(pl.col("compiling") == 0)
    longer = touched["compiling"]
    if len(others):
        longer = (touched["ms"] - float(np.median(others["ms"].to_numpy()))).clip(0)
    cost_ms, mean_ms = (float(total) / len(steps) for total in (longer.sum(), steps["ms"].sum()))
    return _holding(steady, times), cost_ms, mean_ms


def _holding(steady: pl.DataFrame, times: Intervals) -> frozenset[int]:
    """Return the step that contains most of each compile, by the median of the devices."""
    windows = steady.group_by("step").agg(pl.col("start_ps", "end_ps").median())
    inside = pl.DataFrame({"from": times.start, "to": times.end}).with_row_index("compile")
    shared = (
        windows.join(inside, how="cross")
        .with_columns(ps=pl.min_horizontal("end_ps", "to") - pl.max_horizontal("start_ps", "from"))
        .filter(pl.col("ps") > 0)
    )
    most = shared.sort("ps", "step", descending=[True, False]).unique("compile", keep="first")
    return frozenset(int(step) for step in most["step"].to_list())


def _functions(data: StepData, times: Intervals, compiles: pl.DataFrame) -> tuple[str, ...]:
    """Return modules named by the compiler, or else the calls around the compiles."""
    names = data.timeline.host_names
    ranked = compiles.group_by("name").agg(pl.col("dur_ps").max()).sort("dur_ps", descending=True)
    modules = [m[1] for n in ranked["name"].to_list() if (m := _MODULE.search(names[int(n)]))]
    if modules:
        return tuple(dict.fromkeys(modules))
    around = _outermost(
        data.timeline.host_events.filter(pl.col("name").is_in(matching(names, CALL)))
    )
    start = around["start_ps"].to_numpy()
    covered = times.covered(start, start + around["dur_ps"].to_numpy())
    seen = (
        around.with_columns(ps=pl.Series(covered, dtype=pl.Int64))
        .filter(pl.col("ps") > 0)
        .group_by("name")
        .agg(pl.col("ps").sum())
        .sort("ps", descending=True)
    )
    called = (CALL.match(names[int(index)]) for index in seen["name"].to_list())
    return tuple(match[1] for match in called if match)


def compiled_in_run(run: Run) -> dict[str, tuple[int, float]]:
    """Return functions that the timed rank compiled after its first steps: count and seconds.

    A function not compiled before, such as an evaluation, counts from its second compile. Where the
    steps have no times, the first compiles of each function count as those of the first steps.
    """
    rank = run.timed
    if rank is not None and len(rank.steps) <= WARM:
        return {}
    warm_s = rank.steps[WARM].start_s if rank is not None else -math.inf
    before = 1 if rank is not None else WARM
    rank = rank or next((rank for rank in run.ranks if rank.compiles), None)
    seen = Counter[str]()
    compiled: dict[str, tuple[int, float]] = {}
    for compile_ in rank.compiles if rank is not None else ():
        if (
            compile_.kind != "backend"
            or compile_.name is None
            or compile_.at_s is None
            or compile_.aot
        ):
            continue
        if seen[compile_.name] >= before and compile_.at_s > warm_s:
            count, seconds = compiled.get(compile_.name, (0, 0.0))
            compiled[compile_.name] = (count + 1, seconds + compile_.seconds)
        seen[compile_.name] += 1
    return compiled


_WORTH_SAYING: Final = 0.1
"""Share of the time of steps that compiles must take for the median step to hide it."""


def hidden_by_the_median(data: StepData) -> str | None:
    """Return how much of the time went into compiles, if a median step has none of it."""
    seen = compiled_in_steps(data)
    steady = _counted(data)["step"].n_unique()
    if seen is not None and 2 * len(seen.steps) >= steady:
        return None  # the median step has a compile
    run = data.context.run
    again = compiled_in_run(run).values() if run is not None else ()
    count, seconds = sum(times for times, _ in again), sum(took for _, took in again)
    warmed = warmed_steps(run) if run is not None else None
    if warmed is not None:
        if seconds > _WORTH_SAYING * warmed.seconds:
            return (
                f"{count:,} compiles after the run's first steps take {seconds:,.1f} of"
                f" {warmed.seconds:,.1f} s: a step takes {warmed.mean_ms:,.1f} ms on average, and"
                " the median step is one without a compile (STEP303)"
            )
        return None
    if count > 1 and seconds * 1e3 > data.step_ms:
        return (
            f"{count:,} compiles after the first ones take {seconds:,.1f} s of the run, and the"
            " median step is one without a compile (STEP303)"
        )
    if seen is None or seen.cost_ms < _WORTH_SAYING * data.step_ms:
        return None
    return (
        f"{len(seen.steps)} of {steady} steps compile, which makes steps"
        f" {seen.cost_ms:,.1f} ms longer on average; the median step is one without a compile"
        " (STEP303)"
    )


@dataclass(frozen=True, slots=True)
class WarmedSteps:
    """The steps of a Run after its first ones: how many, and the time from the first to the last.

    They include those that compile.
    """

    count: int
    seconds: float

    @property
    def mean_ms(self) -> float:
        return self.seconds / self.count * 1e3


def warmed_steps(run: Run) -> WarmedSteps | None:
    """Return the steps after the first ones; None if the Run timed too few."""
    timed = run.timed
    if timed is None or len(timed.steps) <= WARM + 1:
        return None
    first, last = timed.steps[WARM], timed.steps[-1]
    count = len(timed.steps) - 1 - WARM
    if first.step is not None and last.step is not None and last.step > first.step:
        count = last.step - first.step  # a program may print every tenth
    return WarmedSteps(count, last.start_s - first.start_s)


def _outermost(calls: pl.DataFrame) -> pl.DataFrame:
    """Return the calls that lie in no other: what is called while one is traced is part of it."""
    end = pl.col("start_ps") + pl.col("dur_ps")
    return (
        calls.with_columns(end_ps=end)
        .sort("host", "line", "start_ps", "dur_ps", descending=[False, False, False, True])
        .with_columns(before_ps=pl.col("end_ps").cum_max().shift(1).over("host", "line"))
        .filter((pl.col("start_ps") >= pl.col("before_ps")).fill_null(value=True))
        .drop("end_ps", "before_ps")
    )
