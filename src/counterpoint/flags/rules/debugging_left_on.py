"""Debugging settings are on.

## What it does

Finds settings for debugging that slow a run down, or fill a disk.

## Why it costs time

`CUDA_LAUNCH_BLOCKING=1` waits for every kernel, so that nothing overlaps; NaN checks fetch each
result, or check the output of each kernel; verifying Triton fusions runs them twice; NCCL traces
are written for every call.

## How it is detected

The rule compares names and values with a list. Dumps of every pass are a warning: they are
gigabytes for a large model. What costs less, such as a dump directory or `NCCL_DEBUG=INFO`, is one
note for all, and only in a job: a Slurm script, a manifest, a command for several processes.

## Example

```sh jaxlib=0.10.2
export CUDA_LAUNCH_BLOCKING=1
```

## Fix

Remove it once the error is found.

## Fix safety

Reported only: it may be intended.

## References

- https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#env-vars
- https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html
- https://docs.jax.dev/en/latest/debugging/flags.html
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from counterpoint.flags.lint import TRUE, Fix, LintContext, Remark, Severity, is_yes, remark
from counterpoint.flags.parsed import Occurrence

CODE: Final = "FLAG409"
NAME: Final = "debugging-left-on"
SINCE: Final = "0.1"


def _is(*values: str) -> Callable[[str], bool]:
    return lambda text: text.lower() in values


def _true(text: str) -> bool:
    return text.lower() in TRUE


def _all_passes(text: str) -> bool:
    return text in (".*", ".+", "*")


@dataclass(frozen=True, slots=True)
class Leftover:
    """A setting, its debugging values, and their cost."""

    name: str
    means: Callable[[str], bool]
    costs: str
    severity: Severity = Severity.WARNING


_SERIAL: Final = "every kernel is waited for, so that nothing overlaps"
LEFTOVERS: Final = (
    Leftover("CUDA_LAUNCH_BLOCKING", _is("1"), _SERIAL),
    Leftover("HIP_LAUNCH_BLOCKING", _is("1"), _SERIAL),
    Leftover("AMD_SERIALIZE_KERNEL", _is("1", "2", "3"), _SERIAL),
    Leftover("NCCL_DEBUG", _is("trace"), "NCCL logs every call"),
    Leftover("NCCL_DEBUG_SUBSYS", _is("all"), "NCCL logs everything", Severity.NOTE),
    Leftover("NCCL_P2P_DISABLE", _is("1"), "GPUs communicate through host memory, not NVLink"),
    Leftover("NCCL_CHECK_POINTERS", _is("1"), "NCCL checks every pointer"),
    Leftover("JAX_DISABLE_JIT", is_yes, "nothing is compiled: each operation runs separately"),
    Leftover("JAX_DEBUG_NANS", is_yes, "each result is fetched and searched for NaN"),
    Leftover("JAX_DEBUG_INFS", is_yes, "each result is fetched and searched for infinities"),
    Leftover("JAX_CHECK_TRACER_LEAKS", is_yes, "traces are not cached"),
    Leftover("JAX_ENABLE_CHECKS", is_yes, "JAX checks itself at every step of tracing"),
    Leftover("JAX_DISABLE_MOST_OPTIMIZATIONS", is_yes, "XLA skips most optimizations"),
    Leftover("XLA_PYTHON_CLIENT_ALLOCATOR", _is("platform"), "each array is allocated separately"),
    Leftover("xla_dump_hlo_pass_re", _all_passes, "each pass writes a file, gigabytes in all"),
    Leftover("xla_hlo_profile", _true, "each operation is timed separately"),
    Leftover("xla_gpu_verify_triton_fusion_numerics", _true, "each fusion is computed twice"),
    Leftover("xla_gpu_disable_gpuasm_optimizations", _true, "ptxas optimizes nothing"),
    Leftover("xla_gpu_log_minmax", _true, "every result is searched and logged"),
)


_SMALL: Final = (
    Leftover("xla_dump_to", bool, "each compiled module is written to files"),
    Leftover("xla_gpu_autotune_level", _is("0"), "no variants of kernels are tried"),
    Leftover("xla_gpu_deterministic_ops", _true, "kernels are not tuned, and slower"),
    Leftover("NCCL_DEBUG", _is("info"), "each rank logs many lines as it starts"),
)
"""What costs little, or time only while it compiles."""
_JOBS: Final = ("slurm", "kubernetes")


def check(case: LintContext) -> Iterator[Remark]:
    """Yield one remark for each leftover, and one for all that cost little in a job."""
    for leftover, given in _on(case, LEFTOVERS):
        yield remark(
            CODE,
            leftover.severity,
            given,
            leftover.costs,
            "remove it unless you are debugging",
            Fix(safe=False),
        )
    small = [*_on(case, _SMALL)] if _is_job(case) else []
    if small:
        costs = "; ".join(
            leftover.costs if len(small) == 1 else f"{given.text}: {leftover.costs}"
            for leftover, given in small
        )
        them = "it" if len(small) == 1 else "them"
        advice = f"remove {them} unless you are debugging"
        yield remark(CODE, Severity.NOTE, small[0][1], costs, advice, Fix(safe=False))


def _on(case: LintContext, leftovers: Iterable[Leftover]) -> Iterator[tuple[Leftover, Occurrence]]:
    known = {**case.flags, **case.variables}
    for leftover in leftovers:
        given = case.last(leftover.name)
        if given and leftover.means(known.get(leftover.name, given.meant)):
            yield leftover, given


def _is_job(case: LintContext) -> bool:
    layout = case.written.layout
    counts = (layout.hosts, layout.processes_per_host) if layout else ()
    return case.written.form in _JOBS or any(count and count > 1 for count in counts)
