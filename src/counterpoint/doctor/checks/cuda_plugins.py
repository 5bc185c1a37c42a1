"""Plugins for CUDA 12 and CUDA 13 are both installed.

## What it does

Finds two CUDA plugins of JAX in one environment.

## Why it costs time

Both register a platform named `cuda`; which one compiles and runs is decided by the order in which
they are found, and the libraries of the other may be loaded first.

## How it is detected

By the names of installed packages: `jax-cuda12-plugin` and `jax-cuda13-plugin`.

## Example

```
jax-cuda12-plugin 0.10.2 and jax-cuda13-plugin 0.10.2
```

## Fix

Uninstall the one that the driver does not need: CUDA 13 needs driver 580 or later.

## Fix safety

The environment changes: do it before a run, never during one.

## References

- https://docs.jax.dev/en/latest/installation.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.doctor.facts import Facts
from counterpoint.doctor.requirement import numbers
from counterpoint.doctor.verdict import Status, Verdict, not_applicable, ok

CODE: Final = "DOC102"
NAME: Final = "cuda-plugins"
SINCE: Final = "0.1"

_THIRTEEN_FROM: Final = (580,)


def check(facts: Facts) -> Iterator[Verdict]:
    """At most one."""
    packages = facts.software.packages
    found = [name for name in packages if name.startswith("jax-cuda") and name.endswith("-plugin")]
    if not found:
        yield not_applicable("no CUDA plugin of JAX is installed")
    elif len(found) == 1:
        yield ok(f"{found[0]} {packages[found[0]]}")
    else:
        driver = numbers(facts.gpus.driver or "")
        old = "13" if driver and driver < _THIRTEEN_FROM else "12"
        yield Verdict(
            status=Status.ERROR if facts.has_driver else Status.WARNING,
            found=" and ".join(f"{name} {packages[name]}" for name in sorted(found)),
            wanted="one of them",
            why="both register the platform `cuda`: which one runs depends on their order",
            remedy=f"pip uninstall -y jax-cuda{old}-plugin jax-cuda{old}-pjrt",
            source="https://docs.jax.dev/en/latest/installation.html",
        )
