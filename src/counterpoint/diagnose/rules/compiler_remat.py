"""XLA recomputes results because the step would not fit into memory.

## What it does

Reports which instructions XLA's own rematerialization repeats, what that costs, and whether XLA
missed its memory limit.

## Why it costs time

Near the memory limit XLA clones instructions to free their results, ordered by memory alone: it
considers neither their cost nor the communication they depend on. A single buffer can cross the
limit, so a small change of the model, or of a flag, can cost several percent.

## How it is detected

Clones have `.remat` in their names. In a Run, XLA's warning "Can't reduce memory use below" shows
that rematerialization did not suffice. If the profile holds the HLO, the simulator computes the
gain without the clones.

## Example

```text
Can't reduce memory use below 51.28GiB by rematerialization; only reduced to 61.92GiB
```

## Fix

Give XLA more memory (`XLA_CLIENT_MEM_FRACTION=0.92` instead of 0.75, GPU), or use less:
donate the state, set a checkpoint policy, use a smaller batch per device or more sharding.

## Fix safety

A larger share leaves less for NCCL, cuBLAS and CUDA graphs: leave 5 to 10% of the device.

## False alarms

Clones of cheap instructions cost nothing; then the figure is small.

## References

- https://github.com/openxla/xla/blob/main/xla/hlo/transforms/simplifiers/hlo_rematerialization.cc
- https://docs.jax.dev/en/latest/gpu_memory_allocation.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import polars as pl

from counterpoint.core import Range, Unknown
from counterpoint.core.printable import counted_noun
from counterpoint.diagnose.environment import advise
from counterpoint.diagnose.executed_ops import (
    executed_rows,
    gain_without,
    rows_as_evidence,
)
from counterpoint.diagnose.finding import Evidence, Finding, Remedy, ms_text
from counterpoint.diagnose.memory import by_compiler, original
from counterpoint.diagnose.step_data import StepData, place_of

CODE: Final = "STEP402"
NAME: Final = "compiler-remat"
SINCE: Final = "0.1"

_GAVE_UP: Final = re.compile(r"Can't reduce memory use below (?P<wanted>\S+) .*?to (?P<got>\S+)")
_MORE: Final = "0.92"
"""Share of the device's memory; the rest is for NCCL, cuBLAS and CUDA graphs."""


def check(data: StepData) -> Iterator[Finding]:
    """Yield at most one finding: clones that ran, or else the compiler's warning."""
    rows, warning = by_compiler(data), _warning(data)
    if len(rows):
        yield _of_clones(data, rows, warning)
    elif warning:
        yield Finding(
            code=CODE,
            title="XLA could not reduce the step to its memory limit",
            detail=f"{warning}: the step may run out of memory, and its schedule minimizes memory",
            saves_ms=Unknown("no instruction in this profile was repeated"),
            basis=data.basis,
            evidence=(Evidence(what=warning, ms=None),),
            remedy=_remedy(data),
        )


def _of_clones(data: StepData, rows: pl.DataFrame, warning: str | None) -> Finding:
    total = float(rows["ms"].sum())
    known = list(executed_rows(data, rows))
    saves, basis = gain_without(data, known, total) if known else (Range(0.0, total), data.basis)
    first = rows.row(0, named=True)
    suffix = f". {warning}" if warning else ""
    return Finding(
        code=CODE,
        title=f"XLA recomputes results to save memory: {ms_text(total)} per step",
        detail=(
            f"{counted_noun(len(rows), 'clone')} made by its rematerialization; the longest is"
            f" {place_of(first)} of {original(first)}, {ms_text(first['ms'])}{suffix}"
        ),
        saves_ms=saves,
        basis=basis,
        evidence=rows_as_evidence(data, rows.iter_rows(named=True)),
        remedy=_remedy(data),
    )


def _warning(data: StepData) -> str | None:
    """Return XLA's last warning in the logs of the Run's ranks."""
    run = data.context.run
    lines = (line.text for rank in run.ranks for line in rank.compiler_lines) if run else ()
    warnings = [match for line in lines if (match := _GAVE_UP.search(line))]
    if not warnings:
        return None
    return f"XLA's limit was {warnings[-1]['wanted']}, and it reached {warnings[-1]['got']}"


def _remedy(data: StepData) -> Remedy:
    """Advise more memory for XLA on GPUs with the default share, otherwise lower use."""
    from counterpoint.compile.allocator import MEMORY_VARIABLES
    from counterpoint.runs.reports import variables_of

    advice = "donate the state, set a checkpoint policy, or give each device less"
    kinds = {device.kind for device in data.timeline.devices}
    run = data.context.run
    known = dict(data.context.environment or {}) | (variables_of(run) if run else {})
    if kinds != {"gpu"} or any(known.get(name) for name in MEMORY_VARIABLES):
        return advise(data, advice)
    return Remedy(
        f"give XLA more of the device's memory than the default 75%, or {advice}",
        environment=(("XLA_PYTHON_CLIENT_MEM_FRACTION", _MORE),),
    )
