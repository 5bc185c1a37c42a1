"""An option of a single compile is given in XLA_FLAGS.

## What it does

Finds names in XLA_FLAGS that only compiler_options accept, such as `optimization_level`.

## Why it costs time

XLA aborts on an unknown flag.

## How it is detected

The rule uses the catalogue: the flags that XLA's parser knows, and the options that a compile
accepts.

## Example

```sh jaxlib=0.10.2
export XLA_FLAGS="--optimization_level=O1"
```

## Fix

Set it in compiler_options, or through JAX: `JAX_OPTIMIZATION_LEVEL=O1` and
`JAX_MEMORY_FITTING_LEVEL=O1` in the environment apply to all compiles.

```sh jaxlib=0.10.2
export JAX_OPTIMIZATION_LEVEL=O1
```

## Fix safety

Safe to remove: a program that did not start starts now.

## References

- https://openxla.org/xla/effort_levels
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.flags.lifecycle import LifecycleStatus
from counterpoint.flags.lint import Fix, LintContext, Remark, Severity, remark
from counterpoint.flags.settings import Channel

CODE: Final = "FLAG110"
NAME: Final = "compile-option-as-flag"
SINCE: Final = "0.1"


def check(case: LintContext) -> Iterator[Remark]:
    for setting in case.xla:
        lifecycle = case.lifecycle(setting)
        if lifecycle.kind is LifecycleStatus.FOREIGN and lifecycle.home is Channel.COMPILER_OPTIONS:
            message = f"a compiler option, not a flag; {case.consequence(setting)}"
            jax = f"JAX_{setting.name.upper()}"
            advice = "set it in compiler_options"
            if jax in case.release.jax:
                advice += f", or set {jax} in the environment"
            yield remark(CODE, Severity.ERROR, setting, message, advice, Fix())
