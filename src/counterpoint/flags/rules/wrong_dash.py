"""A flag does not start with two dashes.

## What it does

Finds characters that only look like a dash, as word processors and web pages write them, and flags
with one dash or three.

## Why it costs time

XLA silently stops reading at a look-alike, and what follows is lost; if it is the first word, XLA
takes it for a file name and aborts. XLA also aborts on a single dash.

## How it is detected

The rule looks at the first characters of each word.

## Example

```sh jaxlib=0.10.2
export XLA_FLAGS='\N{EN DASH}xla_gpu_enable_triton_gemm=false'
```

## Fix

Write two dashes.

```sh jaxlib=0.10.2
export XLA_FLAGS='--xla_gpu_enable_triton_gemm=false'
```

## Fix safety

Never fixed automatically: with two dashes, the flag would start to have an effect.

## References

- docs/concepts/settings.md, on what XLA reads
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.flags.history import history
from counterpoint.flags.lint import LintContext, Remark, Severity, lost_flags_text, remark
from counterpoint.flags.parsed import IssueKind, SyntaxIssue
from counterpoint.flags.settings import Channel

CODE: Final = "FLAG207"
NAME: Final = "wrong-dash"
SINCE: Final = "0.1"


def check(case: LintContext) -> Iterator[Remark]:
    for issue in case.written.issues:
        if issue.kind in (IssueKind.DASH, IssueKind.SINGLE_DASH):
            yield remark(CODE, Severity.ERROR, issue, lost_flags_text(issue), _advice(case, issue))


def _advice(case: LintContext, issue: SyntaxIssue) -> str:
    """Return the advice; adding dashes does not turn a non-flag into a flag."""
    name = (issue.suggestion or "").removeprefix("--").partition("=")[0]
    if issue.channel is Channel.XLA_FLAGS and not _is_a_name(case, name):
        return "remove it"
    return f"write {issue.suggestion}" if issue.suggestion else "write two dashes"


def _is_a_name(case: LintContext, name: str) -> bool:
    return name in case.release.flags or history(name) is not None or name.startswith("xla_")
