"""A flag that a later release of jaxlib introduced.

## What it does

Finds flags that this release does not have yet.

## Why it costs time

XLA aborts on an unknown flag. Recipes are written for the release of their time: MaxText's of 2026
set `xla_gpu_pipeline_all_gather=on`, which no jaxlib before {+pipelining-levels} accepts.

## How it is detected

The rule uses the catalogue: the flags of each release of jaxlib, read out of its library.

## Example

```sh jaxlib=0.10.2
export XLA_FLAGS="--xla_gpu_pipeline_all_gather=on"
```

## Fix

Write its predecessor, remove it, or install the newer jaxlib.

```sh jaxlib=0.10.2
export XLA_FLAGS="--xla_gpu_enable_pipelined_all_gather=true"
```

## Fix safety

Safe: a program that did not start starts now, with the older release's equivalent, or without the
flag.

## References

- XLA's change of the pipelining flags: https://github.com/openxla/xla/pull/45836
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.flags.lifecycle import (
    LifecycleStatus,
    replacement_of,
)
from counterpoint.flags.lint import Fix, LintContext, Remark, Severity, advice_of, remark
from counterpoint.flags.observed import with_releases

__doc__ = with_releases(__doc__ or "")

CODE: Final = "FLAG104"
NAME: Final = "newer-flag"
SINCE: Final = "0.1"


def check(case: LintContext) -> Iterator[Remark]:
    for setting in case.compiler:
        lifecycle = case.lifecycle(setting)
        if lifecycle.kind is LifecycleStatus.NEWER:
            heirs = replacement_of(setting, case.release)
            message = (
                f"too new: {lifecycle.when}, this is {case.release.asked};"
                f" {case.consequence(setting)}"
            )
            advice = (
                advice_of(heirs, setting.channel) if heirs else "remove it, or install that jaxlib"
            )
            yield remark(CODE, Severity.ERROR, setting, message, advice, Fix(heirs))
