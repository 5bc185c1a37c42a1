"""A value that only a shell, or the program, can know.

## What it does

It finds the output of commands, variables from outside the text, and expressions of a program.

## Why it costs time

It costs none. But what is not known is not checked: a clean answer covers the rest only.

## How it is detected

By the text: Counterpoint runs no shell and no code of yours. It is a note where the setting
takes any text, such as the name of a directory, and a warning elsewhere.

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

Nothing is mended: in a script's lines `--fix` writes such a setting as it stands; in other forms it
leaves it out, and names it.

## References

- docs/concepts/settings.md, on where settings come from
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.flags.catalogue.variable import variables
from counterpoint.flags.lint import LintContext, Remark, Severity, remark
from counterpoint.flags.parsed import IssueKind, SyntaxIssue
from counterpoint.flags.settings import Channel

CODE: Final = "FLAG208"
NAME: Final = "needs-shell"
SINCE: Final = "0.1"

_ADVICE: Final = "check it where it is known: `counterpoint flags check --env`, or `pid:N`"


def check(case: LintContext) -> Iterator[Remark]:
    for slip in case.written.slips:
        if slip.kind is IssueKind.UNKNOWABLE:
            grave = Severity.NOTE if _is_text(case, slip) else Severity.WARNING
            yield remark(CODE, grave, slip, slip.why, _ADVICE)


def _is_text(case: LintContext, slip: SyntaxIssue) -> bool:
    """Return whether any value is accepted, as for the name of a directory."""
    name = slip.text.removeprefix("--").partition("=")[0]
    if slip.channel is Channel.ENVIRONMENT:
        known = variables().get(name)
        return known is not None and known.type in ("string", "path")
    flag = case.release.flags.get(name)
    return flag is not None and flag.type == "string"
