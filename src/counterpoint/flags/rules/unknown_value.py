"""A flag does not accept this value.

## What it does

Finds names that an enum, or a list of enums, does not have in this release, or that the channel
spells differently.

## Why it costs time

XLA aborts on such a value, often without naming it; a compile with it as an option fails.

## How it is detected

The rule uses the names in XLA's description of its options, and the spelling of each flag's own
parser, which differ: XLA_FLAGS accepts `--xla_gpu_detect_nan=warning`, while a compile accepts
`DETECTION_MODE_WARNING`. Compiler options accept numbers for names, XLA_FLAGS does not: XLA aborts
on the levels of old guides, `xla_gpu_enable_command_buffer=1`.

## Example

```sh jaxlib=0.10.2
export XLA_FLAGS="--xla_gpu_pgle_accuracy_checker=error"
```

## Fix

```sh jaxlib=0.10.2
export XLA_FLAGS="--xla_gpu_pgle_accuracy_checker=PGLE_STRICTNESS_LEVEL_ERROR"
```

## Fix safety

Safe if the intended name is unambiguous: a program that did not start starts now.

## References

- https://github.com/openxla/xla/blob/main/xla/debug_options_flags.cc
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
from counterpoint.flags.values import refusal, stray_punctuation

CODE: Final = "FLAG202"
NAME: Final = "unknown-value"
SINCE: Final = "0.1"


def check(case: LintContext) -> Iterator[Remark]:
    for setting in case.compiler:
        flag = case.known(setting)
        if (
            flag is None
            or setting.value is None
            or not setting.known
            or run_together(setting)
            or stray_punctuation(flag, setting)
        ):
            continue
        refused = refusal(flag, setting.value, setting.channel)
        if refused is None or flag.type not in ("enum", "enums"):
            continue
        message = f"{setting.value!r} is not one of its values; {case.consequence(setting)}"
        if refused.meant is None:
            yield remark(CODE, Severity.ERROR, setting, message, f"use {refused.takes}")
        else:
            fix = Fix(((setting.name, refused.meant),))
            advice = advice_of(fix.instead, setting.channel)
            yield remark(CODE, Severity.ERROR, setting, message, advice, fix)
