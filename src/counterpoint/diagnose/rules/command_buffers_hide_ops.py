"""Command buffers hide which instruction a kernel belongs to.

## What it does

Says how much of a step's time is in kernels of CUDA graphs that name no instruction.

## Why it costs time

It costs none: a CUDA graph launches faster. But nobody can tell what such a kernel computes, where
in the code it comes from, or which collective it waits for. Findings are about the rest of the
step, and a PGLE profile made of it lacks those costs.

## How it is detected

By kernels without an instruction on lines that a GPU computes on, in a profile in which some ran
inside of CUDA graphs and name none. Where XLA runs such a graph's kernels one by one because it is
profiled, all have names and the rule is silent.

## Example

```sh
export XLA_FLAGS=--xla_enable_command_buffers_during_profiling=true
```

## Fix

For the profiled run only: `--xla_gpu_enable_command_buffer=` (nothing). JAX's own profiler ends
command buffers by itself where `xla_enable_command_buffers_during_profiling` exists and was not set
to true; Nsight Systems does not.

## Fix safety

Results stay the same. Steps may be longer in this run: don't compare its times with others.

## False alarms

Kernels that no XLA module launches (memory initialisation, other libraries) have no instruction
either; they count only in profiles that hold graphs.

## References

- https://github.com/openxla/xla/blob/main/xla/backends/gpu/runtime/command_buffer_thunk.cc
- https://github.com/openxla/xla/blob/main/xla/backends/profiler/gpu/cupti_collector.cc
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import polars as pl

from counterpoint.core import Unknown
from counterpoint.diagnose.finding import Finding
from counterpoint.diagnose.machines import advise
from counterpoint.diagnose.recomputed import rows_as_evidence
from counterpoint.diagnose.step_data import StepData
from counterpoint.timeline import Lane
from counterpoint.timeline.tables import IN_GRAPHS

CODE: Final = "STEP601"
NAME: Final = "command-buffers-hide-ops"
SINCE: Final = "0.1"

_LEAST_SHARE: Final = 0.02
"""Minimum share of the step: below it, other findings remain valid."""


def check(case: StepData) -> Iterator[Finding]:
    """Yield at most one finding."""
    if not any(IN_GRAPHS in note for note in case.timeline.notes) or not case.step_ms:
        return
    named = case.timeline.ops.filter(pl.col("op").is_not_null()).select("program", "op").unique()
    hidden = case.ops.filter(pl.col("lane") != Lane.CONTROL).join(
        named, on=["program", "op"], how="anti", nulls_equal=True
    )
    total = float(hidden["self_ms"].sum())
    if total <= _LEAST_SHARE * case.step_ms:
        return
    yield Finding(
        code=CODE,
        title=f"{total:,.2f} ms per step are in kernels of CUDA graphs that name no instruction",
        detail=(
            f"{total / case.step_ms:.0%} of the step can't be laid at any line's door: not in the"
            " tables of ops, not in these findings, not in a PGLE profile"
        ),
        saves_ms=Unknown("it hides time, it costs none"),
        basis=case.basis,
        evidence=rows_as_evidence(case, hidden.iter_rows(named=True)),
        remedy=advise(
            case,
            "profile once more without command buffers, and run without this flag otherwise",
            {"xla_gpu_enable_command_buffer": ""},
        ),
    )
