"""A flag that is given twice.

## What it does

It finds flags that stand in one channel more than once, also under an old and a new name, and says
what XLA makes of them.

## Why it costs time

Mostly the last one wins, and the line that somebody reads first is not the one that counts. Lists
of texts and maps add up instead: nothing that was given before goes away.

## How it is detected

By the name, or by the option that both names set, and by the type: see docs/concepts/settings.md.
What no program has both of is not twice: two functions, two arms of an `if`, two code blocks of a
document, two constants of a library.

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

Safe: the program stays the same. Where they add up there is nothing to mend.

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
        message = f"given {where}: XLA takes both, the second adds to the first"
        advice = "nothing to do, if both are meant"
        return remark(CODE, Severity.NOTE, one, message, advice)
    if one.known and winner.known and (one.name, one.meant) == (winner.name, winner.meant):
        return remark(CODE, Severity.NOTE, one, f"given {where}", "keep one", Fix())
    message = f"given {where}, which wins"
    return remark(CODE, Severity.WARNING, one, message, "keep the one that is meant", Fix())
