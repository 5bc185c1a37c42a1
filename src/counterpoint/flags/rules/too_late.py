"""A setting that is set after it has been read.

## What it does

Finds settings that a program puts into its environment after JAX has started, or a script after it
has started the program.

## Why it costs time

XLA reads XLA_FLAGS once, when it first needs an option, and JAX the variables of the allocator
(`XLA_PYTHON_CLIENT_...`), when it first needs a device. A later assignment has no effect, and
nothing reports that. NCCL reads its variables with the first collective, so that no remark is made
on these.

## How it is detected

The rule looks at the order of the lines: an assignment after the first use of JAX, or after the
command. One of JAX's options is not reported if the program also sets it with `jax.config`.

## Example

```python jaxlib=0.10.2
import os
import jax
jax.devices()
os.environ["XLA_FLAGS"] = "--xla_gpu_autotune_level=0"
```

## Fix

Set it before JAX is imported.

```python jaxlib=0.10.2
import os
os.environ["XLA_FLAGS"] = "--xla_gpu_autotune_level=0"
import jax
jax.devices()
```

## Fix safety

Never fixed automatically: moved to the front it starts to have an effect.

## References

- https://docs.jax.dev/en/latest/xla_flags.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.flags.lint import LintContext, Remark, Severity, remark
from counterpoint.flags.parsed import IssueKind
from counterpoint.flags.settings import Channel

CODE: Final = "FLAG211"
NAME: Final = "too-late"
SINCE: Final = "0.1"


def check(case: LintContext) -> Iterator[Remark]:
    for issue in case.written.issues:
        if issue.kind is IssueKind.TOO_LATE and not _set_again(case, issue.text):
            advice = f"write {issue.suggestion}" if issue.suggestion else "set it before JAX starts"
            yield remark(CODE, Severity.WARNING, issue, issue.why, advice)


def _set_again(case: LintContext, text: str) -> bool:
    """Return whether the program sets one of JAX's options with `jax.config`, too."""
    name = text.partition("=")[0].lower()
    return any(one.name == name for one in case.written.through(Channel.JAX_CONFIG))
