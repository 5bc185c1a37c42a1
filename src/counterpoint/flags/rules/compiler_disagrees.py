"""The compiler itself says otherwise than the catalogue.

## What it does

It reports flags that the installed compiler refuses although all other rules let them pass, and
flags that a rule says it refuses while it takes them.

## Why it costs time

XLA ends the process at a flag that it refuses. The catalogue is made of releases; a compiler that
was built from other sources, or a value whose syntax no rule knows, shows here.

## How it is detected

The interpreter's own XLA is started with the flags, in a process of its own and on the CPU, as the
last step of `counterpoint flags check`. What it says counts more than the catalogue.

## Example

Values of this flag have a syntax of their own, which no rule looks at.

```sh jaxlib=0.10.2 refused=--xla_fuel=abc
export XLA_FLAGS="--xla_fuel=abc"
```

## Fix

Drop it, or look up what it takes with `counterpoint flags show NAME`. After an update of jaxlib,
`counterpoint flags refresh` reads the catalogue anew.

```sh jaxlib=0.10.2
export XLA_FLAGS=""
```

## Fix safety

Safe to drop: a program that did not start does now.

## References

- docs/concepts/settings.md, on what XLA reads
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.flags.lifecycle.lifecycle import consequence_of_rejection
from counterpoint.flags.lint import Fix, LintContext, Remark, Severity, remark

CODE: Final = "FLAG199"
NAME: Final = "compiler-disagrees"
SINCE: Final = "0.1"


def check(case: LintContext) -> Iterator[Remark]:
    for setting in case.compiler:
        if setting in case.refused:
            reason = case.refused[setting]
            message = (
                f"the compiler refuses it ({reason}); {consequence_of_rejection(setting.channel)}"
            )
            yield remark(CODE, Severity.ERROR, setting, message, "drop it", Fix())
        elif setting in case.taken:
            message = f"the catalogue says {case.taken[setting]}, yet the compiler takes it"
            advice = "keep it, and refresh the catalogue: counterpoint flags refresh"
            yield remark(CODE, Severity.WARNING, setting, message, advice)
