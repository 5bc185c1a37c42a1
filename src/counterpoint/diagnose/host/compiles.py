"""Compiles during training, and the startup before the steady steps."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from counterpoint.core.columns import Intervals, union
from counterpoint.core.frozen import frozen
from counterpoint.diagnose.host.hosts import IdleCause, matching, own_causes
from counterpoint.diagnose.network.host_work import WorkTotals, host_transposes, host_work
from counterpoint.diagnose.selection import PS_PER_MS
from counterpoint.diagnose.step_data import StepData, longest_rows
from counterpoint.timeline import Action, ProgramEntry
from counterpoint.timeline.step_range import CALL

if TYPE_CHECKING:
    from counterpoint.runs import Rank, Run

_MODULE: Final = re.compile(r"(?:hlo_)?module=([^,#]+)")
WARM: Final = 3
"""Steps of a Run in which compiles count as startup: the first call, and a second one if the first
one's outputs differ from its inputs in layout or sharding.
"""

_REAL_PS: Final = 1_000_000_000
"""A compile takes longer than a millisecond; a cache lookup does not."""


@frozen
class StepCompiles:
    """Compilation within the profiled steps."""

    names: tuple[str, ...]  # functions and modules, longest first
    ms: float  # total, with simultaneous compiles counted once
    steps: frozenset[int]  # steps that had to wait for it
    cost_ms: float  # per step, on average over all steps: by how much the waiting steps were longer
    longest: tuple[int, ...] = ()  # rows of Timeline.host_events


def compiled_in_steps(data: StepData) -> StepCompiles | None:
    """Return what hosts compiled between the first steady step and the end of the last."""
    timeline = data.timeline
    steady = timeline.steps.filter("steady")
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
    steps, cost = _cost(steady, times)
    if not steps:
        return None
    return StepCompiles(
        names=_functions(data, times, events),
        ms=times.total / PS_PER_MS,
        steps=steps,
        cost_ms=cost,
        longest=longest_rows(events),
    )


def _cost(steady: pl.DataFrame, times: Intervals) -> tuple[frozenset[int], float]:
    """Return the steps with a compile, and their excess over the median of those without.

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
    return _holding(steady, times), float(longer.sum()) / len(steps)


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
    around = data.timeline.host_events.filter(pl.col("name").is_in(matching(names, CALL)))
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

    A function not compiled before, such as an evaluation, counts from its second compile.
    """
    rank = run.timed
    if rank is None or len(rank.steps) <= WARM:
        return {}
    warm_s = rank.steps[WARM].start_s
    seen: set[str] = set()
    found: dict[str, tuple[int, float]] = {}
    for compile_ in rank.compiles:
        if (
            compile_.kind != "backend"
            or compile_.name is None
            or compile_.at_s is None
            or compile_.aot
        ):
            continue
        if compile_.name in seen and compile_.at_s > warm_s:
            count, seconds = found.get(compile_.name, (0, 0.0))
            found[compile_.name] = (count + 1, seconds + compile_.seconds)
        seen.add(compile_.name)
    return found


def per_step_ms(run: Run, seconds: float) -> float:
    """Return milliseconds per step, spread over the steps of the run."""
    steps = len(run.timed.steps) if run.timed is not None else 0
    return seconds * 1e3 / steps if steps else 0.0


def shapes_apart(programs: tuple[ProgramEntry, ...], name: str) -> tuple[str, str] | None:
    """Return the first argument that differs between two builds; None if not known."""
    builds = [entry.hlo() for entry in programs if entry.name == name]
    known = [build for build in builds if build is not None]
    for one, two in pairwise(known):
        first, second = (
            {
                instruction.parameter_number: str(instruction.shape)
                for instruction in build.computations[build.entry].instructions
                if instruction.opcode == "parameter"
            }
            for build in (one, two)
        )
        for number in sorted(k for k in first if k is not None):
            if first[number] != second.get(number, first[number]):
                return first[number], second[number]
    return None


_HEAD_BYTES: Final = 1 << 22
"""Bytes read of a lowered program: its signature and argument names are at the top."""

_BUILDS: Final = 50
"""Builds of one function that are compared; if all agree, static arguments differ."""

_MAIN: Final = re.compile(r"func\.func public @main\(")
_ARGUMENT: Final = re.compile(r"%arg\d+: (?P<type>\S+)\s*(?P<rest>.*)", re.DOTALL)
_SHARDING: Final = re.compile(
    r"""sdy\.sharding<@\w+, (?P<sdy>\[.*?\])[,>]|mhlo\.sharding = "(?P<hlo>.*?)\""""
)
_LAYOUT: Final = re.compile(r'mhlo\.layout_mode = "(?P<layout>.*?)"')
_NAME: Final = re.compile(r'loc\((?:"(?P<name>(?:[^"\\]|\\.)*)"|(?P<known>#loc\d*))')
_KNOWN: Final = re.compile(r'^(#loc\d*) = loc\("((?:[^"\\]|\\.)*)"', re.MULTILINE)


@frozen
class LoweredArgument:
    """One argument of a build, as JAX lowered it; shapes are those of the whole array."""

    name: str
    shape: str
    sharding: str | None
    layout: str | None

    @property
    def placed(self) -> str:
        """Its placement on the devices: JAX's PartitionSpec where available."""
        layout = f", layout {self.layout}" if self.layout else ""
        return f"{self.sharding or 'no sharding'}{layout}"

    @property
    def elements(self) -> int:
        return prod(int(size) for size in self.shape.split("x")[:-1] if size.isdecimal())


@frozen(kw_only=True)
class Recompilation:
    """A function compiled several times; `seconds` is the time of all but the first.

    `apart` describes the difference between the first two builds that differ; None: not known.
    """

    name: str
    times: int
    seconds: float
    where: str | None
    one_line: bool  # one source line called all of them
    apart: str | None


def recompilation_of(run: Run, name: str) -> Recompilation | None:
    """Return how often the timed rank compiled a function, with its lowering time.

    JAX compiles a function once for each set of shapes, types and shardings of its arguments.
    Usually the second build comes with the second step: parameters created on one device go in and
    come out sharded. The lowered programs kept in the Run tell the arguments of each build.
    """
    rank = run.timed
    if rank is None:
        return None
    own = [compile_ for compile_ in rank.compiles if compile_.name == name and not compile_.aot]
    builds = [compile_ for compile_ in own if compile_.kind == "backend"]
    if len(builds) < 2:
        return None
    later = own[own.index(builds[0]) + 1 :]
    return Recompilation(
        name=name,
        times=len(builds),
        seconds=sum(it.seconds for it in later if it.kind in ("backend", "lower")),
        where=builds[1].where,
        one_line=builds[0].where is not None and len({compile_.where for compile_ in builds}) == 1,
        apart=_apart(rank, name),
    )


def _apart(rank: Rank, name: str) -> str | None:
    files = sorted(file for file in rank.lowered if file.stem.endswith(f"_{name}_compile"))
    # If every step compiles there are thousands of them: read only as many as needed.
    builds = (arguments(text) for file in files[:_BUILDS] if (text := _head(file)) is not None)
    same = False
    for first, second in pairwise(builds):
        if changes := list(_differences(first, second)):
            more = len(changes) - 1
            others = f"; {more:,} more of its {len(first):,} arguments also change" if more else ""
            return f"{changes[0]}{others}"
        same = True
    note = "its arguments have the same shapes and shardings; static arguments may differ"
    return note if same else None


def _differences(
    first: Sequence[LoweredArgument], second: Sequence[LoweredArgument]
) -> Iterator[str]:
    """Describe differences, largest argument first."""
    if len(first) != len(second):
        yield f"it has first {len(first):,} arguments, then {len(second):,}"
        return
    numbered = enumerate(zip(first, second, strict=True))
    for number, (old, new) in sorted(numbered, key=lambda pair: -pair[1][1].elements):
        if old.shape != new.shape:
            yield f"argument {number} ({new.name}) changes from {old.shape} to {new.shape}"
        elif old.placed != new.placed:
            changes = f"from {old.placed} to {new.placed}"
            yield f"argument {number} ({new.name}, {new.shape}) changes {changes}"


def _head(file: Path) -> str | None:
    try:
        with file.open(encoding="utf-8", errors="replace") as text:
            return text.read(_HEAD_BYTES)
    except OSError:
        return None


def arguments(lowered: str) -> tuple[LoweredArgument, ...]:
    """Return the arguments of a lowered program's main function (StableHLO, Shardy or GSPMD)."""
    main = _MAIN.search(lowered)
    if main is None:
        return ()
    names = dict(_KNOWN.findall(lowered))
    return tuple(
        _argument(match["type"], match["rest"], names)
        for part in _parts(lowered, main.end())
        if (match := _ARGUMENT.match(part.strip()))
    )


def _argument(shape: str, rest: str, names: dict[str, str]) -> LoweredArgument:
    sharding, layout, name = _SHARDING.search(rest), _LAYOUT.search(rest), _NAME.search(rest)
    called = (name["name"] or names.get(name["known"] or "", "")) if name else ""
    return LoweredArgument(
        name=called or "unnamed",
        shape=shape.removeprefix("tensor<").removesuffix(">"),
        sharding=_spec(sharding["sdy"] or sharding["hlo"]) if sharding else None,
        layout=layout["layout"] if layout and layout["layout"] != "default" else None,
    )


def _spec(written: str) -> str:
    """Return `[{"data"}, {}]` as P('data', None); GSPMD's syntax as it is."""
    if not written.startswith("["):
        return written
    axes = [re.findall(r'"([^"]+)"', dimension) for dimension in re.findall(r"{(.*?)}", written)]
    if not any(axes):
        return "P() (replicated)"
    entries = [
        repr(tuple(names)) if len(names) > 1 else repr(names[0]) if names else "None"
        for names in axes
    ]
    return f"P({', '.join(entries)})"


def _parts(text: str, begin: int) -> Iterator[str]:
    """Split at commas, up to the bracket that closes the one before `begin`."""
    depth, first, quoted = 1, begin, False
    for index in range(begin, len(text)):
        symbol = text[index]
        if symbol == '"' and text[index - 1] != "\\":
            quoted = not quoted
        elif quoted:
            continue
        elif symbol in "([{<":
            depth += 1
        elif symbol in ")]}" or (symbol == ">" and text[index - 1] != "-"):
            depth -= 1
        if depth == 0 or (depth == 1 and symbol == "," and not quoted):
            yield text[first:index]
            first = index + 1
        if depth == 0:
            return


_MIN_REPORTED_MS: Final = 100.0
"""Startup times below this are not reported."""


def startup(data: StepData) -> Iterator[str]:
    """Describe the startup; nothing if it was short or the profile shows none.

    Profiles that begin with the program show seconds in which buffers are registered and arrays
    brought into the device's layout, which could be mistaken for the cost of steps. What matters is
    whether that continues in the steps, so both are reported.
    """
    if registered := host_work(data, Action.MAP_BUFFER):
        before, per_step = registered.before, registered.per_step
        if before.ms > _MIN_REPORTED_MS:
            yield (
                f"startup: {_describe(before, 'DMA registrations')}"
                f" {before.ms / 1e3:,.2f} s, summed over threads; {_in_steps(per_step)}"
            )
    transposed = host_transposes(data)
    if transposed.busy_ms > _MIN_REPORTED_MS and transposed.before_ms > transposed.in_steps_ms:
        steps = (
            f"in steps {transposed.in_steps_ms:,.2f} ms each"
            if transposed.in_steps_ms
            else "none in the steps"
        )
        yield (
            f"startup: transposes on the host (mostly {transposed.name}) for"
            f" {transposed.before_ms / 1e3:,.2f} s, {transposed.busy_ms / 1e3:,.1f} s summed over"
            f" threads and nested calls; {steps}"
        )


def _describe(work: WorkTotals, what: str) -> str:
    size = f" of {work.bytes / 1e9:,.1f} GB" if work.bytes else ""
    return f"{work.count:,.0f} {what}{size} took"


def _in_steps(each: WorkTotals) -> str:
    if not each.count:
        return "none in the steady steps"
    return f"steady steps have {each.count:,.1f} each, {each.ms:,.2f} ms"
