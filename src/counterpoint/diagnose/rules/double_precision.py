"""The program computes in float64.

## What it does

Measures the time of ops that compute float64 (or complex128), and names where it comes from: the
arguments that are float64, or the line at which other numbers become float64.

## Why it costs time

An element takes twice the memory, and arithmetic is slower: at half the rate on a CPU's vector
units and on GPUs for data centers, at 1/32 to 1/64 of it on other GPUs. TPUs have no float64 units
at all. One NumPy constant or array of float64 is enough: with `jax_enable_x64`, what it meets
becomes float64, too.

## How it is detected

The rule reads the types of results and operands in the HLO, also inside fusions. Where the same
program multiplies float32 as well, and faster, products could reach that rate; for others half the
time is saved at least if memory is the limit, and at most all of it. Copies and collectives are not
counted. Kernels without HLO are STEP501's.

## Example

```python
jax.config.update("jax_enable_x64", True)
x = x * np.linspace(0.0, 1.0, 1024)     # float64, and so is what depends on it
```

## Fix

Leave `jax_enable_x64` off, or give constants and arrays a type: `np.float32(...)`,
`jnp.asarray(x, jnp.float32)`. `jax_numpy_dtype_promotion="strict"` raises an error where types
meet.

## Fix safety

Numbers change: float32 has 7 digits instead of 16.

## False alarms

Solvers, simulations and statistics may need float64.

## References

- https://docs.jax.dev/en/latest/default_dtypes.html
- https://docs.jax.dev/en/latest/jep/9407-type-promotion.html
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import polars as pl

from counterpoint.core import Basis, Range
from counterpoint.core.printable import counted_noun, some
from counterpoint.diagnose.environment import advise, on_virtual_devices
from counterpoint.diagnose.executed_ops import ExecutedOp, evidence_of, executed_ops
from counterpoint.diagnose.finding import Finding, ms_text
from counterpoint.diagnose.step_data import StepData, place_of
from counterpoint.hlo.model.instruction import Instruction
from counterpoint.hlo.model.program import Program
from counterpoint.hlo.provenance import provenance
from counterpoint.timeline.model import Lane

CODE: Final = "STEP508"
NAME: Final = "double-precision"
SINCE: Final = "0.1"

_LEAST_SHARE: Final = 0.001
"""Minimum share of the step for one op: many small ones add up."""
_LEAST_TOTAL: Final = 0.02
_WIDE: Final = ("f64", "c128")
_FLOATS: Final = ("f32", "bf16", "f16", *_WIDE)
_NAMED: Final = 3
_ON_CPU: Final = 2 / 3
"""Twice as many float32 fit into a register and a cache line; some functions gain a little more."""
_COMPUTES: Final = (pl.col("lane") == Lane.COMPUTE) & (pl.col("share") > _LEAST_SHARE)


def check(data: StepData) -> Iterator[Finding]:
    """Yield at most one finding, for all ops."""
    ran = list(executed_ops(data, _COMPUTES))
    wide = [op for op in ran if _is_wide(op)]
    total = sum(op.ms for op in wide)
    if not wide or total <= _LEAST_TOTAL * data.step_ms:
        return
    saves = _saves(ran, wide, _ON_CPU if on_virtual_devices(data.timeline) else 1.0)
    yield Finding(
        code=CODE,
        title=f"ops in float64 take {ms_text(total)} per step",
        detail=(
            f"{counted_noun(len(wide), 'op')}; the longest is {place_of(wide[0].row)},"
            f" {ms_text(wide[0].ms)} per step. float64 comes from {_origins(wide)}"
        ),
        saves_ms=saves,
        takes_ms=total,
        basis=Basis.RULE_OF_THUMB,
        evidence=evidence_of(data, wide),
        remedy=advise(
            data,
            "leave jax_enable_x64 off, or give these a type: np.float32(...), jnp.asarray(x,"
            ' jnp.float32); jax.config.update("jax_numpy_dtype_promotion", "strict") finds where'
            " types meet",
        ),
        doubt="float64 may be intended, for a solver or statistics",
    )


def _is_wide(op: ExecutedOp) -> bool:
    """Return whether most bytes that it computes are float64: sums of float32 may be wide."""
    program, instruction = op.program, op.instruction
    body = program.body(instruction) if instruction.opcode == "fusion" else ()
    values = [instruction.shape, *(operand.shape for operand in program.operands(instruction))]
    values += [member.shape for member in body if member.opcode != "parameter"]
    sizes = [(leaf.dtype, leaf.bytes) for value in values for leaf in value.leaves]
    floats = sum(size for dtype, size in sizes if dtype in _FLOATS)
    return 2 * sum(size for dtype, size in sizes if dtype in _WIDE) > floats


def _saves(ran: Sequence[ExecutedOp], wide: Sequence[ExecutedOp], most: float) -> Range:
    """Return what float32 would save: of products by the rate of those in this profile, if any.

    Of others it is at most this share of their time.
    """
    wide_rows = {(op.row["program"], op.row["op"]) for op in wide}
    narrow = [op for op in ran if (op.row["program"], op.row["op"]) not in wide_rows]
    best = max((_rate(op) for op in narrow), default=0.0)
    high = 0.0
    for op in wide:
        rate = _rate(op)
        high += op.ms * (1 - rate / best if 0 < rate < best else most)
    return Range(0.0, high)


def _rate(op: ExecutedOp) -> float:
    """Return the FLOP/ms of a product; 0 for others, or if they are not known."""
    product = op.row["category"] == "matmul"
    return (op.row["flops"] or 0.0) / op.once_ms if product and op.once_ms else 0.0


def _origins(wide: Sequence[ExecutedOp]) -> str:
    """Return where float64 enters the programs."""
    programs = {id(op.program): op.program for op in wide}.values()
    arguments = dict.fromkeys(
        name for program in programs for name in _arguments(program) if name is not None
    )
    if arguments:
        noun = "argument" if len(arguments) == 1 else "arguments"
        return f"the {noun} {some(list(arguments), _NAMED)}"
    lines = dict.fromkeys(line for program in programs for line in _conversions(program))
    if lines:
        return f"a conversion at {some(list(lines), _NAMED)}"
    return "constants of the program"


def _arguments(program: Program) -> Iterator[str | None]:
    for instruction in program.computations[program.entry].instructions:
        if instruction.opcode == "parameter" and _makes(instruction):
            yield instruction.op_name or f"number {instruction.parameter_number}"


def _conversions(program: Program) -> Iterator[str]:
    for instruction in program.instructions:
        if instruction.opcode == "convert" and _makes(instruction):
            source = next(iter(program.operands(instruction)), None)
            line = provenance(program, instruction).source
            if source is not None and not _makes(source) and line is not None:
                yield line


def _makes(instruction: Instruction) -> bool:
    return any(leaf.dtype in _WIDE for leaf in instruction.shape.leaves)
