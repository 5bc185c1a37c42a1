"""A flag among the compiler options that only XLA_FLAGS accepts.

## What it does

Finds names in compiler_options (of jax.jit, or of lowered.compile) that exist as flags of the
process and not as options of a compile.

## Why it costs time

The compile fails with "No such compile option". Guides treat the two as the same; XLA does not.

## How it is detected

The rule uses the catalogue: a compiler option is a field of XLA's DebugOptions, a flag is a name
that its parser knows. The names that only the parser knows are listed per release.

## Example

```python jaxlib=0.10.2
jax.jit(step, compiler_options={"xla_gpu_executable_warn_stuck_timeout": 60})
```

## Fix

Set it in XLA_FLAGS before the program starts, or use the option that it sets.

```sh jaxlib=0.10.2
export XLA_FLAGS="--xla_gpu_executable_warn_stuck_timeout=60"
```

## Fix safety

Safe if the option that it sets is known. `--fix` does not move a setting from the program into the
environment.

## References

- https://docs.jax.dev/en/latest/_autosummary/jax.jit.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.flags.lifecycle import replacement_of
from counterpoint.flags.lint import Fix, LintContext, Remark, Severity, advice_of, remark
from counterpoint.flags.settings import Channel

CODE: Final = "FLAG108"
NAME: Final = "not-a-compile-option"
SINCE: Final = "0.1"


def check(case: LintContext) -> Iterator[Remark]:
    for setting in case.written.through(Channel.COMPILER_OPTIONS):
        flag = case.release.flags.get(setting.name)
        if flag is None or flag.compile_option or not flag.xla_flags:
            continue
        message = f"XLA_FLAGS accepts it, compiler_options do not; {case.consequence(setting)}"
        heirs = replacement_of(setting, case.release)
        advice = advice_of(heirs, setting.channel) if heirs else "set it in XLA_FLAGS"
        yield remark(CODE, Severity.ERROR, setting, message, advice, Fix(heirs) if heirs else None)
