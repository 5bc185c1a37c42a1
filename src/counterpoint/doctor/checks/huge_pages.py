"""Transparent huge pages are off on a TPU host.

## What it does

Checks the mode of transparent huge pages if there is a TPU.

## Why it costs time

The TPU runtime allocates and frees large buffers on the host. With small pages, starting and ending
take much longer. JAX prints the same warning on v5e and later.

## How it is detected

`/sys/kernel/mm/transparent_hugepage/enabled` is not `always`, the value that JAX checks.

## Example

```
always [madvise] never
```

## Fix

`sudo sh -c "echo always > /sys/kernel/mm/transparent_hugepage/enabled"`

## Fix safety

The setting affects all programs on the host, until it is restarted.

## References

- https://github.com/jax-ml/jax/blob/main/jax/_src/cloud_tpu_init.py
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.doctor.facts import HostFacts
from counterpoint.doctor.result import CheckResult, Status, not_applicable, ok, unknown

CODE: Final = "DOC307"
NAME: Final = "huge-pages"
SINCE: Final = "0.1"

_FILE: Final = "/sys/kernel/mm/transparent_hugepage/enabled"


def check(facts: HostFacts) -> Iterator[CheckResult]:
    """Yield one verdict, on TPU hosts only: no effect is documented elsewhere."""
    mode = facts.machine.huge_pages
    if not facts.tpu:
        yield not_applicable("no TPU")
    elif mode is None:
        yield unknown(f"there is no {_FILE}")
    elif mode == "always":
        yield ok("transparent huge pages: always")
    else:
        yield CheckResult(
            status=Status.WARNING,
            found=f"transparent huge pages: {mode}",
            wanted="always",
            why="with small pages, the TPU runtime takes long to start and end",
            remedy=f'sudo sh -c "echo always > {_FILE}"',
            source="https://github.com/jax-ml/jax/blob/main/jax/_src/cloud_tpu_init.py",
        )
