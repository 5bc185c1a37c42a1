"""A single operation that the estimator has no model of stops the scheduler for the module.

## What it does

If the scheduler runs only because XLA can estimate the whole program (Hopper and Blackwell, since
jaxlib {+scheduler-by-default}), looks for settings about operations that it can't estimate.

## Why it costs time

A single ragged-all-to-all (mixture of experts), collective-broadcast or computation on the host
makes XLA skip the scheduler for the whole module: all of its collectives are exposed. The compilers
of all releases with the scheduler on by default do so for each of the three, and before
{-permute-stops-scheduler} for a collective-permute, too. Send and recv of a pipeline, and arrays
that are moved to the host's memory, don't stop it.

## How it is detected

Settings can only hint at it: flags about ragged-all-to-all. Whether the program has such an
operation is known after it is compiled (`counterpoint explain`, or a dump).

## Example

```sh jaxlib=0.10.2 chip=H100
export XLA_FLAGS=--xla_gpu_unsupported_enable_ragged_all_to_all_decomposer=true
```

## Fix

Add `--xla_gpu_enable_latency_hiding_scheduler=true`: the scheduler then runs for every program.

## Fix safety

It changes the schedule of programs that have such an operation, and costs memory there; reported
only.

## References

- https://github.com/openxla/xla/blob/main/xla/service/gpu/model/sol_latency_estimator.cc
- https://github.com/openxla/xla/blob/main/xla/service/gpu/gpu_hlo_schedule.cc
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.flags.lint import (
    Fix,
    LintContext,
    Remark,
    Severity,
    flag_off,
    flag_on,
    has_profile,
    remark,
)
from counterpoint.flags.observed import with_releases
from counterpoint.flags.versions import LHS, SOL, chip_family, lhs_flag_needed

__doc__ = with_releases(__doc__ or "")

CODE: Final = "FLAG404"
NAME: Final = "unmodeled-collectives"
SINCE: Final = "0.1"

_HINT: Final = "ragged_all_to_all"


def check(case: LintContext) -> Iterator[Remark]:
    """Yield at most one remark, on the first flag that suggests such a collective."""
    if chip_family(case.chip) is None or lhs_flag_needed(case.release.asked, case.chip):
        return
    if LHS in case.flags or flag_off(case, SOL) or has_profile(case):
        return
    for given in case.xla:
        if _HINT in given.name and flag_on(case, given.name):
            yield remark(
                CODE,
                Severity.NOTE,
                given,
                "if the program has a ragged-all-to-all, the scheduler does not run by default for"
                " any of the module's collectives",
                f"add --{LHS}=true",
                Fix(safe=False),
            )
            return
