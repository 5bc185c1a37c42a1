"""A flag is given twice.

## What it does

Finds flags that occur more than once in one channel, also under an old and a new name, and reports
what XLA does with them.

## Why it costs time

Usually the last one takes precedence, so the line that one reads first has no effect. Lists of
strings and maps accumulate instead: no earlier entry is removed.

## How it is detected

The rule compares names, the options that both names set, and types: see docs/concepts/settings.md.
Occurrences that no program has together are not reported: two functions, two branches of an `if`,
two lines of a document.

## Example

```sh jaxlib=0.10.2
export XLA_FLAGS="--xla_gpu_autotune_level=0 --xla_gpu_enable_triton_gemm=false"
export XLA_FLAGS="${XLA_FLAGS} --xla_gpu_autotune_level=4"
```

## Fix

Keep the last one.

```sh jaxlib=0.10.2
export XLA_FLAGS="--xla_gpu_enable_triton_gemm=false --xla_gpu_autotune_level=4"
```

## Fix safety

Safe: the program stays the same. If they accumulate, no fix is needed.

## References

- docs/concepts/settings.md, "A flag that is given twice"
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.flags.lint import Fix, LintContext, Remark, Severity, remark
from counterpoint.flags.parsed import Occurrence, exclusive
from counterpoint.flags.settings import Channel

CODE: Final = "FLAG205"
NAME: Final = "given-twice"
SINCE: Final = "0.1"

_CHANNELS: Final = (Channel.XLA_FLAGS, Channel.COMPILER_OPTIONS, Channel.LIBTPU_INIT_ARGS)


def check(case: LintContext) -> Iterator[Remark]:
    for channel in _CHANNELS:
        later: dict[str, list[Occurrence]] = {}
        for setting in reversed(case.written.through(channel)):
            later_settings = later.setdefault(_option(case, setting), [])
            winners = (
                later_setting
                for later_setting in later_settings
                if not exclusive(setting.branch, later_setting.branch)
            )
            if winner := next(winners, None):
                yield _earlier(case, setting, winner)
            else:
                later_settings.append(setting)


def _option(case: LintContext, one: Occurrence) -> str:
    flag = case.known(one)
    return (flag.alias_of if flag else None) or one.name


def _earlier(case: LintContext, one: Occurrence, winner: Occurrence) -> Remark:
    flag = case.known(one)
    kind = flag.type if flag else ""
    where = f"again at {winner.place} as {winner.text!r}"
    changes = kind == "enums" and winner.meant[:1] in ("+", "-")
    if one.channel is Channel.XLA_FLAGS and (kind in ("strings", "map") or changes):
        message = f"given {where}: XLA combines both"
        advice = "keep both if that is intended"
        return remark(CODE, Severity.NOTE, one, message, advice)
    if one.known and winner.known and (one.name, one.meant) == (winner.name, winner.meant):
        return remark(CODE, Severity.NOTE, one, f"given {where}", "keep one", Fix())
    message = f"given {where}, which takes precedence"
    return remark(CODE, Severity.WARNING, one, message, "keep the intended one", Fix())
