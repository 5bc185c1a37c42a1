"""NCCL's user buffers are enabled where they can't help, or without memory for them.

## What it does

Checks `xla_gpu_enable_nccl_user_buffers`, which lets NCCL read and write XLA's buffers in place.
For all-gather, all-reduce and reduce-scatter it needs NVLS, reductions in NVLink switches. The
buffers are in a separate memory pool.

## Why it costs time

Without NVLS the copies stay, and the second pool uses memory nevertheless. Unless its size is
given, the pool starts empty and grows while the program runs, which fragments memory; and it is
outside the share that `XLA_CLIENT_MEM_FRACTION` reserves.

## How it is detected

The rule looks for `NCCL_NVLS_ENABLE=0`, for chips without NVLS (older than Hopper, AMD's), and for
`XLA_PYTHON_CLIENT_ALLOCATOR=platform`, under which XLA makes no such pool; otherwise it looks for
the absence of `XLA_PYTHON_CLIENT_COLLECTIVE_MEM_SIZE_MB`.

## Example

```sh jaxlib=0.10.2 chip=H100
export NCCL_NVLS_ENABLE=0
export XLA_FLAGS=--xla_gpu_enable_nccl_user_buffers=true
```

## Fix

Remove the flag, or allow NVLS and set the size of the pool.

## Fix safety

Reported only: the intended setting is not known.

## References

- https://github.com/NVIDIA/JAX-Toolbox/blob/main/docs/GPU_performance.md
- https://github.com/openxla/xla/blob/main/xla/pjrt/gpu/se_gpu_pjrt_client.cc
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.flags.lint import (
    Fix,
    LintContext,
    Remark,
    Severity,
    chip_is,
    flag_on,
    remark,
)
from counterpoint.flags.versions import ChipFamily, has_nvls

CODE: Final = "FLAG401"
NAME: Final = "user-buffers"
SINCE: Final = "0.1"

_FLAG: Final = "xla_gpu_enable_nccl_user_buffers"
_SIZE: Final = "XLA_PYTHON_CLIENT_COLLECTIVE_MEM_SIZE_MB"


def check(case: LintContext) -> Iterator[Remark]:
    """Yield at most one remark."""
    given = case.last(_FLAG)
    known = _FLAG in case.release.flags and not chip_is(case, ChipFamily.TPU)
    if given is None or not known or not flag_on(case, _FLAG):
        return
    severity, message, advice = _judged(case)
    if message:
        yield remark(CODE, severity, given, message, advice, Fix(safe=False))


def _judged(case: LintContext) -> tuple[Severity, str, str]:
    variables = case.variables
    if variables.get("NCCL_NVLS_ENABLE") == "0":
        text = "NCCL_NVLS_ENABLE=0 disables NVLS, which user buffers need for collectives"
        return Severity.WARNING, text, "remove NCCL_NVLS_ENABLE=0, or this"
    if has_nvls(case.chip) is False:
        text = f"user buffers need NVLS, which {case.chip} does not have"
        return Severity.WARNING, text, "remove it"
    if variables.get("XLA_PYTHON_CLIENT_ALLOCATOR") == "platform":
        text = "XLA_PYTHON_CLIENT_ALLOCATOR=platform makes no pool for user buffers"
        return Severity.WARNING, text, "remove the allocator, or this"
    if not variables.get(_SIZE):
        text = "the pool for its buffers starts empty and grows, outside of JAX's memory fraction"
        advice = f"set its size with {_SIZE}=..., and subtract it from XLA_CLIENT_MEM_FRACTION"
        return Severity.NOTE, text, advice
    return Severity.NOTE, "", ""
