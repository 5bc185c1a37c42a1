"""LD_LIBRARY_PATH puts other CUDA libraries before those that pip installed.

## What it does

Finds libraries of NVIDIA's (cuDNN, NCCL, cuBLAS, CUPTI, ...) in directories of `LD_LIBRARY_PATH`
while pip's wheels of the same libraries are installed.

## Why it costs time

The loader takes the first it finds: an older cuDNN fails at the first convolution, an older NCCL
lacks what XLA asks for, and another CUPTI makes profiles without kernels.

## How it is detected

File names in those directories, beside the names of installed wheels. Without wheels
(`jax[cuda12-local]`) the path is how the libraries are meant to be found, and nothing is said.

## Example

```
LD_LIBRARY_PATH=/usr/local/cuda/lib64, with libcudnn.so.9, beside nvidia-cudnn-cu12
```

## Fix

`unset LD_LIBRARY_PATH` where the run starts.

## Fix safety

Other programs of the same job may need the path.

## False alarms

A plugin of the network (`libnccl-net.so`) is not a library of this kind and not spoken of.

## References

- https://docs.jax.dev/en/latest/installation.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.doctor.facts import HostFacts
from counterpoint.doctor.result import CheckResult, Status, not_applicable, ok

CODE: Final = "DOC104"
NAME: Final = "library-path"
SINCE: Final = "0.1"


def check(facts: HostFacts) -> Iterator[CheckResult]:
    """Yield one verdict on libraries that hide those of the wheels."""
    wheels = [name for name in facts.software.packages if name.startswith("nvidia-")]
    shadowing = facts.software.shadowing
    if not wheels:
        yield not_applicable("no libraries of NVIDIA's were installed by pip")
    elif not shadowing:
        yield ok("nothing in LD_LIBRARY_PATH hides the installed CUDA libraries")
    else:
        more = f" and {len(shadowing) - 3} more" if len(shadowing) > 3 else ""
        yield CheckResult(
            status=Status.WARNING,
            found=f"LD_LIBRARY_PATH has {', '.join(shadowing[:3])}{more}",
            wanted="the libraries of the wheels that jax was installed with",
            why="the loader takes what it finds first, of whatever version",
            remedy="unset LD_LIBRARY_PATH",
            source="https://docs.jax.dev/en/latest/installation.html",
        )
