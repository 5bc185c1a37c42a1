"""Collectives that nothing hides are bound by latency: they are small, and each waits for a start.

## What it does

Lists exposed collectives whose time is that of starting them and of the rounds among their ranks,
far from what the links could carry.

## Why it costs time

A collective of a few kilobytes takes as long as one of a megabyte. In a chain of small ones, each
needed before the next can start, the links are idle and so is the device.

## How it is detected

The rate that a transfer comes to, against what the target's links carry and against what latency
alone explains. Those that could be merged are STEP103.

## Example

```text
all-reduce.7   4 KiB among 64 devices, 48 us: 0.2 % of what the links carry
```

## Fix

Fewer of them: one all-reduce of stacked values (losses, norms, statistics) in place of several, and
once per step instead of once per layer or micro-batch. Smaller groups. On NVIDIA: NVLink SHARP
(`NCCL_NVLS_ENABLE`), which needs NVSwitch of Hopper or newer, and the low-latency protocols that
NCCL chooses unless `NCCL_PROTO` forbids them.

## Fix safety

Stacking does not change sums. Norms taken less often do.

## False alarms

A small collective that waits for a late device looks slow: waiting is taken off where the profile
holds all devices of a group, and can't be where it holds one.

## References

- https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html
- https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.core.basis import Range
from counterpoint.diagnose.advise import advise
from counterpoint.diagnose.case import Case, place_of
from counterpoint.diagnose.exposure.shares import LATENCY, shares_of
from counterpoint.diagnose.exposure.told import evidence, exposed_ms, kinds, removing
from counterpoint.diagnose.finding import Finding, Remedy

CODE: Final = LATENCY
NAME: Final = "latency-bound"
SINCE: Final = "0.1"

_NVLS: Final = "NCCL_NVLS_ENABLE"
_PROTOCOL: Final = "NCCL_PROTO"


def check(case: Case) -> Iterator[Finding]:
    """At most one, over all of them."""
    rows = case.ask(shares_of).of(CODE)
    if not rows:
        return
    saving = removing(case, rows)
    first = rows[0]
    times = sum(row["count"] for row in rows)
    yield Finding(
        code=CODE,
        title=(
            f"devices wait {exposed_ms(rows):,.2f} ms per step for {times:,.0f} small {kinds(rows)}"
        ),
        detail=f"{place_of(first)} holds up {first['own_ms']:,.2f} ms: {first['why']}",
        saves_ms=Range(0.0, saving.ms.high),
        basis=saving.basis,
        evidence=evidence(case, rows),
        remedy=_remedy(case),
        doubt=None
        if any(row["wait_ms"] is not None for row in rows) or case.basis == "predicted"
        else "waiting for late devices may be in it: the profile does not show who came when",
    )


def _remedy(case: Case) -> Remedy:
    told = "have fewer of them: stack values that are reduced alike, and once per step"
    given = case.context.environment or case.timeline.environment
    if given.get(_NVLS) == "0":
        told += f"; {_NVLS}=0 forbids the fast path within a host"
    if given.get(_PROTOCOL, "").lower() in ("simple", "^ll,ll128"):
        told += f"; {_PROTOCOL}={given[_PROTOCOL]} forbids the protocols for small ones"
    return advise(case, told)
