"""The installed compiler contradicts the catalogue.

## What it does

Finds flags that the installed compiler rejects although all other rules accept them, and flags that
it accepts although a rule expects it to reject them.

## Why it costs time

XLA aborts on a flag that it rejects. The catalogue covers released versions; this rule covers a
compiler built from other sources, and values whose syntax no other rule knows.

## How it is detected

The interpreter's own XLA is started with the flags, in a separate process and on the CPU, as the
last step of `counterpoint flags check`. Its answer takes precedence over the catalogue.

## Example

Values of this flag have a syntax of their own, which no rule looks at.

```sh jaxlib=0.10.2 refused=--xla_fuel=abc
export XLA_FLAGS="--xla_fuel=abc"
```

## Fix

Remove it, or look up the accepted values with `counterpoint flags show NAME`. Keep a
flag that the compiler accepts: the catalogue knows only releases, and the compiler decides.

```sh jaxlib=0.10.2
export XLA_FLAGS=""
```

## Fix safety

Safe to remove: a program that did not start starts now.

## References

- docs/concepts/settings.md, on what XLA reads
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.flags.lint import Fix, LintContext, Remark, Severity, remark

CODE: Final = "FLAG199"
NAME: Final = "compiler-disagrees"
SINCE: Final = "0.1"


def check(case: LintContext) -> Iterator[Remark]:
    for setting in case.compiler:
        if setting in case.refused:
            reason = case.refused[setting]
            message = f"the compiler rejects it ({reason}); {case.consequence(setting)}"
            yield remark(CODE, Severity.ERROR, setting, message, "remove it", Fix())
        elif setting in case.taken:
            message = f"the catalogue reports {case.taken[setting]}, but the compiler accepts it"
            advice = "keep it: the compiler decides"
            yield remark(CODE, Severity.WARNING, setting, message, advice)
