"""A flag is given to the wrong reader: another vendor's, or in the wrong place.

## What it does

Finds flags of libtpu and TensorFlow and settings of JAX, NCCL and others in XLA_FLAGS or among the
compiler options, and XLA's GPU flags in LIBTPU_INIT_ARGS. For a GPU it notes flags that only XLA's
CPU or TPU compiler reads.

## Why it costs time

XLA aborts on an unknown name, and so does libtpu. Nothing reads the others.

## How it is detected

The rule looks up the name in the catalogue of flags and the list of environment variables.

## Example

```sh jaxlib=0.10.2 chip=H100
export XLA_FLAGS="--xla_tpu_enable_async_collective_fusion=true"
```

## Fix

Set it where it is read: flags of libtpu in LIBTPU_INIT_ARGS, settings of JAX and NCCL in the
environment. On a GPU, remove flags for TPUs.

```sh jaxlib=0.10.2 chip=H100
export XLA_FLAGS=""
```

## Fix safety

Safe to remove: it was never read there.

## References

- https://openxla.org/xla/flags_guidance
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.flags.lifecycle import (
    FlagLifecycle,
    LifecycleStatus,
)
from counterpoint.flags.lint import Fix, LintContext, Remark, Severity, remark
from counterpoint.flags.parsed import Occurrence
from counterpoint.flags.settings import Channel

CODE: Final = "FLAG107"
NAME: Final = "foreign-flag"
SINCE: Final = "0.1"

_COMPILERS: Final = {"xla_cpu_": "CPU", "xla_tpu_": "TPU", "xla_gpu_": "GPU"}
_HOMES: Final = {
    Channel.LIBTPU_INIT_ARGS: "set it in LIBTPU_INIT_ARGS on a TPU, remove it on a GPU",
    Channel.ENVIRONMENT: "set it in the environment",
}


def check(case: LintContext) -> Iterator[Remark]:
    for setting in case.compiler:
        lifecycle = case.lifecycle(setting)
        if case.is_for_libtpu(setting):
            continue  # FLAG112
        if (
            lifecycle.kind is LifecycleStatus.FOREIGN
            and lifecycle.home is not Channel.COMPILER_OPTIONS
        ):
            yield _stranger(case, setting, lifecycle)
        elif lifecycle.kind is LifecycleStatus.KNOWN and case.chip is not None:
            yield from _idle(setting, case.chip)
    for setting in case.written.through(Channel.LIBTPU_INIT_ARGS):
        if setting.name.startswith("xla_gpu_"):
            message = "a flag of XLA's GPU compiler, which libtpu does not know"
            yield remark(CODE, Severity.ERROR, setting, message, "set it in XLA_FLAGS")


def _stranger(case: LintContext, one: Occurrence, lifecycle: FlagLifecycle) -> Remark:
    message = f"{lifecycle.reader} reads this, not XLA; {case.consequence(one)}"
    advice = _HOMES.get(lifecycle.home, "remove it") if lifecycle.home else "remove it"
    return remark(CODE, Severity.ERROR, one, message, advice, Fix())


def _idle(one: Occurrence, chip: str) -> Iterator[Remark]:
    """Yield a note on a flag of the compiler for another kind of chip."""
    compiler = next((kind for start, kind in _COMPILERS.items() if one.name.startswith(start)), "")
    target = "TPU" if chip.startswith("TPU") else "GPU"
    if compiler and compiler != target:
        message = f"only XLA's {compiler} compiler reads it; the target is {chip}"
        yield remark(
            CODE, Severity.NOTE, one, message, f"remove it, or keep it for {compiler}s", Fix()
        )
