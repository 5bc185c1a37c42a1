"""Command buffers hide instructions from the profile that PGLE needs.

## What it does

For a run whose recording becomes a PGLE profile, checks that command buffers (CUDA graphs) are off
while it is profiled.

## Why it costs time

Kernels inside a CUDA graph carry no instruction name. Their costs are missing in the profile, and
the scheduler has to guess them.

## How it is detected

XLA runs without command buffers while JAX's profiler records, so they interfere in two cases only:
with `xla_enable_command_buffers_during_profiling=true`, and in a recording by Nsight Systems, which
XLA does not detect: `nsys profile` in a script or command, or the variables that it sets. The rule
applies to settings for such a run (`--profiling`), if AutoPGLE is on, and, as a note, to any
recording by Nsight Systems. From 0.5.0 on, AutoPGLE itself compiles its first runs without command
buffers (read in jax/_src/compiler.py of each release; 0.4.38 does not); before, they had to be
turned off.

## Example

```sh jaxlib=0.10.2 profiling=true
export XLA_FLAGS=--xla_enable_command_buffers_during_profiling=true
```

## Fix

For the profiled run, set `--xla_gpu_enable_command_buffer=`, or remove the flag.

## Fix safety

Removing the flag is safe: the results stay the same. What is missing is not added, since it is for
the recorded run only. Don't compare the timing of this run with others.

## References

- https://github.com/openxla/xla/blob/main/xla/backends/gpu/runtime/command_buffer_thunk.cc
- https://github.com/jax-ml/jax/blob/main/jax/_src/compiler.py (_resolve_compilation_strategy)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from counterpoint.flags.lint import (
    Fix,
    LintContext,
    Remark,
    Severity,
    flag_on,
    flag_value,
    is_yes,
    remark,
    since,
    under_nsys,
    whole_source,
)
from counterpoint.flags.settings import Channel

CODE: Final = "FLAG403"
NAME: Final = "command-buffers-in-profile"
SINCE: Final = "0.1"

_BUFFERS: Final = "xla_gpu_enable_command_buffer"
_AUTOMATIC: Final = "0.5.0"
"""The first release of JAX whose AutoPGLE sets the flag itself."""
_KEPT: Final = "xla_enable_command_buffers_during_profiling"
_OFF: Final = Fix(((_BUFFERS, ""),), safe=False)


def check(case: LintContext) -> Iterator[Remark]:
    """Yield at most one remark."""
    automatic = is_yes(case.variables.get("JAX_ENABLE_PGLE"))
    nsys = under_nsys(case)
    if not (case.profiling or automatic or nsys) or not flag_value(case, _BUFFERS):
        return
    during_profiling = case.last(_KEPT)
    if during_profiling is not None and flag_on(case, _KEPT):
        yield remark(
            CODE,
            Severity.WARNING,
            during_profiling,
            "with it the profile has no instruction names for kernels in CUDA graphs",
            "remove it",
            Fix(),
        )
    elif nsys or (automatic and not since(case, _AUTOMATIC)):
        who = "Nsight Systems" if nsys else "AutoPGLE"
        yield Remark(
            code=CODE,
            severity=Severity.WARNING if case.profiling or automatic else Severity.NOTE,
            channel=Channel.XLA_FLAGS,
            name=_BUFFERS,
            text="",
            place=replace(whole_source(case), line=case.written.nsys_line if nsys else None),
            message=f"CUDA graphs are on, and {who} sees no instruction names inside them",
            advice=f"add --{_BUFFERS}=",
            fix=_OFF,
        )
