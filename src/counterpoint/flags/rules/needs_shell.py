"""A value is known only to a shell, or to the program.

## What it does

Finds the output of commands, variables from outside the source, and expressions of a program.

## Why it costs time

It costs nothing. But an unknown value is not checked: a clean result covers only the rest.

## How it is detected

The rule looks only at the text: Counterpoint runs no shell and none of your code. It is a note if
the setting accepts any text, such as the name of a directory, and a warning otherwise.

## Example

```sh jaxlib=0.10.2
export XLA_FLAGS="--xla_dump_to=$(mktemp -d)"
```

## Fix

Check the program's actual environment: run the script with `counterpoint flags check --env` in
place of the program, or inspect a running process with `pid:N`.

```sh jaxlib=0.10.2
export XLA_FLAGS="--xla_dump_to=/tmp/dump"
```

## Fix safety

Never fixed automatically: `--fix` leaves such a setting as it is.

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
    for issue in case.written.issues:
        if issue.kind is IssueKind.UNKNOWABLE:
            grave = Severity.NOTE if _is_text(case, issue) else Severity.WARNING
            yield remark(CODE, grave, issue, issue.why, _ADVICE)


def _is_text(case: LintContext, issue: SyntaxIssue) -> bool:
    """Return whether any value is accepted, as for the name of a directory."""
    name = issue.text.removeprefix("--").partition("=")[0]
    if issue.channel is Channel.ENVIRONMENT:
        known = variables().get(name)
        return known is not None and known.type in ("string", "path")
    flag = case.release.flags.get(name)
    return flag is not None and flag.type == "string"
