"""A setting of MaxText's compile_xla_flags, which the training step does not get.

## What it does

It finds options in MaxText's `compile_xla_flags`.

## Why it costs time

MaxText gives them to a compile of the step that it makes to print memory statistics. The training
loop calls the jitted function, which JAX compiles once more, without them: the settings do nothing,
and the step is compiled twice.

## How it is detected

By where the setting is written.

## Example

```yaml jaxlib=0.10.2
compile_xla_flags: "--xla_gpu_enable_pipelined_all_gather=true"
```

## Fix

Give them in XLA_FLAGS before the program starts.

```sh jaxlib=0.10.2
export XLA_FLAGS="--xla_gpu_enable_pipelined_all_gather=true"
```

## Fix safety

In XLA_FLAGS they begin to have an effect, so `--fix` leaves that to you.

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
            message = "MaxText compiles with it for memory statistics; the training step does not"
            yield remark(CODE, Severity.WARNING, setting, message, "give it in XLA_FLAGS")
