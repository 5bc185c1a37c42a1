"""`CUDA_DEVICE_MAX_CONNECTIONS=1` slows Blackwell down.

## What it does

Finds the variable with the value 1 if the chip is a Blackwell.

## Why it costs time

With one queue to the device, kernels start in launch order. On Hopper that lets a collective start
before the matrix product that runs with it. Blackwell itself gives precedence to streams of higher
priority; one queue only restricts it, and NVIDIA reports that it is slower.

## How it is detected

The rule looks at the chip and the value. It is usually copied from recipes for H100.

## Example

```sh jaxlib=0.10.2 chip=B200
export CUDA_DEVICE_MAX_CONNECTIONS=1
```

## Fix

Remove it: the default is 8.

## Fix safety

Reported only: it changes timing, not results.

## References

- https://github.com/NVIDIA/JAX-Toolbox/blob/main/docs/GPU_performance.md (Tips for Blackwell)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.flags.lint import Fix, LintContext, Remark, Severity, chip_is, remark
from counterpoint.flags.versions import ChipFamily

CODE: Final = "FLAG505"
NAME: Final = "max-connections"
SINCE: Final = "0.1"

_NAME: Final = "CUDA_DEVICE_MAX_CONNECTIONS"


def check(case: LintContext) -> Iterator[Remark]:
    """Yield at most one remark."""
    given = case.last(_NAME)
    if given and case.variables.get(_NAME) == "1" and chip_is(case, ChipFamily.BLACKWELL):
        yield remark(
            CODE,
            Severity.WARNING,
            given,
            f"one queue is for Hopper; on {case.chip} it is slower",
            "remove it",
            Fix(safe=False),
        )
