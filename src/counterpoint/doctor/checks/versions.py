"""Installed versions are incompatible.

## What it does

Compares the versions of JAX, its plugins and NVIDIA's libraries with their own metadata.

## Why it costs time

jaxlib ignores a plugin of another version with a warning, and the run uses the CPU. Other
combinations fail at the first compilation, or crash in a library call.

## How it is detected

The check reads the metadata of the packages installed where the doctor runs: `Requires-Dist` of
jax, its plugins, flax, optax, orbax and others. A plugin must have jaxlib's version, as jaxlib
itself requires. Requirements of an extra (`jax[tpu]`, `with-cuda`) apply to installed packages.
ROCm plugins have their own version numbers and are ignored, as jaxlib does. Of two CUDA plugins,
the one that cuda-plugins would uninstall is ignored.

## Example

```
jax-cuda12-plugin 0.9.0 with jaxlib 0.10.2
```

## Fix

Install them with one command, so that pip resolves all of them: `pip install -U "jax[cuda12]"`.

## Fix safety

Other versions compile other programs: measure again.

## False alarms

Requirements with unsupported markers are ignored. A library that was replaced on purpose (a newer
NCCL) is a warning as long as the metadata does not allow it.

## References

- https://github.com/jax-ml/jax/blob/main/jaxlib/plugin_support.py
- https://docs.jax.dev/en/latest/installation.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.doctor.checks.cuda_plugins import plugins_of, superfluous
from counterpoint.doctor.facts import HostFacts, InstalledPackages
from counterpoint.doctor.requirement import (
    Requirement,
    normalized_name,
    parse_requirement,
    release_numbers,
)
from counterpoint.doctor.result import CheckResult, Status, not_applicable, ok

CODE: Final = "DOC101"
NAME: Final = "versions"
SINCE: Final = "0.1"

_SOURCE: Final = "the packages' own metadata"
_PLUGIN: Final = "https://github.com/jax-ml/jax/blob/main/jaxlib/plugin_support.py"
_MUST: Final = ("jaxlib", "jax", "jax-cuda12-pjrt", "jax-cuda13-pjrt")
_EXTRAS: Final = ("with-cuda", "tpu")
"""Extras for which the package was built; other extras may never have been requested."""


def check(facts: HostFacts) -> Iterator[CheckResult]:
    """Yield verdicts on unmet requirements, and on plugins that jaxlib will ignore."""
    software = facts.software
    if "jax" not in software.packages and "jaxlib" not in software.packages:
        yield not_applicable("this Python has no jax; run the doctor with the Python of the run")
        return
    drop = superfluous(facts)
    faults = [*_plugins(software, drop), *_unmet(software, drop)]
    yield from faults
    if not faults:
        jax, jaxlib = software.packages.get("jax", "?"), software.packages.get("jaxlib", "?")
        yield ok(f"Python {software.python}, jax {jax}, jaxlib {jaxlib} and their requirements")


def _plugins(software: InstalledPackages, drop: tuple[str, ...]) -> Iterator[CheckResult]:
    jaxlib = software.packages.get("jaxlib")
    for name in plugins_of(software):
        version = software.packages[name]
        if name in drop or jaxlib is None or release_numbers(version) == release_numbers(jaxlib):
            continue
        yield CheckResult(
            status=Status.ERROR,
            found=f"{name} {version} with jaxlib {jaxlib}",
            wanted=f"{name} {jaxlib}",
            why="jaxlib ignores a plugin of another version: JAX would run on the CPU",
            remedy=f"pip install {name}=={jaxlib} {name.replace('plugin', 'pjrt')}=={jaxlib}",
            source=_PLUGIN,
        )


def _unmet(software: InstalledPackages, drop: tuple[str, ...]) -> Iterator[CheckResult]:
    for owner, lines in software.requires.items():
        if owner.replace("-pjrt", "-plugin") in drop:
            continue
        for requirement in filter(
            None, (parse_requirement(line, software.python) for line in lines)
        ):
            have = software.packages.get(requirement.name)
            if requirement.extra and (
                requirement.extra not in _EXTRAS or requirement.name in _MUST or have is None
            ):
                continue
            if have is None and normalized_name(requirement.name) in _MUST:
                yield _verdict(owner, requirement, "nothing", Status.ERROR)
            elif have is not None and not requirement.takes(have):
                grave = requirement.name in _MUST and requirement.extra is None
                yield _verdict(owner, requirement, have, Status.ERROR if grave else Status.WARNING)


def _verdict(owner: str, requirement: Requirement, have: str, status: Status) -> CheckResult:
    extra = f"[{requirement.extra}]" if requirement.extra else ""
    return CheckResult(
        status=status,
        found=f"{requirement.name} {have}, but {owner}{extra} requires {requirement.text or 'any'}",
        wanted=f"{requirement.name}{requirement.text}",
        why="these versions were not built or tested together",
        remedy=f"pip install '{requirement.name}{requirement.text}'",
        source=_SOURCE,
    )
