"""A flag is accepted and has no effect.

## What it does

Finds flags in XLA_FLAGS that XLA's parser accepts and ignores. A compiler option of the same name
sets the option itself, and is not reported.

## Why it costs time

The flag has no effect, and nothing reports that. A later release will remove the name, and XLA will
then abort on it.

## How it is detected

The rule uses the catalogue: each flag was set in each release, and no option changed.

## Example

```sh jaxlib=0.10.2
export XLA_FLAGS="--xla_gpu_enable_cudnn_fmha=true"
```

## Fix

Remove it.

```sh jaxlib=0.10.2
export XLA_FLAGS=""
```

## Fix safety

Safe: the program stays the same.

## References

- `counterpoint flags show NAME` shows the releases that have a flag.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.flags.catalogue.flag import Flag
from counterpoint.flags.lint import Fix, LintContext, Remark, Severity, remark

CODE: Final = "FLAG106"
NAME: Final = "no-op-flag"
SINCE: Final = "0.1"


def check(case: LintContext) -> Iterator[Remark]:
    for setting in case.xla:  # a compiler option sets the field, bypassing the parser
        flag = case.known(setting)
        if flag is not None and flag.no_op:
            message = f"jaxlib {case.release.version} accepts and ignores it"
            yield remark(CODE, Severity.WARNING, setting, message, _advice(flag), Fix())


def _advice(flag: Flag) -> str:
    return "remove it; it works as a compiler option" if flag.compile_option else "remove it"
