"""Compiles during training, and the startup before the steady steps."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from counterpoint.core.columns import Intervals, union
from counterpoint.diagnose.case import Case
from counterpoint.diagnose.chains import host_transposes
from counterpoint.diagnose.host.hosts import Cause, cause_of
from counterpoint.diagnose.network.host_work import Work, host_work
from counterpoint.diagnose.selection import PS_PER_MS
from counterpoint.runs import Compile, Rank, Run
from counterpoint.timeline import Action, ProgramEntry

_MODULE: Final = re.compile(r"(?:hlo_)?module=([^,#]+)")
_CALL: Final = re.compile(r"^(?:TSL:)?PjitFunction\((.*)\)$")
WARM: Final = 3
"""Steps of a Run within which compiles belong to the start: the first call, and the second where
the first one's outputs have another layout or sharding than its inputs."""

_REAL_PS: Final = 1_000_000_000
"""A compile takes longer than a millisecond; a look into a cache does not."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """Compiling that the profile saw within steps."""

    names: tuple[str, ...]  # functions and modules, the longest first
    ms: float  # in all, where several compile at once counted once
    steps: frozenset[int]  # that had to wait for it
    cost_ms: float  # of a step, on average over all steps: how much longer those took


def compiled_in_steps(case: Case) -> Compiled | None:
    """What hosts compiled between the first steady step and the last one's end."""
    timeline = case.timeline
    steady = timeline.steps.filter("steady")
    wanted = [i for i, name in enumerate(timeline.host_names) if cause_of(name) is Cause.COMPILE]
    if not len(steady) or not wanted:
        return None
    inside = pl.col("start_ps").is_between(steady["start_ps"].min(), steady["end_ps"].max())
    long = pl.col("dur_ps") > _REAL_PS
    events = timeline.host_events.filter(pl.col("name").is_in(wanted) & inside & long)
    if not len(events):
        return None
    start = events["start_ps"].to_numpy()
    times = union(start, start + events["dur_ps"].to_numpy())
    steps, cost = _cost(steady, times)
    if not steps:
        return None
    return Compiled(
        names=_functions(case, times, events), ms=times.total / PS_PER_MS, steps=steps, cost_ms=cost
    )


def _cost(steady: pl.DataFrame, times: Intervals) -> tuple[frozenset[int], float]:
    """Steps with a compile, and by what they are longer than the median of those without.

    Where every step compiles, none tells how long it takes without; then it is the compiling.
    Steps of devices begin at other moments: a compile counts as in the step that has most of it,
    though the next one may wait for it, too.
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
    """The step that has most of each compile, by the median of the devices."""
    windows = steady.group_by("step").agg(pl.col("start_ps", "end_ps").median())
    inside = pl.DataFrame({"from": times.start, "to": times.end}).with_row_index("compile")
    shared = (
        windows.join(inside, how="cross")
        .with_columns(ps=pl.min_horizontal("end_ps", "to") - pl.max_horizontal("start_ps", "from"))
        .filter(pl.col("ps") > 0)
    )
    most = shared.sort("ps", "step", descending=[True, False]).unique("compile", keep="first")
    return frozenset(int(step) for step in most["step"].to_list())


def _functions(case: Case, times: Intervals, compiles: pl.DataFrame) -> tuple[str, ...]:
    """Modules that the compiler names; else the calls around the compiles."""
    names = case.timeline.host_names
    ranked = compiles.group_by("name").agg(pl.col("dur_ps").max()).sort("dur_ps", descending=True)
    modules = [m[1] for n in ranked["name"].to_list() if (m := _MODULE.search(names[int(n)]))]
    if modules:
        return tuple(dict.fromkeys(modules))
    calls = [index for index, name in enumerate(names) if _CALL.match(name)]
    around = case.timeline.host_events.filter(pl.col("name").is_in(calls))
    start = around["start_ps"].to_numpy()
    covered = times.covered(start, start + around["dur_ps"].to_numpy())
    seen = (
        around.with_columns(ps=pl.Series(covered, dtype=pl.Int64))
        .filter(pl.col("ps") > 0)
        .group_by("name")
        .agg(pl.col("ps").sum())
        .sort("ps", descending=True)
    )
    called = (_CALL.match(names[int(index)]) for index in seen["name"].to_list())
    return tuple(match[1] for match in called if match)


def compiled_in_run(run: Run) -> dict[str, tuple[int, float]]:
    """Functions that a Run's timed rank compiled after its first steps: how often, and seconds.

    One that had not been compiled before, an evaluation for instance, counts from its second time.
    """
    rank = run.timed
    if rank is None or len(rank.steps) <= WARM:
        return {}
    begun = rank.steps[WARM].start_s
    seen: set[str] = set()
    found: dict[str, tuple[int, float]] = {}
    for it in rank.compiles:
        if it.kind != "backend" or it.name is None or it.at_s is None or it.aot:
            continue
        if it.name in seen and it.at_s > begun:
            count, seconds = found.get(it.name, (0, 0.0))
            found[it.name] = (count + 1, seconds + it.seconds)
        seen.add(it.name)
    return found


def per_step_ms(run: Run, seconds: float) -> float:
    """Spread over the steps of the run."""
    steps = len(run.timed.steps) if run.timed is not None else 0
    return seconds * 1e3 / steps if steps else 0.0


def shapes_apart(programs: tuple[ProgramEntry, ...], name: str) -> tuple[str, str] | None:
    """The first argument in which two builds of a function differ; None where that is not known."""
    builds = [it.hlo() for it in programs if it.name == name]
    known = [build for build in builds if build is not None]
    for one, two in pairwise(known):
        first, second = (
            {
                it.parameter_number: str(it.shape)
                for it in build.computations[build.entry].instructions
                if it.opcode == "parameter"
            }
            for build in (one, two)
        )
        for number in sorted(k for k in first if k is not None):
            if first[number] != second.get(number, first[number]):
                return first[number], second[number]
    return None


_HEAD_BYTES: Final = 1 << 22
"""Of a lowered program: its signature and the names of its arguments stand at the top."""

_BUILDS: Final = 50
"""Programs of one function that are read: none that differ among so many, and it is static ones."""

_MAIN: Final = re.compile(r"func\.func public @main\(")
_ARGUMENT: Final = re.compile(r"%arg\d+: (?P<type>\S+)\s*(?P<rest>.*)", re.DOTALL)
_SHARDING: Final = re.compile(
    r"""sdy\.sharding<@\w+, (?P<sdy>\[.*?\])[,>]|mhlo\.sharding = "(?P<hlo>.*?)\""""
)
_LAYOUT: Final = re.compile(r'mhlo\.layout_mode = "(?P<layout>.*?)"')
_NAME: Final = re.compile(r'loc\((?:"(?P<name>(?:[^"\\]|\\.)*)"|(?P<known>#loc\d*))')
_KNOWN: Final = re.compile(r'^(#loc\d*) = loc\("((?:[^"\\]|\\.)*)"', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a build, as JAX lowered it; shapes are those of the whole array."""

    name: str
    shape: str
    sharding: str | None
    layout: str | None

    @property
    def placed(self) -> str:
        """How it lies on the devices: as JAX's PartitionSpec says it, where it tells one."""
        layout = f", layout {self.layout}" if self.layout else ""
        return f"{self.sharding or 'no sharding'}{layout}"

    @property
    def elements(self) -> int:
        return prod(int(size) for size in self.shape.split("x")[:-1] if size.isdecimal())


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebuilt:
    """A function that was compiled several times; `seconds` is what all but the first took.

    `apart` says in words what differed between the first two builds that differ; None: not known.
    """

    name: str
    times: int
    seconds: float
    where: str | None
    one_line: bool  # one line of the program called for all of them
    apart: str | None


def rebuilt(run: Run, name: str) -> Rebuilt | None:
    """How often the timed rank of a Run compiled a function, its lowering included."""
    rank = run.timed
    if rank is None:
        return None
    own = [it for it in rank.compiles if it.name == name and not it.aot]
    builds = [it for it in own if it.kind == "backend"]
    if len(builds) < 2:
        return None
    return Rebuilt(
        name=name,
        times=len(builds),
        seconds=sum(it.seconds for it in own[own.index(builds[0]) + 1 :] if _is_work(it)),
        where=builds[1].where,
        one_line=builds[0].where is not None and len({it.where for it in builds}) == 1,
        apart=_apart(rank, name),
    )


def _is_work(it: Compile) -> bool:
    return it.kind in ("backend", "lower")


def _apart(rank: Rank, name: str) -> str | None:
    files = sorted(it for it in rank.lowered if it.stem.endswith(f"_{name}_compile"))
    # Where every step compiles there are thousands of them: no more are read than it takes.
    builds = (arguments(text) for file in files[:_BUILDS] if (text := _head(file)) is not None)
    same = False
    for first, second in pairwise(builds):
        if told := list(_differences(first, second)):
            more = len(told) - 1
            others = f"; {more:,} more of its {len(first):,} arguments change, too" if more else ""
            return f"{told[0]}{others}"
        same = True
    said = "its arguments have the same shapes and shardings: static arguments may differ"
    return said if same else None


def _differences(first: Sequence[Argument], second: Sequence[Argument]) -> Iterator[str]:
    """In words, the largest argument first."""
    if len(first) != len(second):
        yield f"it has {len(first):,} arguments, then {len(second):,}"
        return
    numbered = enumerate(zip(first, second, strict=True))
    for number, (one, two) in sorted(numbered, key=lambda it: -it[1][1].elements):
        if one.shape != two.shape:
            yield f"argument {number} ({two.name}) changes from {one.shape} to {two.shape}"
        elif one.placed != two.placed:
            changes = f"from {one.placed} to {two.placed}"
            yield f"argument {number} ({two.name}, {two.shape}) changes {changes}"


def _head(file: Path) -> str | None:
    try:
        with file.open(encoding="utf-8", errors="replace") as text:
            return text.read(_HEAD_BYTES)
    except OSError:
        return None


def arguments(lowered: str) -> tuple[Argument, ...]:
    """Of the main function of a program that JAX lowered (StableHLO with Shardy or GSPMD)."""
    main = _MAIN.search(lowered)
    if main is None:
        return ()
    names = dict(_KNOWN.findall(lowered))
    return tuple(
        _argument(match["type"], match["rest"], names)
        for part in _parts(lowered, main.end())
        if (match := _ARGUMENT.match(part.strip()))
    )


def _argument(shape: str, rest: str, names: dict[str, str]) -> Argument:
    sharding, layout, name = _SHARDING.search(rest), _LAYOUT.search(rest), _NAME.search(rest)
    called = (name["name"] or names.get(name["known"] or "", "")) if name else ""
    return Argument(
        name=called or "without a name",
        shape=shape.removeprefix("tensor<").removesuffix(">"),
        sharding=_spec(sharding["sdy"] or sharding["hlo"]) if sharding else None,
        layout=layout["layout"] if layout and layout["layout"] != "default" else None,
    )


def _spec(written: str) -> str:
    """`[{"data"}, {}]` as P('data', None); GSPMD's words as they are."""
    if not written.startswith("["):
        return written
    axes = [re.findall(r'"([^"]+)"', dimension) for dimension in re.findall(r"{(.*?)}", written)]
    if not any(axes):
        return "P() (replicated)"
    told = [repr(tuple(of)) if len(of) > 1 else repr(of[0]) if of else "None" for of in axes]
    return f"P({', '.join(told)})"


def _parts(text: str, begin: int) -> Iterator[str]:
    """What stands between commas, up to the bracket that closes the one before `begin`."""
    depth, first, quoted = 1, begin, False
    for at in range(begin, len(text)):
        symbol = text[at]
        if symbol == '"' and text[at - 1] != "\\":
            quoted = not quoted
        elif quoted:
            continue
        elif symbol in "([{<":
            depth += 1
        elif symbol in ")]}" or (symbol == ">" and text[at - 1] != "-"):
            depth -= 1
        if depth == 0 or (depth == 1 and symbol == "," and not quoted):
            yield text[first:at]
            first = at + 1
        if depth == 0:
            return


_WORTH_A_WORD_MS: Final = 100.0
"""Less is not what anybody looks for."""


def startup(case: Case) -> Iterator[str]:
    """In words; nothing where it was short, or where the profile shows none."""
    if registered := host_work(case, Action.MAP_BUFFER):
        before, each = registered.before, registered.per_step
        if before.ms > _WORTH_A_WORD_MS:
            yield (
                f"start-up: {_told(before, 'DMA registrations')}"
                f" {before.ms / 1e3:,.2f} s, summed over threads; {_in_steps(each)}"
            )
    transposed = host_transposes(case)
    if transposed.busy_ms > _WORTH_A_WORD_MS and transposed.before_ms > transposed.in_steps_ms:
        steps = (
            f"in steps {transposed.in_steps_ms:,.2f} ms each"
            if transposed.in_steps_ms
            else "none of it in the steps"
        )
        yield (
            f"start-up: transposes on the host (most of it {transposed.name}) for"
            f" {transposed.before_ms / 1e3:,.2f} s, {transposed.busy_ms / 1e3:,.1f} s summed over"
            f" threads and nested calls; {steps}"
        )


def _told(work: Work, what: str) -> str:
    size = f" of {work.bytes / 1e9:,.1f} GB" if work.bytes else ""
    return f"{work.count:,.0f} {what}{size} took"


def _in_steps(each: Work) -> str:
    if not each.count:
        return "none in the steady steps"
    return f"steady steps have {each.count:,.1f} each, {each.ms:,.2f} ms"
