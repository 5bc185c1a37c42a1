"""Command buffers hide which instruction a kernel belongs to.

## What it does

Reports how much of a step is spent in kernels of CUDA graphs without an instruction name.

## Why it costs time

It costs no time: a CUDA graph launches faster. But the purpose of such a kernel, its source line,
and the collective it waits for are unknown. Findings cover the rest of the step only, and a PGLE
profile made from this recording lacks those costs.

## How it is detected

The rule looks for kernels without an instruction on compute lines of a GPU, in a profile in which
some kernels ran in CUDA graphs without names. If XLA runs the kernels of a graph one by one because
it is profiled, all have names and the rule is silent.

## Example

```sh
export XLA_FLAGS=--xla_enable_command_buffers_during_profiling=true
```

## Fix

For the profiled run only: `--xla_gpu_enable_command_buffer=` (empty). JAX's own profiler ends
command buffers itself if `xla_enable_command_buffers_during_profiling` exists and was not set to
true; Nsight Systems does not.

## Fix safety

Results stay the same. Steps may be longer in this run: don't compare its times with others.

## False alarms

Kernels that no XLA module launches (memory initialization, other libraries) have no instruction
either; they count only in profiles with graphs.

## References

- https://github.com/openxla/xla/blob/main/xla/backends/gpu/runtime/command_buffer_thunk.cc
- https://github.com/openxla/xla/blob/main/xla/backends/profiler/gpu/cupti_collector.cc
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import polars as pl

from counterpoint.core import Unknown
from counterpoint.diagnose.environment import advise
from counterpoint.diagnose.executed_ops import rows_as_evidence
from counterpoint.diagnose.finding import Finding, ms_text
from counterpoint.diagnose.step_data import StepData
from counterpoint.timeline.model import Lane
from counterpoint.timeline.recording import IN_GRAPHS

CODE: Final = "STEP601"
NAME: Final = "command-buffers-hide-ops"
SINCE: Final = "0.1"

_LEAST_SHARE: Final = 0.02
"""Minimum share of the step: below it, other findings remain valid."""


def check(data: StepData) -> Iterator[Finding]:
    """Yield at most one finding."""
    if not any(IN_GRAPHS in note for note in data.timeline.notes) or not data.step_ms:
        return
    named = data.timeline.ops.filter(pl.col("op").is_not_null()).select("program", "op").unique()
    hidden = data.ops.filter(pl.col("lane") != Lane.CONTROL).join(
        named, on=["program", "op"], how="anti", nulls_equal=True
    )
    total = float(hidden["self_ms"].sum())
    if total <= _LEAST_SHARE * data.step_ms:
        return
    yield Finding(
        code=CODE,
        title=f"kernels of CUDA graphs without instruction names take {ms_text(total)} per step",
        detail=(
            f"{total / data.step_ms:.0%} of the step has no source line in the tables of ops, in"
            " these findings, or in a PGLE profile"
        ),
        saves_ms=Unknown("it hides information and costs no time"),
        basis=data.basis,
        evidence=rows_as_evidence(data, hidden.iter_rows(named=True)),
        remedy=advise(
            data,
            "profile again without command buffers; use this flag for the profiled run only",
            {"xla_gpu_enable_command_buffer": ""},
        ),
    )
