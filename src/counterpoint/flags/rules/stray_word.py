"""A word in XLA_FLAGS that is not a flag: XLA stops reading there.

## What it does

Finds words that do not start with a dash, such as a value after a space.

## Why it costs time

XLA silently stops reading at the first such word. All flags after it are lost, including those that
another script appends. After a flag that is no bool, XLA does not come so far: it aborts on the
flag, which has no value (FLAG201). As the first word it names a file of flags, and XLA aborts if
there is none. In such a file, a comment is a word like any other.

## How it is detected

The rule splits XLA_FLAGS by XLA's own rules. In LIBTPU_INIT_ARGS, which libtpu splits, it is a
warning.

## Example

```sh jaxlib=0.10.2
export XLA_FLAGS="--xla_gpu_enable_triton_gemm false --xla_gpu_autotune_level=4"
```

## Fix

Write name and value with `=` between them, and a value with spaces in quotes.

```sh jaxlib=0.10.2
export XLA_FLAGS="--xla_gpu_enable_triton_gemm=false --xla_gpu_autotune_level=4"
```

## Fix safety

Never fixed automatically: without the word, the flags after it would start to have an effect. They
are checked only once the word is fixed.

## References

- https://github.com/openxla/xla/blob/main/xla/parse_flags_from_env.cc
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.flags.lint import LintContext, Remark, Severity, lost_flags_text, remark
from counterpoint.flags.parsed import IssueKind, SyntaxIssue
from counterpoint.flags.settings import Channel

CODE: Final = "FLAG206"
NAME: Final = "stray-word"
SINCE: Final = "0.1"

_QUOTES: Final = "'\"`"
_TO_LIBTPU: Final = (
    "it does not start with `--`; libtpu, not XLA, reads this variable, and its handling of such a"
    " word is unknown"
)
_VARIABLE_OR_FLAG: Final = "set it separately if it is a variable, or write it as --name=value"


def check(case: LintContext) -> Iterator[Remark]:
    for issue in case.written.issues:
        if issue.kind is not IssueKind.STRAY:
            continue
        if issue.channel is Channel.LIBTPU_INIT_ARGS:
            yield remark(CODE, Severity.WARNING, issue, _TO_LIBTPU, _VARIABLE_OR_FLAG)
        else:
            yield remark(CODE, Severity.ERROR, issue, lost_flags_text(issue), _advice(issue))


def _advice(issue: SyntaxIssue) -> str:
    if issue.text[0] in _QUOTES:
        return "remove the quotes, or put them around the value only"
    return (
        f"write {issue.suggestion}"
        if issue.suggestion
        else "remove it, or write it as --name=value"
    )
