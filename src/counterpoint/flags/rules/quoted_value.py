"""Quotes, a comma or a semicolon became part of a value.

## What it does

Finds values that begin and end with a quote, or end with a comma or a semicolon, and flags that are
separated by a comma instead of a space.

## Why it costs time

XLA removes quotes once, directly after the equals sign. A second pair, from a shell, YAML or
Python, stays: a number can't be parsed then, and a path contains quotes. A comma between flags
becomes part of the value, too.

## How it is detected

The rule looks at the value's first and last characters, after XLA's own unquoting.

## Example

```sh jaxlib=0.10.2
export XLA_FLAGS="--xla_gpu_autotune_level=4, --xla_gpu_enable_triton_gemm=false"
```

## Fix

```sh jaxlib=0.10.2
export XLA_FLAGS="--xla_gpu_autotune_level=4 --xla_gpu_enable_triton_gemm=false"
```

## Fix safety

Safe if XLA rejects the value as it is. Unsafe for strings such as paths, which XLA accepts.

## References

- docs/concepts/settings.md, on what XLA reads
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.flags.lint import Fix, LintContext, Remark, Severity, advice_of, remark
from counterpoint.flags.values import refusal, stray_punctuation

CODE: Final = "FLAG204"
NAME: Final = "quoted-value"
SINCE: Final = "0.1"


def check(case: LintContext) -> Iterator[Remark]:
    for setting in case.compiler:
        flag = case.known(setting)
        stray = stray_punctuation(flag, setting) if flag is not None and setting.known else None
        if flag is None or stray is None:
            continue
        fatal = refusal(flag, setting.value, setting.channel) is not None
        message = f"{stray.what} in {setting.value!r}"
        message += f"; {case.consequence(setting)}" if fatal else "; XLA accepts it as it is"
        severity = Severity.ERROR if fatal else Severity.WARNING
        fix = Fix(stray.instead, safe=fatal)
        yield remark(
            CODE, severity, setting, message, advice_of(stray.instead, setting.channel), fix
        )
