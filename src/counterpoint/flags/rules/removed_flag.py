"""A flag that this release of jaxlib no longer has.

## What it does

Finds flags that an earlier release had and this one does not, with their replacement.

## Why it costs time

XLA aborts on an unknown flag when it first reads its options: minutes after the start of a large
job. A quarter of the XLA flags on five pages of advice no longer exist
(docs/flags-from-the-web.md).

## How it is detected

The rule uses the catalogue: the flags of each release of jaxlib, read out of its library.

## Example

```sh jaxlib=0.10.2
export XLA_FLAGS="--xla_gpu_enable_triton_softmax_fusion=false"
```

## Fix

Remove it, or write what the remark advises.

```sh jaxlib=0.10.2
export XLA_FLAGS=""
```

## Fix safety

Safe: a program that did not start starts now. `--fix` writes the equivalent if one is known for the
value, and removes the flag otherwise. Unsafe if the settings give a replacement another value.

## References

- The web's recommendations, one by one: docs/flags-from-the-web.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.flags.catalogue.lookup import releases
from counterpoint.flags.lifecycle import (
    LifecycleStatus,
    is_default_now,
    replacement_of,
)
from counterpoint.flags.lint import Fix, LintContext, Remark, Severity, advice_of, remark
from counterpoint.flags.parsed import Occurrence
from counterpoint.flags.settings import is_list
from counterpoint.flags.text import Pairs

CODE: Final = "FLAG102"
NAME: Final = "removed-flag"
SINCE: Final = "0.1"


def check(case: LintContext) -> Iterator[Remark]:
    for setting in case.compiler:
        lifecycle = case.lifecycle(setting)
        if lifecycle.kind is not LifecycleStatus.REMOVED:
            continue
        heirs = replacement_of(setting, case.release)
        # Not "never existed": releases before the first table also had names.
        nobody = f"unknown to all releases of jaxlib since {releases()[0]}"
        gone = f"removed: {lifecycle.when}" if lifecycle.when else nobody
        parts = [
            f"{gone}; {case.consequence(setting)}",
            lifecycle.what.rstrip(".").removesuffix(": remove it"),
        ]
        if heirs:
            advice = advice_of(heirs, setting.channel)
        elif is_default_now(setting.name, setting.meant):
            advice = "remove it: the default does the same"
        else:
            advice = "remove it"
        message = ". ".join(part for part in parts if part)
        yield remark(CODE, Severity.ERROR, setting, message, advice, _fix(case, setting, heirs))


def _fix(case: LintContext, one: Occurrence, heirs: Pairs) -> Fix:
    """Return the fix; it is not safe where the settings say something else of a replacement."""
    others = [given for given in case.written.given if given is not one]
    contested = any(
        (given.channel, given.name) == (one.channel, name) and given.meant != value
        for given in others
        for name, value in heirs
        if not is_list(name)
    )
    return Fix(heirs, safe=not contested)
