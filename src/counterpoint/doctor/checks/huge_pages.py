"""Transparent huge pages are off on a TPU host.

## What it does

Looks at the mode of transparent huge pages where there is a TPU.

## Why it costs time

The TPU runtime allocates and frees large buffers on the host: with small pages it starts and ends
much more slowly. JAX warns of the same on v5e and later.

## How it is detected

`/sys/kernel/mm/transparent_hugepage/enabled` does not choose `always`, which is what JAX looks for.

## Example

```
always [madvise] never
```

## Fix

`sudo sh -c "echo always > /sys/kernel/mm/transparent_hugepage/enabled"`

## Fix safety

It holds until the host starts again, and for all programs of the host.

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
        yield not_applicable("no TPU here")
    elif mode is None:
        yield unknown(f"there is no {_FILE}")
    elif mode == "always":
        yield ok("transparent huge pages: always")
    else:
        yield CheckResult(
            status=Status.WARNING,
            found=f"transparent huge pages: {mode}",
            wanted="always",
            why="the TPU runtime starts and ends slowly with small pages",
            remedy=f'sudo sh -c "echo always > {_FILE}"',
            source="https://github.com/jax-ml/jax/blob/main/jax/_src/cloud_tpu_init.py",
        )
