"""Pipelined send and recv with a decomposer threshold break the compile of pipelines.

## What it does

Finds `xla_gpu_enable_pipelined_p2p=true` together with
`xla_gpu_collective_permute_decomposer_threshold`, from jaxlib 0.10.2 on.

## Why it costs time

Programs with pipeline parallelism, for which these flags are intended, don't compile: the compilers
of 0.10.2, 0.11 and 0.12 fail with `raw_hash_map<>::at` or "A cycle is detected while visiting
instruction". A single collective-permute in a loop did compile.

## How it is detected

The rule reports if both are set, or if the threshold is set and the other flag is on by default.

## Example

```sh jaxlib=0.10.2
export XLA_FLAGS="--xla_gpu_enable_pipelined_p2p=true
  --xla_gpu_collective_permute_decomposer_threshold=1024"
```

## Fix

Remove `xla_gpu_enable_pipelined_p2p`, and use
`--xla_gpu_experimental_pipeline_parallelism_opt_level=PIPELINE_PARALLELISM_OPT_LEVEL_ENABLE`, which
replaces it.

## Fix safety

It changes the program; reported only.

## References

- https://docs.jax.dev/en/latest/gpu_performance_tips.html
- https://github.com/openxla/xla/blob/main/xla/service/gpu/gpu_compiler.cc
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.flags.lint import (
    Fix,
    LintContext,
    Remark,
    Severity,
    flag_on,
    remark,
    since,
    threshold,
)

CODE: Final = "FLAG405"
NAME: Final = "pipelined-p2p-decomposed"
SINCE: Final = "0.1"

_P2P: Final = "xla_gpu_enable_pipelined_p2p"
_THRESHOLD: Final = "xla_gpu_collective_permute_decomposer_threshold"
_LEVEL: Final = "xla_gpu_experimental_pipeline_parallelism_opt_level"
_NEVER: Final = 2**63 - 1


def check(case: LintContext) -> Iterator[Remark]:
    """Yield at most one remark, on the flag to remove."""
    given = case.last(_P2P)
    if given is None or not flag_on(case, _P2P) or not since(case, "0.10.2"):
        return
    if (threshold(case, _THRESHOLD) or _NEVER) < _NEVER:
        yield remark(
            CODE,
            Severity.WARNING,
            given,
            f"with {_THRESHOLD} the compiler fails on pipelines",
            f"remove it; --{_LEVEL}=PIPELINE_PARALLELISM_OPT_LEVEL_ENABLE replaces it",
            Fix(((_LEVEL, "PIPELINE_PARALLELISM_OPT_LEVEL_ENABLE"),), safe=False),
        )
