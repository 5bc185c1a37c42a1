"""Plugins for CUDA 12 and CUDA 13 are both installed.

## What it does

Finds more than one CUDA plugin of JAX in the environment.

## Why it costs time

Both plugins register a platform named `cuda`. The order in which they are found decides which one
compiles and runs, and libraries of the other may be loaded first.

## How it is detected

The check reads the names of installed packages: `jax-cuda12-plugin` and `jax-cuda13-plugin`. The
plugin to keep is the one that the driver supports; if both, the one with jaxlib's version; if both,
the newer one.

## Example

```
jax-cuda12-plugin 0.10.2 and jax-cuda13-plugin 0.10.2
```

## Fix

Uninstall the plugin that does not match the driver (CUDA 13 needs 580 or later) or jaxlib.

## Fix safety

This changes the environment: do it before a run, not during one.

## References

- https://docs.jax.dev/en/latest/installation.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.doctor.facts import HostFacts, InstalledPackages
from counterpoint.doctor.requirement import release_numbers
from counterpoint.doctor.result import CheckResult, Status, not_applicable, ok

CODE: Final = "DOC102"
NAME: Final = "cuda-plugins"
SINCE: Final = "0.1"

_THIRTEEN_FROM: Final = (580,)


def check(facts: HostFacts) -> Iterator[CheckResult]:
    """Yield one verdict on the installed plugins."""
    packages = facts.software.packages
    plugins = plugins_of(facts.software)
    if not plugins:
        yield not_applicable("no CUDA plugin of JAX is installed")
    elif len(plugins) == 1:
        yield ok(f"{plugins[0]} {packages[plugins[0]]}")
    else:
        drop = superfluous(facts)
        yield CheckResult(
            status=Status.ERROR if facts.has_driver else Status.WARNING,
            found=" and ".join(f"{name} {packages[name]}" for name in plugins),
            wanted=f"one of them: {', '.join(name for name in plugins if name not in drop)}",
            why="both register the platform `cuda`, and their order decides which one runs",
            remedy="pip uninstall -y "
            + " ".join(f"{name} {name.replace('-plugin', '-pjrt')}" for name in drop),
            source="https://docs.jax.dev/en/latest/installation.html",
        )


def plugins_of(software: InstalledPackages) -> tuple[str, ...]:
    """Return the CUDA plugins of JAX, by name."""
    names = sorted(software.packages)
    return tuple(name for name in names if name.startswith("jax-cuda") and name.endswith("-plugin"))


def superfluous(facts: HostFacts) -> tuple[str, ...]:
    """Return all plugins but the one to keep, which is the only one that other checks consider."""
    packages = facts.software.packages
    driver = release_numbers(facts.gpus.driver or "")
    jaxlib = release_numbers(packages.get("jaxlib", ""))

    def merit(name: str) -> tuple[bool, bool, str]:
        runs = not driver or driver >= _THIRTEEN_FROM or name.startswith("jax-cuda12")
        return runs, release_numbers(packages[name]) == jaxlib, name

    return tuple(sorted(plugins_of(facts.software), key=merit)[:-1])
