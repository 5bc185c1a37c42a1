"""A setting in MaxText's compile_xla_flags does not reach the training step.

## What it does

Finds options in MaxText's `compile_xla_flags`.

## Why it costs time

MaxText passes them to a separate compile of the step that prints memory statistics. The training
loop calls the jitted function, which JAX compiles again without them: the settings have no effect,
and the step is compiled twice.

## How it is detected

The rule looks at the place of the setting.

## Example

```yaml jaxlib=0.10.2
compile_xla_flags: "--xla_gpu_enable_pipelined_all_gather=true"
```

## Fix

Set them in XLA_FLAGS before the program starts.

```sh jaxlib=0.10.2
export XLA_FLAGS="--xla_gpu_enable_pipelined_all_gather=true"
```

## Fix safety

In XLA_FLAGS they start to have an effect, so `--fix` leaves that to you.

## References

- https://github.com/AI-Hypercomputer/maxtext: `train_utils.py` and `train.py`, on MaxText of 2026
  under jaxlib 0.10.2 and 0.12.0.1
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.flags.lint import LintContext, Remark, Severity, remark
from counterpoint.flags.settings import Channel

CODE: Final = "FLAG111"
NAME: Final = "statistics-option"
SINCE: Final = "0.1"

_WHERE: Final = "compile_xla_flags"


def check(case: LintContext) -> Iterator[Remark]:
    for setting in case.written.through(Channel.COMPILER_OPTIONS):
        if _WHERE in setting.via:
            message = "MaxText uses it only to print memory statistics, not for the training step"
            yield remark(CODE, Severity.WARNING, setting, message, "set it in XLA_FLAGS")
