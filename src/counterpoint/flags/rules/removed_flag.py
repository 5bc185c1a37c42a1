"""A flag that this release of jaxlib no longer has.

## What it does

It finds flags that an earlier release had and this one has not, with what does their work today.

## Why it costs time

XLA ends the process at an unknown flag, when it first needs an option: minutes after the start of
a large job. Half of the flags that guides recommend are gone.

## How it is detected

By the catalogue: the flags of each release of jaxlib, read out of its library.

## Example

```sh jaxlib=0.10.2
export XLA_FLAGS="--xla_gpu_enable_triton_softmax_fusion=false"
```

## Fix

Drop it, or write what the line advises.

```sh jaxlib=0.10.2
export XLA_FLAGS=""
```

## Fix safety

Safe: a program that did not start does now. `--fix` writes what does the same where that is
known for the value, and drops the flag otherwise.

## References

- The web's recommendations, one by one: docs/flags-from-the-web.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.flags.catalogue.lookup import releases
from counterpoint.flags.lifecycle.lifecycle import (
    LifecycleStatus,
    consequence_of_rejection,
    is_default_now,
    replacement_of,
)
from counterpoint.flags.lint import Fix, LintContext, Remark, Severity, advice_of, remark

CODE: Final = "FLAG102"
NAME: Final = "removed-flag"
SINCE: Final = "0.1"


def check(case: LintContext) -> Iterator[Remark]:
    for setting in case.compiler:
        fate = case.fate(setting)
        if fate.kind is not LifecycleStatus.REMOVED:
            continue
        heirs = replacement_of(setting, case.release)
        # Not "never existed": releases before the first table also had names.
        nobody = f"not there: no release of jaxlib from {releases()[0]} on has had it"
        gone = f"gone: {fate.when}" if fate.when else nobody
        parts = [
            f"{gone}; {consequence_of_rejection(setting.channel)}",
            fate.what.rstrip(".").removesuffix(": drop it"),
        ]
        if heirs:
            advice = advice_of(heirs, setting.channel)
        elif is_default_now(setting.name, setting.meant):
            advice = "drop it: what it asks for is the default now"
        else:
            advice = "drop it"
        message = ". ".join(part for part in parts if part)
        yield remark(CODE, Severity.ERROR, setting, message, advice, Fix(heirs))
