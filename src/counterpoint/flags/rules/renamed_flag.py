"""A flag that has another name in this release of jaxlib.

## What it does

Finds flags whose name has changed, while their effect and their values have not.

## Why it costs time

XLA aborts on the old name when it first reads its options.

## How it is detected

The rule uses the catalogue, and a list of renames taken from XLA's history.

## Example

```sh jaxlib=0.10.2
export XLA_FLAGS="--xla_gpu_dump_hlo_unoptimized_snapshots=true"
```

## Fix

Write the new name.

```sh jaxlib=0.10.2
export XLA_FLAGS="--xla_dump_hlo_unoptimized_snapshots=true"
```

## Fix safety

Safe: the new name has the same effect.

## References

- `counterpoint flags show NAME` shows the releases that have a flag.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.flags.lifecycle import (
    LifecycleStatus,
    replacement_of,
)
from counterpoint.flags.lint import Fix, LintContext, Remark, Severity, advice_of, remark

CODE: Final = "FLAG103"
NAME: Final = "renamed-flag"
SINCE: Final = "0.1"


def check(case: LintContext) -> Iterator[Remark]:
    for setting in case.compiler:
        lifecycle = case.lifecycle(setting)
        if lifecycle.kind is LifecycleStatus.RENAMED:
            heirs = replacement_of(setting, case.release)
            message = f"renamed: {lifecycle.when}; {case.consequence(setting)}"
            advice = (
                advice_of(heirs, setting.channel) if heirs else lifecycle.what.lower().rstrip(".")
            )
            yield remark(
                CODE, Severity.ERROR, setting, message, advice, Fix(heirs) if heirs else None
            )
