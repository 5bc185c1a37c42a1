"""The driver is too old for the CUDA of the plugin, or does not meet a plugin at all.

## What it does

Compares the NVIDIA driver with the CUDA release that JAX's plugin brings.

## Why it costs time

With an older driver no kernel can be loaded: JAX falls back to the CPU or ends. A GPU without a
plugin does nothing.

## How it is detected

CUDA 13 needs driver 580 or later, CUDA 12 525 or later. The driver is what `nvidia-smi` or
`/proc/driver/nvidia/version` says. NVIDIA's forward-compatibility package (`cuda-compat`) in
LD_LIBRARY_PATH allows an older driver on data-centre GPUs: then it is a note.

## Example

```
driver 535.183.01 with jax-cuda13-plugin
```

## Fix

Update the driver, or install the plugin for the older CUDA.

## Fix safety

A driver is the administrator's; a plugin can be exchanged in a new environment.

## False alarms

None known: the least versions are NVIDIA's.

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
        yield not_applicable("no jax is installed for this Python")
    elif not releases:
        yield CheckResult(
            status=Status.WARNING,
            found=f"driver {driver}, and no CUDA plugin of JAX",
            wanted="a plugin for the CUDA that the driver can run",
            why="JAX would not see the GPUs and run on the CPU",
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
            status=Status.UNKNOWN, found=f"driver {driver}; what CUDA {release} needs is not known"
        )
    if release_numbers(driver) >= least:
        return ok(f"driver {driver} runs CUDA {release}")
    compatible = "compat" in facts.environment.get("LD_LIBRARY_PATH", "")
    return CheckResult(
        status=Status.NOTE if compatible else Status.ERROR,
        found=f"driver {driver} with the plugin for CUDA {release}"
        + (", by the forward-compatibility package" if compatible else ""),
        wanted=f"driver {_SHOWN[release]} or later",
        why="an older driver does not load the kernels of a newer CUDA",
        remedy=_remedy(release, compatible),
        source=_SOURCE,
    )


def _remedy(release: str, compatible: bool) -> str:
    if compatible:
        return "nvidia-smi   # the driver is the administrator's; the package does until then"
    update = "sudo apt-get install nvidia-open   # or as the distribution names the driver"
    return update if release == "12" else "pip install 'jax[cuda12]'   # or a newer driver"
