"""Loops are double-buffered or unrolled with little memory to spare.

## What it does

Checks double buffering and unrolling of loops together with settings that give the program nearly
all memory of the device, or let the scheduler use more than XLA's safety margin allows.

## Why it costs time

Double buffering keeps the buffers of two iterations of a `lax.scan`, mainly those of gathered
weights; unrolling the whole loop lets the scheduler move all layers' collectives, with all their
buffers. If that does not fit, XLA rematerializes, or the run fails out of memory; and NCCL, cuBLAS
and CUDA graphs lack the memory that JAX's pool holds.

## How it is detected

The rule looks for `XLA_CLIENT_MEM_FRACTION` (or its old name) of 0.95 and more, or
`xla_gpu_memory_limit_slop_factor` above its default of 95, together with
`xla_gpu_enable_while_loop_double_buffering`, or `xla_gpu_enable_while_loop_unrolling` that
double-buffers or unrolls. The program's own memory use is not considered.

## Example

```sh jaxlib=0.10.2 chip=H100
export XLA_CLIENT_MEM_FRACTION=0.98
export XLA_FLAGS="--xla_gpu_enable_while_loop_double_buffering=true
  --xla_gpu_enable_pipelined_all_gather=true"
```

## Fix

Compile once and compare the peak with the device's memory (`counterpoint explain`), or leave 5 to
10% free.

## Fix safety

Reported only: it may fit.

## References

- https://docs.jax.dev/en/latest/gpu_memory_allocation.html
- https://github.com/jax-ml/jax/issues/20763
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.flags.lint import (
    PIPELINED,
    LintContext,
    Remark,
    Severity,
    flag_on,
    pipelining,
    remark,
    threshold,
)
from counterpoint.flags.parsed import Occurrence

CODE: Final = "FLAG402"
NAME: Final = "loop-memory"
SINCE: Final = "0.1"

_DOUBLE: Final = "xla_gpu_enable_while_loop_double_buffering"
_UNROLL: Final = "xla_gpu_enable_while_loop_unrolling"
_SLOP: Final = "xla_gpu_memory_limit_slop_factor"
_FRACTIONS: Final = ("XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION")
_MUCH: Final = 0.95
_SLOP_DEFAULT: Final = 95


def check(case: LintContext) -> Iterator[Remark]:
    """Yield at most one remark, on the flag that doubles or unrolls."""
    given = _multiplied(case)
    tight = _tight(case)
    if given is None or tight is None:
        return
    pipelined = any(pipelining(case, kind) for kind in PIPELINED)
    what = (
        "keeps the buffers of several iterations"
        if given.name == _UNROLL
        else (
            "keeps the buffers of two iterations" + (", more with pipelining" if pipelined else "")
        )
    )
    yield remark(
        CODE,
        Severity.NOTE,
        given,
        f"it {what}, and {tight}",
        "compare the compiled peak with the device's memory, or leave more of it free",
    )


def _multiplied(case: LintContext) -> Occurrence | None:
    unrolled = case.flags.get(_UNROLL, "").upper()
    if unrolled.endswith(("DOUBLE_BUFFER", "FULL_UNROLL")):
        return case.last(_UNROLL)
    return case.last(_DOUBLE) if flag_on(case, _DOUBLE) else None


def _tight(case: LintContext) -> str | None:
    slop = threshold(case, _SLOP)
    if slop is not None and slop > _SLOP_DEFAULT:
        return f"{_SLOP}={slop} lets the scheduler use more memory than XLA's default"
    for name in _FRACTIONS:
        fraction = _number(case.variables.get(name, ""))
        if fraction is not None and _MUCH <= fraction <= 1:
            return f"{name}={case.variables[name]} leaves little memory for NCCL and CUDA"
    return None


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
