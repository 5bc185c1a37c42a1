"""A word in XLA_FLAGS that is no flag: XLA stops reading there.

## What it does

It finds words that do not start with a dash, such as the value behind a space.

## Why it costs time

XLA stops reading in silence at the first such word. All flags behind it are lost, also those that
another script appends. As the first word it names a file of flags, and XLA ends the process where
there is none. In such a file, a comment is a word like any other.

## How it is detected

By XLA's own rules of splitting XLA_FLAGS. In LIBTPU_INIT_ARGS, which libtpu splits, it is a
warning.

## Example

```sh jaxlib=0.10.2
export XLA_FLAGS="--xla_gpu_autotune_level 4 --xla_gpu_enable_triton_gemm=false"
```

## Fix

Write name and value with `=` between them, and a value with spaces in quotes.

```sh jaxlib=0.10.2
export XLA_FLAGS="--xla_gpu_autotune_level=4 --xla_gpu_enable_triton_gemm=false"
```

## Fix safety

`--fix` writes what XLA reads: without the word, and without the flags behind it, which it names.
What is behind is not judged before the word is mended.

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
    "it does not start with `--`; libtpu reads this variable, not XLA, and what it makes of such a"
    " word is not known here"
)
_VARIABLE_OR_FLAG: Final = "set it by itself where it is a variable, or write it as --name=value"


def check(case: LintContext) -> Iterator[Remark]:
    for slip in case.written.slips:
        if slip.kind is not IssueKind.STRAY:
            continue
        if slip.channel is Channel.LIBTPU_INIT_ARGS:
            yield remark(CODE, Severity.WARNING, slip, _TO_LIBTPU, _VARIABLE_OR_FLAG)
        else:
            yield remark(CODE, Severity.ERROR, slip, lost_flags_text(slip), _advice(slip))


def _advice(slip: SyntaxIssue) -> str:
    if slip.text[0] in _QUOTES:
        return "take the quotes away, or put them around the value alone"
    return f"write {slip.mend}" if slip.mend else "drop it, or write it as --name=value"
