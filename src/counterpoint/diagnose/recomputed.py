"""The instructions behind rows of the op profile, and which of them recompute or reorder data."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final

import polars as pl

from counterpoint.core import Basis, Range
from counterpoint.diagnose.collectives.collectives import collective_profile
from counterpoint.diagnose.finding import Evidence
from counterpoint.diagnose.savings import savings_of
from counterpoint.diagnose.step_data import StepData, place_of
from counterpoint.hlo import Instruction, Program, Shape
from counterpoint.hlo.model import launches
from counterpoint.hlo.origin import Phase

_CLONE: Final = r"\.remat\d*(_(un)?compressed)?(\.\d+)*$"


def by_request(case: StepData) -> pl.DataFrame:
    """Return rows of `StepData.ops` that repeat the forward pass; `ms` is their exposed time.

    JAX marks what `jax.checkpoint` recomputes with `rematted_computation`.
    """
    rows = case.ops.filter((pl.col("phase") == Phase.REMAT) & ~pl.col("op").str.contains(_CLONE))
    return _with_ms(case, rows)


def by_compiler(case: StepData) -> pl.DataFrame:
    """Return rows of `StepData.ops` that XLA cloned from others to save memory.

    XLA's pass clones instructions with the suffix `.remat`
    (xla/hlo/transforms/simplifiers/hlo_rematerialization.cc).
    """
    return _with_ms(case, case.ops.filter(pl.col("op").str.contains(_CLONE)))


def original(row: dict[str, Any]) -> str:
    """Return the name of the op that a clone was made from."""
    return re.sub(_CLONE, "", str(row["op"]))


def _with_ms(case: StepData, rows: pl.DataFrame) -> pl.DataFrame:
    """Add `ms`, the exposed time of collectives and the self time of other ops; largest first."""
    exposed = case.ask(collective_profile).select("program", "op", "exposed_ms")
    return (
        rows.join(exposed, on=["program", "op"], how="left", nulls_equal=True)
        .with_columns(ms=pl.coalesce("exposed_ms", "self_ms"))
        .drop("exposed_ms")
        .filter(pl.col("ms") > 0)
        .sort("ms", "op", descending=[True, False])
    )


_VIEW_WORDS: Final = "parameter constant bitcast reshape tuple get-tuple-element copy transpose"
_VIEWS: Final = frozenset(_VIEW_WORDS.split())


def moves_only(program: Program, instruction: Instruction) -> bool:
    """Return whether the instruction only writes its operand in another order.

    A copy into the same order is not counted: it has another reason (a buffer that must not change,
    a loop's state, another memory). Neither is a fusion that also converts or computes: it would
    run anyway.
    """
    inside = program.body(instruction) if instruction.opcode == "fusion" else (instruction,)
    if not inside or any(body_instruction.opcode not in _VIEWS for body_instruction in inside):
        return False
    return any(_reorders(program, body_instruction) for body_instruction in inside)


def _reorders(program: Program, it: Instruction) -> bool:
    sources = program.operands(it)
    if it.opcode not in ("copy", "transpose") or not sources:
        return False
    source, result = sources[0].shape, it.shape
    if it.opcode == "copy":
        return _order(source) != _order(result)
    # Dimension d of the result is dimensions[d] of the operand; compare both orders in the
    # operand's dimensions.
    as_source = [it.dimensions[dim] for dim in _order(result) if dim < len(it.dimensions)]
    return as_source != _order(source)


def _order(shape: Shape) -> list[int]:
    """Return dimensions longer than one, fastest first; without a layout, the default order."""
    order = shape.minor_to_major or tuple(reversed(range(len(shape.dims))))
    return [dim for dim in order if dim < len(shape.dims) and shape.dims[dim] > 1]


_TYPES: Final = (
    (re.compile(r"[bh]f?16|fp16|f16f16|bf16|e4m3|e5m2|s8|i8"), None),
    (re.compile(r"d884|(?<![a-z])dgemm|f64f64|simt_d"), "f64"),
    (re.compile(r"tf32|s1688gemm"), "tf32"),
    (re.compile(r"ffma|(?<![a-z])sgemm|gemm_f32f32_f32f32|simt_s"), "f32"),
)
"""The first match wins: a name with a narrow type is not searched further."""


def multiplied_as(kernel: str) -> str | None:
    """Return the type a kernel multiplies in: `f64`, `f32`, `tf32`, or None.

    This is read from the kernel names of cuBLAS and CUTLASS: `ampere_sgemm_128x64_tn` and
    `..._ffma_...` multiply float32 on the scalar units, `tf32` and `s1688gemm` TF32 on the matrix
    units, `d884gemm` and `dgemm` float64. None means an unknown or a 16-bit or narrower type.
    """
    name = kernel.lower()
    return next((kind for mark, kind in _TYPES if mark.search(name)), None)


_SHOWN: Final = 5
_DEEPEST: Final = 32
_THROUGH: Final = ("bitcast", "get-tuple-element", "tuple", "opt-barrier", "optimization-barrier")


@dataclass(frozen=True, slots=True, eq=False)
class ExecutedOp:
    """An instruction that ran, and its row of `StepData.ops`."""

    row: dict[str, Any]
    program: Program
    instruction: Instruction

    @property
    def ms(self) -> float:
        """Its self time in a median step."""
        return float(self.row["self_ms"])

    @property
    def once_ms(self) -> float:
        """Time of one execution; an op that runs only in some steps counts as one per step."""
        return self.ms / max(float(self.row["count"]), 1.0)


def executed_ops(case: StepData, of: pl.Expr) -> Iterator[ExecutedOp]:
    """Yield the rows of the op profile that match `of`, longest first."""
    return executed_rows(case, case.ops.filter(of))


def executed_rows(case: StepData, rows: pl.DataFrame) -> Iterator[ExecutedOp]:
    """Yield the rows of the op profile whose instruction is known, in their order."""
    for row in rows.filter(pl.col("program").is_not_null()).iter_rows(named=True):
        index: int = row["program"]
        program = case.timeline.programs[index].hlo()
        instruction = program.instruction(row["op"]) if program is not None else None
        if program is not None and instruction is not None:
            yield ExecutedOp(row, program, instruction)


def evidence_of(case: StepData, found: Iterable[ExecutedOp]) -> tuple[Evidence, ...]:
    """Return the first few as evidence with their source lines."""
    return rows_as_evidence(case, (entry.row for entry in found))


def rows_as_evidence(case: StepData, rows: Iterable[dict[str, Any]]) -> tuple[Evidence, ...]:
    """Return the first few rows of `StepData.ops` as evidence with their source lines."""
    return tuple(
        replace(case.evidence(row, "self_ms"), what=place_of(row)) for row in islice(rows, _SHOWN)
    )


def with_noun(number: int, noun: str) -> str:
    """Return a count with its noun: `1 kernel`, `2 kernels`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def readers(program: Program, instruction: Instruction) -> Iterator[tuple[Instruction, int]]:
    """Yield the work that reads a value, with the bytes of the value or of the part it is given.

    Follows tuples and views, which cost nothing, but not loops.
    """
    front, seen = [instruction], {instruction.name}
    while front:
        value = front.pop()
        for user in program.users(value):
            if user.opcode in _THROUGH and user.name not in seen:
                seen.add(user.name)
                front.append(user)
            elif launches(user) and not value.shape.is_tuple:
                yield user, value.shape.bytes


def writer_of(program: Program, instruction: Instruction) -> Instruction | None:
    """Return the work, or the parameter, whose value an instruction reads first."""
    seen = instruction
    for _ in range(_DEEPEST):
        sources = program.operands(seen)
        if not sources:
            return None
        seen = sources[0]
        if seen.opcode not in _THROUGH:
            return seen
    return None


def gain_without(case: StepData, found: Iterable[ExecutedOp], most: float) -> tuple[Range, Basis]:
    """Return the gain without these instructions: simulated if possible, else at most `most`."""
    step = case.timeline.step_program
    names = [entry.instruction.name for entry in found if entry.row["program"] == step]
    gain = case.ask(savings_of).without(names) if names else None
    if gain is None:
        return Range(0.0, most), case.basis
    return Range(min(gain.low, most), min(gain.high, most)), Basis.PREDICTED
