"""The driver is too old for the plugin's CUDA, or there is no plugin for it.

## What it does

Compares the NVIDIA driver with the CUDA release of JAX's plugin.

## Why it costs time

An older driver can't load the kernels: JAX falls back to the CPU or exits. Without a plugin, JAX
does not use the GPUs.

## How it is detected

CUDA 13 needs driver 580 or later, CUDA 12 needs 525 or later. The version is that of `nvidia-smi`
or `/proc/driver/nvidia/version`. NVIDIA's forward-compatibility package (`cuda-compat`) in
LD_LIBRARY_PATH allows an older driver on data center GPUs, which is a note.

## Example

```
driver 535.183.01 with jax-cuda13-plugin
```

## Fix

Update the driver, or install the plugin for the older CUDA.

## Fix safety

Updating a driver needs an administrator; a plugin can be replaced in a new environment.

## False alarms

None known: the minimum versions are NVIDIA's.

## References

- https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html
- https://docs.jax.dev/en/latest/installation.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from counterpoint.doctor.facts import HostFacts
from counterpoint.doctor.requirement import release_numbers
from counterpoint.doctor.result import CheckResult, Status, not_applicable, ok

CODE: Final = "DOC103"
NAME: Final = "driver"
SINCE: Final = "0.1"

_LEAST: Final = {"12": (525, 60, 13), "13": (580, 65, 6)}
_SHOWN: Final = {"12": "525.60.13", "13": "580.65.06"}
_SOURCE: Final = (
    "https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html"
)
_PLUGIN: Final = re.compile(r"jax-cuda(\d+)-plugin")


def check(facts: HostFacts) -> Iterator[CheckResult]:
    """Yield one verdict for each CUDA plugin."""
    releases = [match[1] for name in facts.software.packages if (match := _PLUGIN.fullmatch(name))]
    driver = facts.gpus.driver
    if driver is None:
        yield not_applicable(facts.gpus.why_none)
    elif not facts.software.packages:
        yield not_applicable("this Python has no jax")
    elif not releases:
        yield CheckResult(
            status=Status.WARNING,
            found=f"driver {driver}, and no CUDA plugin of JAX",
            wanted="a plugin for a CUDA release that the driver supports",
            why="JAX would not see the GPUs and would run on the CPU",
            remedy=f"pip install"
            f" 'jax[cuda{'13' if release_numbers(driver) >= _LEAST['13'] else '12'}]'",
            source="https://docs.jax.dev/en/latest/installation.html",
        )
    else:
        yield from (_held(facts, driver, release) for release in releases)


def _held(facts: HostFacts, driver: str, release: str) -> CheckResult:
    least = _LEAST.get(release)
    if least is None:
        return CheckResult(
            status=Status.UNKNOWN,
            found=f"driver {driver}; the requirement of CUDA {release} is unknown",
        )
    if release_numbers(driver) >= least:
        return ok(f"driver {driver} supports CUDA {release}")
    compatible = "compat" in facts.environment.get("LD_LIBRARY_PATH", "")
    return CheckResult(
        status=Status.NOTE if compatible else Status.ERROR,
        found=f"driver {driver} with the plugin for CUDA {release}"
        + (", with the forward-compatibility package" if compatible else ""),
        wanted=f"driver {_SHOWN[release]} or later",
        why="an older driver can't load the kernels of a newer CUDA",
        remedy=_remedy(release, compatible),
        source=_SOURCE,
    )


def _remedy(release: str, compatible: bool) -> str:
    if compatible:
        return "nvidia-smi   # works until an administrator updates the driver"
    update = "sudo apt-get install nvidia-open   # or your distribution's name of the driver"
    return update if release == "12" else "pip install 'jax[cuda12]'   # or a newer driver"
