"""An assignment discards what was set before.

## What it does

Finds assignments of XLA_FLAGS, or of another variable of settings, that replace an earlier one.

## Why it costs time

The earlier flags are lost, and nothing reports that. It happens when scripts source one another.

## How it is detected

The rule follows the assignments of the source in order.

## Example

```sh jaxlib=0.10.2
export XLA_FLAGS="--xla_gpu_autotune_level=0"
export XLA_FLAGS="--xla_gpu_enable_triton_gemm=false"
```

## Fix

Append, as in `export XLA_FLAGS="${XLA_FLAGS} --more"`, or remove the first.

```sh jaxlib=0.10.2
export XLA_FLAGS="--xla_gpu_autotune_level=0"
export XLA_FLAGS="${XLA_FLAGS} --xla_gpu_enable_triton_gemm=false"
```

## Fix safety

Never fixed automatically: only you know whether the first was meant to stay.

## References

- docs/concepts/settings.md, on where settings come from
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.flags.lint import LintContext, Remark, Severity, remark
from counterpoint.flags.parsed import IssueKind

CODE: Final = "FLAG210"
NAME: Final = "overwritten"
SINCE: Final = "0.1"


def check(case: LintContext) -> Iterator[Remark]:
    for issue in case.written.issues:
        if issue.kind is IssueKind.OVERWRITTEN:
            advice = (
                f"write {issue.suggestion}"
                if issue.suggestion
                else "append to it, or remove the earlier one"
            )
            yield remark(CODE, Severity.WARNING, issue, issue.why, advice)
