"""Collectives that nothing hides need more bandwidth than the links have.

## What it does

Lists exposed collectives whose bytes would not fit into the time they have, or that run at what
their links can carry.

## Why it costs time

No schedule hides a transfer that takes longer than all the work beside it.

## How it is detected

Bytes that one device sends, over the slack (the time until the result is needed) and over the
transfer's own time, against what the target's links carry: `--target` or the chip in the profile
tells that. A transfer near that rate is bound by it. In a prediction the rate is the one that the
cost model put in and proves nothing: there the rule speaks only of links that are in use for 90 %
of the step.

## Example

```text
reduce-scatter-start.3   1.9 GB in 9.6 ms of slack needs 198 GB/s; 8 x 400 Gb/s give 50 per device
```

## Fix

Fewer bytes: gradients and gathered weights in bfloat16 or float8, sharding in which less crosses
the slow links (FSDP within hosts, data parallel across), sums over several micro-batches before
they are sent. More bandwidth: all NICs in use, GPUDirect RDMA, SHARP. More work per byte: a larger
batch per device.

## Fix safety

Smaller types and larger batches change numbers; sharding changes memory.

## False alarms

The capacity is that of the target as it was told: with fewer NICs, or another job on the network,
the links are slower than that, and the rule silent.

## References

- https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md
- https://jax-ml.github.io/scaling-book/training/
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.diagnose.exposure.causes import (
    BANDWIDTH,
    evidence,
    exposed_ms,
    kinds,
    lessening,
    shares_of,
)
from counterpoint.diagnose.finding import Finding
from counterpoint.diagnose.machines import advise
from counterpoint.diagnose.step_data import StepData, place_of

CODE: Final = BANDWIDTH
NAME: Final = "bandwidth-bound"
SINCE: Final = "0.1"

_HALF: Final = 0.5
"""The bytes saved by a type of half the width."""


def check(case: StepData) -> Iterator[Finding]:
    """Yield at most one finding, for all of them."""
    rows = case.ask(shares_of).of(CODE)
    if not rows:
        return
    saving = lessening(case, rows, _HALF)
    first = rows[0]
    yield Finding(
        code=CODE,
        title=f"devices wait {exposed_ms(rows):,.2f} ms per step for the bytes of {kinds(rows)}",
        detail=(
            f"{place_of(first)} holds up {first['own_ms']:,.2f} ms: {first['why']}. Half the bytes"
            " would save at most half of it, or more where the rest is hidden then"
        ),
        saves_ms=saving.ms,
        basis=saving.basis,
        evidence=evidence(case, rows),
        remedy=advise(
            case,
            "send fewer bytes (bfloat16 or float8 gradients and gathers, sums over several"
            " micro-batches), keep them on fast links (FSDP within hosts, data parallel across), or"
            " compute more per byte with a larger batch",
        ),
        doubt=None,
    )
