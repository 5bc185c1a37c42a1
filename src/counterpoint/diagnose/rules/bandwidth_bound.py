"""Exposed collectives need more bandwidth than the links have.

## What it does

Lists exposed collectives whose bytes don't fit into the available time, or that run at the rate of
their links.

## Why it costs time

No schedule can hide a transfer that takes longer than all the work that could overlap it.

## How it is detected

The bytes that one device sends are divided by the slack (the time until the result is needed) and
by the time of the transfer. Both rates are compared with the capacity of the links, from `--target`
or the chip in the profile. A transfer near that rate is limited by it. In a prediction the rate is
an input of the cost model and proves nothing: there the rule reports only links that are in use for
90% of the step.

## Example

```text
reduce-scatter-start.3   1.9 GB in 9.6 ms of slack needs 198 GB/s; 8 x 400 Gb/s give 50 per device
```

## Fix

Send fewer bytes: gradients and gathered weights in bfloat16 or float8, a sharding in which less
data crosses slow links (FSDP within hosts, data parallel across), accumulation over several
micro-batches before sending. Get more bandwidth: use all NICs, GPUDirect RDMA, SHARP. Do more work
per byte: use a larger batch per device.

## Fix safety

Smaller types and larger batches change numbers; sharding changes memory.

## False alarms

The capacity is that of the stated target. With fewer NICs, or another job on the network, the links
are slower than that, and the rule stays silent.

## References

- https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md
- https://jax-ml.github.io/scaling-book/training/
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.diagnose.environment import advise
from counterpoint.diagnose.exposure.causes import (
    BANDWIDTH,
    evidence,
    exposed_ms,
    kinds,
    lessening,
    shares_of,
)
from counterpoint.diagnose.finding import Finding, ms_text
from counterpoint.diagnose.step_data import StepData, place_of

CODE: Final = BANDWIDTH
NAME: Final = "bandwidth-bound"
SINCE: Final = "0.1"

_HALF: Final = 0.5
"""The bytes saved by a type of half the width."""


def check(data: StepData) -> Iterator[Finding]:
    """Yield at most one finding, for all of them."""
    rows = data.cached(shares_of).of(CODE)
    if not rows:
        return
    saving = lessening(data, rows, _HALF)
    first = rows[0]
    yield Finding(
        code=CODE,
        title=f"devices wait {ms_text(exposed_ms(rows))} per step for the bytes of {kinds(rows)}",
        detail=(
            f"{place_of(first)} takes {ms_text(first['own_ms'])}: {first['why']}. Half the bytes"
            " would save about half of it, or more if the rest is then hidden"
        ),
        saves_ms=saving.ms,
        basis=saving.basis,
        evidence=evidence(data, rows),
        remedy=advise(
            data,
            "send fewer bytes (bfloat16 or float8 gradients and gathers, accumulation over several"
            " micro-batches), keep them on fast links (FSDP within hosts, data parallel across), or"
            " compute more per byte with a larger batch",
        ),
        doubt=None,
    )
