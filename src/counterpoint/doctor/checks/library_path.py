"""LD_LIBRARY_PATH puts other CUDA libraries before those installed by pip.

## What it does

Finds NVIDIA libraries (cuDNN, NCCL, cuBLAS, CUPTI, ...) in directories of `LD_LIBRARY_PATH`
although pip wheels of the same libraries are installed.

## Why it costs time

The loader uses the first library that it finds: an older cuDNN fails at the first convolution, an
older NCCL lacks functions that XLA needs, and another CUPTI records profiles without kernels.

## How it is detected

The check compares the file names in those directories and the names of installed wheels. Without
wheels (`jax[cuda12-local]`), LD_LIBRARY_PATH is the intended way to find the libraries.

## Example

```
LD_LIBRARY_PATH=/usr/local/cuda/lib64, with libcudnn.so.9 and nvidia-cudnn-cu12 installed
```

## Fix

`unset LD_LIBRARY_PATH` where the run is started.

## Fix safety

Other programs of the same job may need it.

## False alarms

A network plugin (`libnccl-net.so`) is not one of these libraries and is ignored.

## References

- https://docs.jax.dev/en/latest/installation.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.core.printable import some
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
        yield not_applicable("pip installed no NVIDIA libraries")
    elif not shadowing:
        yield ok("nothing in LD_LIBRARY_PATH hides the installed CUDA libraries")
    else:
        yield CheckResult(
            status=Status.WARNING,
            found=f"LD_LIBRARY_PATH has {some(shadowing, 3)}",
            wanted="the libraries of the wheels installed with jax",
            why="the loader uses the first library that it finds, of any version",
            remedy="unset LD_LIBRARY_PATH",
            source="https://docs.jax.dev/en/latest/installation.html",
        )
