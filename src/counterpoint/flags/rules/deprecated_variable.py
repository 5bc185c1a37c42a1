"""An environment variable has a new name.

## What it does

Finds variables that are still read, but are deprecated.

## Why it costs time

It costs nothing today. A later release will silently stop reading it, and the program will then use
a different memory fraction.

## How it is detected

The rule looks at the name. `XLA_PYTHON_CLIENT_MEM_FRACTION` has been replaced by
`XLA_CLIENT_MEM_FRACTION` since jaxlib 0.4.33; 0.12 still reads both, and raises a ValueError if
both are set (FLAG407).

## Example

```sh jaxlib=0.10.2
export XLA_PYTHON_CLIENT_MEM_FRACTION=0.9
```

## Fix

```sh jaxlib=0.10.2
export XLA_CLIENT_MEM_FRACTION=0.9
```

## Fix safety

Safe from jaxlib 0.4.33 on.

## References

- https://github.com/openxla/xla/blob/main/xla/python/xla_client.py
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.flags.lint import Fix, LintContext, Remark, Severity, remark, since
from counterpoint.flags.settings import Channel

CODE: Final = "FLAG502"
NAME: Final = "deprecated-variable"
SINCE: Final = "0.1"

SUCCESSORS: Final = {
    "XLA_PYTHON_CLIENT_MEM_FRACTION": ("XLA_CLIENT_MEM_FRACTION", "0.4.33"),
}
"""The new name, and the first jaxlib that reads it."""


def check(case: LintContext) -> Iterator[Remark]:
    """Yield a note for each old name, unless the new name is also set."""
    for setting in case.written.through(Channel.ENVIRONMENT):
        new, version = SUCCESSORS.get(setting.name, ("", ""))
        if new and since(case, version) and new not in case.variables:
            yield remark(
                CODE,
                Severity.NOTE,
                setting,
                f"deprecated: {new} replaces it since jaxlib {version}",
                f"write {new}={setting.meant}"
                if _is_share(setting.meant)
                else f"rename it to {new}",
                Fix(((new, setting.meant),)),
            )


def _is_share(value: str) -> bool:
    try:
        return float(value) > 0
    except ValueError:
        return False
