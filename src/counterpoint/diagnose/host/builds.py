"""Builds of one function: when JAX compiled it again, what that took, and which argument changed.

A function is compiled once for each set of shapes, types and shardings of its arguments. The usual
second build comes with the second step: parameters that were made on one device go in, and come out
sharded. What JAX handed to the compiler, kept in the Run, tells the arguments of each build.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Final

from counterpoint.runs import Run
from counterpoint.runs.run import Compile, Rank

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
