"""Modules among the files of a dump, and which of them is the step: the one with the most FLOPs.

What JAX lowered is preferred to what XLA dumped of it: the same program, but nearer to what was
compiled.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Final

from counterpoint.compile.inputs.bytecode import as_text
from counterpoint.compile.inputs.shelf import Paper
from counterpoint.compile.workers.job import Form
from counterpoint.core.errors import InputError, UsageError
from counterpoint.hlo import Program, flops, read_program

_LOWERED: Final = (
    re.compile(r"jax_ir\d+_(?P<name>.+)_compile\.mlir"),  # JAX_DUMP_IR_TO
    re.compile(r"(?P<stem>module_\d+\.(?P<name>.+))/module\.mlir"),  # --xla_dump_to, since 0.9
    re.compile(r"(?!module_\d)(?!jax_ir\d)(?P<name>.+)\.(?:mlir|mlirbc|stablehlo)"),
)
_DUMPED: Final = re.compile(r"(module_\d+\.(.+?)(?:\.\d+)?)\.before_optimizations\.(hlo\.pb|txt)$")
_SCHEDULED: Final = re.compile(r"after_optimizations\.(hlo\.pb|txt)$")
_SYMBOL: Final = re.compile(rb'(?m)^\s*(?:builtin\.)?module @"?([\w.$<>-]+)"?')
_COUNT: Final = re.compile(rb"mhlo\.num_(replicas|partitions) = (\d+)")
_HEAD: Final = 1 << 20
_DOT: Final = re.compile(
    rb"stablehlo\.(?:dot_general|convolution)\b[^\n]*: \(tensor<([\dx]*)[a-z]\w*>, "
    rb"tensor<([\dx]*)[a-z]\w*>\) -> tensor<([\dx]*)[a-z]\w*>"
)
_WORK: Final = ("dot", "convolution", "custom-call")
_SMALL: Final = 0.02  # of the largest: too small to be the step, so its FLOPs are not counted


@dataclass(frozen=True, slots=True)
class Candidate:
    """A module that may be the step. `stem` is what the files of one compile begin with."""

    name: str
    form: Form
    paper: Paper
    stem: str = ""


def candidates(found: Iterable[Paper]) -> list[Candidate]:
    """The modules among these files, as they were before XLA's passes."""
    papers = list(found)
    lowered = [candidate for paper in papers if (candidate := _lowered(paper))]
    return lowered or [candidate for paper in papers if (candidate := _dumped(paper))]


def scheduled(found: Iterable[Paper]) -> list[str]:
    """Places of modules that XLA is through with, which can't be compiled again."""
    return [paper.place for paper in found if is_scheduled(paper)]


def is_scheduled(paper: Paper) -> bool:
    """Whether XLA is through with it, by its name."""
    return _SCHEDULED.search(paper.name) is not None


def ranked(found: Iterable[Candidate]) -> list[Candidate]:
    """The largest by FLOPs first, then by size; of several compiles of a module the largest."""
    found = list(found)
    largest = max((it.paper.size for it in found), default=0)
    weigh: Callable[[Candidate], tuple[float, int]] = partial(_weight, largest)
    best: dict[str, Candidate] = {}
    for candidate in sorted(found, key=weigh, reverse=True):
        best.setdefault(candidate.name, candidate)
    return list(best.values())


def _lowered(paper: Paper) -> Candidate | None:
    for pattern in _LOWERED:
        if found := pattern.fullmatch(paper.name):
            parts = found.groupdict()
            return Candidate(parts["name"], Form.MLIR, paper, parts.get("stem") or "")
    return None


def _dumped(paper: Paper) -> Candidate | None:
    found = _DUMPED.fullmatch(paper.name)
    if found is None:
        return None
    form = Form.HLO_TEXT if found[3] == "txt" else Form.HLO_PROTO
    return Candidate(found[2], form, paper, found[1])


def _weight(largest: int, candidate: Candidate) -> tuple[float, int]:
    size = candidate.paper.size
    if size < _SMALL * largest:
        return 0.0, size
    try:
        if candidate.form is Form.MLIR:
            return lowered_flops(as_text(candidate.paper.read(), candidate.paper.place)), size
        return hlo_flops(read_program(candidate.paper.read())), size
    except (InputError, UsageError):
        return 0.0, size  # said when it is chosen


def lowered_flops(data: bytes) -> float:
    """About the FLOPs of a module in StableHLO text, each loop counted once; 0 of bytecode.

    M*K, K*N and M*N are what the text has; the root of their product is M*N*K.
    """
    total = 0.0
    for found in _DOT.finditer(data):
        total += 2 * math.sqrt(math.prod(_elements(part) for part in found.groups()))
    return total


def _elements(shape: bytes) -> int:
    return math.prod(int(size) for size in shape.split(b"x") if size)


def hlo_flops(program: Program) -> float:
    """The FLOPs of what computes in a module, each loop counted once."""
    return sum(flops(program, it) or 0.0 for it in program.instructions if it.opcode in _WORK)


def counts(data: bytes) -> tuple[int, int]:
    """Replicas and partitions of a module in StableHLO text; 1 where it does not say."""
    found = dict(_COUNT.findall(data[:_HEAD]))
    return int(found.get(b"replicas", 1)), int(found.get(b"partitions", 1))


def symbol(data: bytes) -> str | None:
    """The name that a module in StableHLO text gives itself."""
    found = _SYMBOL.search(data[:_HEAD])
    return found[1].decode() if found else None
