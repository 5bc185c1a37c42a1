"""Builds of a function: how often it was compiled, and which argument changed in between.

The arguments are read from the lowered programs that a Run keeps (StableHLO with shardings of
Shardy or GSPMD), or from the HLO in a profile.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Final

from counterpoint.hlo.model.program import Program
from counterpoint.timeline.model import ProgramEntry

if TYPE_CHECKING:
    from counterpoint.runs.run import Rank, Run


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


def shapes_apart(programs: tuple[ProgramEntry, ...], name: str) -> tuple[str, str] | None:
    """Return the first argument that differs between two builds; None if not known."""
    for one, two in pairwise(known_builds(programs, name)):
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


def known_builds(programs: tuple[ProgramEntry, ...], name: str) -> list[Program]:
    """Return the HLO of a function's builds in a profile, by the name of either."""
    module = "jit_" + re.sub(r"[^\w.]", "_", name).rstrip("_")
    builds = [entry.hlo() for entry in programs if entry.name in (name, module)]
    return [build for build in builds if build is not None]


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True, kw_only=True)
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
    axes = [re.findall(r'"([^"]+)"', dimension) for dimension in re.findall(r"{([^{}]*)}", written)]
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
