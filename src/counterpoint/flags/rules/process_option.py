"""A compiler option that XLA reads only from the flags of the process.

## What it does

Finds names in compiler_options that a compile accepts and that the runtime reads from XLA_FLAGS, so
that the value given to the compile has no effect.

## Why it costs time

The setting has no effect, and nothing reports that.

## How it is detected

The rule uses the catalogue: these are read through GetDebugOptionsFromFlags in XLA's sources.

## Example

```python jaxlib=0.10.2
jax.jit(step, compiler_options={"xla_gpu_enable_nccl_comm_splitting": False})
```

## Fix

Set it in XLA_FLAGS before the program starts.

```sh jaxlib=0.10.2
export XLA_FLAGS="--xla_gpu_enable_nccl_comm_splitting=false"
```

## Fix safety

Safe to remove: the program stays the same. In XLA_FLAGS it starts to have an effect.

## References

- https://github.com/openxla/xla/blob/main/xla/debug_options_flags.cc
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.flags.catalogue.about import documentation_of
from counterpoint.flags.lint import LintContext, Remark, Severity, remark
from counterpoint.flags.settings import Channel

CODE: Final = "FLAG109"
NAME: Final = "process-option"
SINCE: Final = "0.1"


def check(case: LintContext) -> Iterator[Remark]:
    for setting in case.written.through(Channel.COMPILER_OPTIONS):
        text = documentation_of(setting.name) if case.known(setting) else None
        if text is not None and text.process_only:
            message = "no effect here: XLA reads it only from the flags of the process"
            yield remark(CODE, Severity.WARNING, setting, message, "set it in XLA_FLAGS")
