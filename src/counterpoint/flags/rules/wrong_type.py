"""A value is not of the flag's type.

## What it does

Finds bools, whole numbers and numbers that XLA can't parse, and flags that need a value and have
none.

## Why it costs time

XLA aborts on such a value; a compile with it as an option fails.

## How it is detected

The rule uses the flag's type in this release, and the rules of XLA's parser, which differ between
the channels: XLA_FLAGS accepts `true`, `False` and `1`; compiler_options accept `True` and `False`
only. Whole numbers are decimal, without an exponent or a unit.

## Example

```sh jaxlib=0.10.2
export XLA_FLAGS="--xla_gpu_all_reduce_combine_threshold_bytes=1GiB"
```

## Fix

```sh jaxlib=0.10.2
export XLA_FLAGS="--xla_gpu_all_reduce_combine_threshold_bytes=1073741824"
```

## Fix safety

Safe if only one value can be meant: a program that did not start starts now. `1GB` may mean 10^9
bytes: `1073741824` is reported only.

## References

- https://github.com/openxla/xla/blob/main/xla/tsl/util/command_line_flags.cc
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.flags.lint import (
    Fix,
    LintContext,
    Remark,
    Severity,
    advice_of,
    remark,
    run_together,
)
from counterpoint.flags.parsed import Occurrence
from counterpoint.flags.settings import Channel
from counterpoint.flags.values import ValueRefusal, level_refusal, refusal, stray_punctuation

CODE: Final = "FLAG201"
NAME: Final = "wrong-type"
SINCE: Final = "0.1"

_LISTED: Final = ("enum", "enums")


def check(case: LintContext) -> Iterator[Remark]:
    for setting in case.compiler:
        refused = _refused(case, setting)
        if refused is None:
            continue
        if setting.value is None:
            message = f"it needs {refused.takes}; {case.consequence(setting)}"
        else:
            message = (
                f"it accepts {refused.takes}, not {setting.value!r}; {case.consequence(setting)}"
            )
        if refused.meant is None:
            yield remark(CODE, Severity.ERROR, setting, message, f"use {refused.takes}")
        else:
            fix = Fix(((setting.name, refused.meant),), safe=refused.sure)
            advice = advice_of(fix.instead, setting.channel)
            if not refused.sure:
                advice += f" ({_in_bytes(setting.meant)})"
            yield remark(CODE, Severity.ERROR, setting, message, advice, fix)


def _refused(case: LintContext, one: Occurrence) -> ValueRefusal | None:
    if not one.known or run_together(one):
        return None
    flag = case.known(one)
    if flag is None:
        lifecycle = case.lifecycle(one)
        option = lifecycle.home is Channel.COMPILER_OPTIONS is one.channel
        return level_refusal(one.name, one.meant) if option else None
    if stray_punctuation(flag, one) or (flag.type in _LISTED and one.value is not None):
        return None
    return refusal(flag, one.value, one.channel)


def _in_bytes(value: str) -> str:
    """Return the value as it is parsed here, and by XLA's logs: 8 GiB for 8GB."""
    text = value.strip().upper().removesuffix("B").rstrip()
    return f"{text[:-1].rstrip()} {text[-1]}iB"
