"""The options that a compile assumes where the user gives none, so that it matches a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from counterpoint.compile.allocator import MEMORY_VARIABLES, memory_fraction, planned_bytes
from counterpoint.compile.channels import AUTOTUNED
from counterpoint.compile.inputs.workload import Workload
from counterpoint.compile.task import CompileTask
from counterpoint.hardware.target import Target

_TRITON_GEMM: Final = "xla_gpu_enable_triton_gemm"
_SLOP: Final = "xla_gpu_memory_limit_slop_factor"
_MOST_SLOP: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class AssumedOptions:
    """The options to compile with, and notes on what was assumed."""

    options: Mapping[str, str]
    notes: tuple[str, ...]
    memory_fraction: float  # share of the device's memory that JAX's allocator takes
    planned_bytes: int | None  # the same in bytes; None if a run has no limit either


def assumed_options(
    workload: Workload,
    target: Target,
    options: Mapping[str, str],
    environment: Mapping[str, str],
) -> AssumedOptions:
    """Return the user's options, plus those that match a run on the device.

    GEMMs that no autotuner chose become library calls. Each compile lets the scheduler plan with
    what JAX's allocator would take (XLA_PYTHON_CLIENT_MEM_FRACTION in `environment`, else JAX's
    default), which needs no option.
    """
    if target.tpu is not None:
        return AssumedOptions(
            options=options, notes=(), memory_fraction=1.0, planned_bytes=target.memory_bytes
        )
    task = CompileTask(workload=workload, target=target, options=options, environment=environment)
    chosen = dict(options)
    if _has_toy_gemms(task):
        chosen[_TRITON_GEMM] = "false"
    return AssumedOptions(
        options=chosen,
        notes=tuple(_notes(task, chosen)),
        memory_fraction=memory_fraction(environment),
        planned_bytes=planned_bytes(target.config, environment),
    )


def _has_toy_gemms(task: CompileTask) -> bool:
    """Return whether XLA would take its first Triton kernel, for lack of the autotuner."""
    return not (task.has_kernels or AUTOTUNED in task.flags or _TRITON_GEMM in task.flags)


def _notes(task: CompileTask, chosen: Mapping[str, str]) -> Iterator[str]:
    if chosen.get(_TRITON_GEMM) == "false" and _TRITON_GEMM not in task.options:
        yield (
            "GEMMs are compiled as library calls, because choosing a kernel needs the device; they"
            f" are priced by their shapes (--set {_TRITON_GEMM}=true compiles Triton's)"
        )
    planned = planned_bytes(task.target.config, task.environment)
    fraction = memory_fraction(task.environment)
    if planned is not None:
        whose = "as set" if any(map(task.environment.get, MEMORY_VARIABLES)) else "JAX's default"
        yield (
            f"the compiler plans with {planned / 2**30:.1f} GiB, {fraction:.0%} of the device's"
            f" ({whose}); if your run differs, pass --env XLA_PYTHON_CLIENT_MEM_FRACTION=N"
        )
    slop = task.flags.get(_SLOP, "")
    if slop.isdigit() and int(slop) > _MOST_SLOP:
        yield (
            f"{_SLOP}={slop} lets the scheduler plan with more than the allocator has; to compile"
            " as a run with more memory does, set XLA_PYTHON_CLIENT_MEM_FRACTION instead"
        )
