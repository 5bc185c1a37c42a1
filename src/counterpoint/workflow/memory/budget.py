"""The memory that a step may take: the allocator's pool, and what XLA's scheduler plans with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from counterpoint.hardware.target import Target
from counterpoint.workflow.forecast.ranking import MemoryFit, memory_fit

_SLOP: Final = "xla_gpu_memory_limit_slop_factor"
_USUAL_SLOP: Final = 95
_ALLOCATOR: Final = "XLA_PYTHON_CLIENT_ALLOCATOR"
_TPU_DOUBT: Final = 0.93
"""Share of a TPU's memory from which on libtpu's versions differ in what fits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What a step may take of a device's memory; None: unknown.

    `pool_bytes` is what JAX's allocator takes of the device, `outside_bytes` the rest, which CUDA,
    NCCL, cuDNN and kernels share. `scheduler_bytes` is what XLA's scheduler tries to keep the
    temporaries below: above it, it gives up overlap.
    """

    device_bytes: int | None
    pool_bytes: int | None
    fraction: float
    rule: str
    scheduler_bytes: int | None
    is_limit: bool = True

    @property
    def outside_bytes(self) -> int | None:
        if self.device_bytes is None or self.pool_bytes is None:
            return None
        return self.device_bytes - self.pool_bytes


def budget_of(
    target: Target,
    environment: Mapping[str, str],
    flags: Mapping[str, str],
    arguments: int,
    outputs_beside: int,
    fraction: float | None = None,
) -> Budget:
    """Return the budget of a step with these bytes of arguments, and of outputs beside them."""
    fit = memory_fit(None, target, environment, fraction)
    pool = fit.available_bytes
    is_asynchronous = environment.get(_ALLOCATOR, "").lower() == "cuda_async"
    return Budget(
        device_bytes=fit.memory_bytes,
        pool_bytes=pool,
        fraction=fit.fraction,
        rule=_rule(fit, is_asynchronous=is_asynchronous),
        scheduler_bytes=_scheduler_bytes(target, flags, pool, arguments + outputs_beside),
        is_limit=not is_asynchronous,
    )


def _rule(fit: MemoryFit, *, is_asynchronous: bool) -> str:
    if is_asynchronous:
        return "cuda_async grows beyond its share: only the device's memory is a limit"
    return fit.fraction_source


def _scheduler_bytes(
    target: Target, flags: Mapping[str, str], pool: int | None, held: int
) -> int | None:
    """Return the limit of temporaries: a share of what arguments and outputs leave of the pool."""
    if target.tpu is not None or pool is None:
        return None
    try:
        slop = int(flags.get(_SLOP, _USUAL_SLOP))
    except ValueError:
        slop = _USUAL_SLOP
    return int((pool - held) * slop / 100)


class Verdict(StrEnum):
    """Whether a step fits, in words."""

    FITS = "fits"
    DOES_NOT = "does not fit"
    MAY_NOT = "may not fit"
    UNKNOWN = "unknown"


def verdict_of(needs: int, budget: Budget, *, on_tpus: bool) -> Verdict:
    """Return whether a need fits; near a TPU's limit libtpu's versions differ."""
    limit = budget.pool_bytes if budget.is_limit else budget.device_bytes
    if limit is None:
        return Verdict.UNKNOWN
    if needs > limit:
        return Verdict.DOES_NOT
    if on_tpus and needs > _TPU_DOUBT * limit:
        return Verdict.MAY_NOT
    return Verdict.FITS
