"""A value that only a shell, or the program, can know.

## What it does

It finds the output of commands, variables from outside the text, and expressions of a program.

## Why it costs time

It costs none. But what is not known is not checked: a clean answer covers the rest only.

## How it is detected

By the text: Counterpoint runs no shell and no code of yours.

## Example

```sh jaxlib=0.10.2
export XLA_FLAGS="--xla_dump_to=$(mktemp -d)"
```

## Fix

Check what the program gets: run the script with `counterpoint flags check --env` in the place of
the program, or look at a process that runs, with `pid:N`.

```sh jaxlib=0.10.2
export XLA_FLAGS="--xla_dump_to=/tmp/dump"
```

## Fix safety

Nothing is mended: `--fix` leaves such a setting out, and names it.

## References

- docs/concepts/settings.md, on where settings come from
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.flags.lint.case import Case
from counterpoint.flags.lint.remark import Remark, Severity, remark
from counterpoint.flags.written import SlipKind

CODE: Final = "FLAG208"
NAME: Final = "needs-shell"
SINCE: Final = "0.1"

_ADVICE: Final = "check it where it is known: `counterpoint flags check --env`, or `pid:N`"


def check(case: Case) -> Iterator[Remark]:
    for slip in case.written.slips:
        if slip.kind is SlipKind.UNKNOWABLE:
            yield remark(CODE, Severity.WARNING, slip, slip.why, _ADVICE)
