"""Candidates: the modules among a run's files that may be its step, the largest first.

A module is recognized by the names that JAX and XLA give their files, and ranked by its FLOPs.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Final

from counterpoint.compile.inputs.artifacts import Artifact
from counterpoint.compile.inputs.bytecode import as_text
from counterpoint.compile.job import ProgramForm
from counterpoint.core import InputError, UsageError
from counterpoint.hlo.model.program import Program
from counterpoint.hlo.reader import read_program
from counterpoint.hlo.work import flops

_LOWERED_NAMES: Final = (
    re.compile(r"jax_ir\d+_(?P<name>.+)_compile\.mlir"),  # JAX_DUMP_IR_TO
    re.compile(r"(?P<stem>module_\d+\.(?P<name>.+))/module\.mlir"),  # --xla_dump_to, since 0.9
    re.compile(r"(?!module_\d)(?!jax_ir\d)(?P<name>.+)\.(?:mlir|mlirbc|stablehlo)"),
)
_DUMPED: Final = re.compile(r"(module_\d+\.(.+?)(?:\.\d+)?)\.before_optimizations\.(hlo\.pb|txt)$")
_SCHEDULED: Final = re.compile(r"after_optimizations\.(hlo\.pb|txt)$")
_SYMBOL: Final = re.compile(rb'(?m)^[^\S\n]*+(?:builtin\.)?module @"?([\w.$<>-]+)"?')
_COUNT: Final = re.compile(rb"mhlo\.num_(replicas|partitions) = (\d{1,9})\b")
_HEAD: Final = 1 << 20
_DOT: Final = re.compile(
    rb"stablehlo\.(?:dot_general|convolution)\b[^\n]*: \(tensor<((?:\d{1,18}x){0,32})[a-z]\w*>, "
    rb"tensor<((?:\d{1,18}x){0,32})[a-z]\w*>\) -> tensor<((?:\d{1,18}x){0,32})[a-z]\w*>"
)
_WORK: Final = ("dot", "convolution", "custom-call")
_SMALL: Final = 0.02  # of the largest: too small to be the step, so its FLOPs are not counted


@dataclass(frozen=True, slots=True)
class CandidateModule:
    """A module that may be the step. `stem` is the common prefix of one compile's files."""

    name: str
    form: ProgramForm
    artifact: Artifact
    stem: str = ""


def candidates(artifacts: Iterable[Artifact]) -> list[CandidateModule]:
    """Return the modules among these files, as they were before XLA's passes.

    A module that JAX lowered is preferred to XLA's dump of it: it is the same program, but closer
    to what was compiled.
    """
    files = list(artifacts)
    lowered = [candidate for artifact in files if (candidate := _lowered(artifact))]
    return lowered or [candidate for artifact in files if (candidate := _dumped(artifact))]


def scheduled_places(artifacts: Iterable[Artifact]) -> list[str]:
    """Return the locations of modules after XLA's passes, which can't be compiled again."""
    return [artifact.place for artifact in artifacts if is_scheduled(artifact)]


def is_scheduled(artifact: Artifact) -> bool:
    """Return whether it is a module after XLA's passes, by its name."""
    return _SCHEDULED.search(artifact.name) is not None


def ranked(modules: Iterable[CandidateModule]) -> list[CandidateModule]:
    """Return the largest by FLOPs first, then by size; one compile per module."""
    modules = list(modules)
    largest = max((candidate.artifact.size for candidate in modules), default=0)
    weigh: Callable[[CandidateModule], tuple[float, int]] = partial(_weight, largest)
    best: dict[str, CandidateModule] = {}
    for candidate in sorted(modules, key=weigh, reverse=True):
        best.setdefault(candidate.name, candidate)
    return list(best.values())


def _lowered(artifact: Artifact) -> CandidateModule | None:
    for pattern in _LOWERED_NAMES:
        if match := pattern.fullmatch(artifact.name):
            parts = match.groupdict()
            return CandidateModule(
                parts["name"], ProgramForm.MLIR, artifact, parts.get("stem") or ""
            )
    return None


def _dumped(artifact: Artifact) -> CandidateModule | None:
    match = _DUMPED.fullmatch(artifact.name)
    if match is None:
        return None
    form = ProgramForm.HLO_TEXT if match[3] == "txt" else ProgramForm.HLO_PROTO
    return CandidateModule(match[2], form, artifact, match[1])


def _weight(largest: int, candidate: CandidateModule) -> tuple[float, int]:
    size = candidate.artifact.size
    if size < _SMALL * largest:
        return 0.0, size
    try:
        if candidate.form is ProgramForm.MLIR:
            return lowered_flops(as_text(candidate.artifact.read(), candidate.artifact.place)), size
        return hlo_flops(read_program(candidate.artifact.read())), size
    except (InputError, UsageError):
        return 0.0, size  # reported if it is chosen


def lowered_flops(data: bytes) -> float:
    """Estimate the FLOPs of a module in StableHLO text, each loop counted once; 0 for bytecode.

    The text gives the sizes of operands and result, M*K, K*N and M*N: the root of their product is
    M*N*K.
    """
    total = 0.0
    for match in _DOT.finditer(data):
        total += 2 * math.sqrt(math.prod(_elements(part) for part in match.groups()))
    return total


def _elements(shape: bytes) -> float:
    return math.prod(float(size) for size in shape.split(b"x") if size)


def hlo_flops(program: Program) -> float:
    """Return the FLOPs of a module's computing instructions, each loop counted once."""
    return sum(
        flops(program, instruction) or 0.0
        for instruction in program.instructions
        if instruction.opcode in _WORK
    )


def counts(data: bytes) -> tuple[int, int]:
    """Return replicas and partitions of a module in StableHLO text; 1 if not specified."""
    by_name = dict(_COUNT.findall(data[:_HEAD]))
    return int(by_name.get(b"replicas", 1)), int(by_name.get(b"partitions", 1))


def symbol(data: bytes) -> str | None:
    """Return the name of a module in StableHLO text."""
    match = _SYMBOL.search(data[:_HEAD])
    return match[1].decode() if match else None
