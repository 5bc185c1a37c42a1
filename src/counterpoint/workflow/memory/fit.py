"""What makes a step fit: changes of the settings, each compiled and priced.

The share of the memory that JAX's allocator takes comes first: it costs nothing, and near the limit
it also gives XLA's scheduler the room that overlap needs. What it leaves to NCCL, CUDA and kernels
bounds it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from counterpoint.hardware.target import Target
from counterpoint.workflow.forecast.ranking import FRACTION, RankedCandidate
from counterpoint.workflow.memory.budget import Budget

_FRACTIONS: Final = (0.80, 0.85, 0.90, 0.92, 0.95)
_LEAST_OUTSIDE: Final = 3 * 2**30
"""Bytes to leave outside of the pool: CUDA's contexts, NCCL's buffers, kernels."""
_TRIED: Final = 2
"""Shares that are tried: the smallest that hold the step."""
_OVERLAP: Final = (
    "--xla_gpu_enable_latency_hiding_scheduler=false",
    "--xla_gpu_enable_analytical_sol_latency_estimator=false",
)
_SLOP: Final = "--xla_gpu_memory_limit_slop_factor=80"
_COMBINING: Final = "--xla_gpu_all_gather_combine_threshold_bytes=1"


@dataclass(frozen=True, slots=True, kw_only=True)
class FitTry:
    """A change that was compiled: what it needs, what it may take, and the step."""

    settings: str
    needs: int | None
    available: int | None
    fits: bool | None
    step_ms: float | None
    change: float | None
    error: str | None


def fit_candidates(target: Target, needs: int, budget: Budget) -> list[str]:
    """Return the settings to try, as candidates of a prediction."""
    if target.tpu is not None:
        return []
    shares = [f"{FRACTION}={share:.2f}" for share in _shares(needs, budget)]
    return [*shares[:_TRIED], " ".join(_OVERLAP), _SLOP, _COMBINING]


def _shares(needs: int, budget: Budget) -> Iterator[float]:
    """Yield shares of the device that hold the step and leave enough beside it."""
    device = budget.device_bytes
    if device is None:
        return
    for share in _FRACTIONS:
        if share > budget.fraction and needs <= share * device <= device - _LEAST_OUTSIDE:
            yield share


def fit_tries(candidates: Sequence[RankedCandidate], base_step_s: float) -> list[FitTry]:
    """Return the candidates as tries: what fits first, by the step; then what needs least."""
    tries = [
        _try(candidate, base_step_s, candidate.name)
        for candidate in candidates
        if not candidate.is_base
    ]
    return sorted(
        tries,
        key=lambda it: (
            it.fits is not True,
            it.step_ms or float("inf") if it.fits else it.needs or float("inf"),
        ),
    )


def _try(candidate: RankedCandidate, base_step_s: float, name: str) -> FitTry:
    forecast = candidate.forecast
    if forecast is None:
        return FitTry(
            settings=name,
            needs=None,
            available=None,
            fits=None,
            step_ms=None,
            change=None,
            error=None if candidate.error is None else str(candidate.error),
        )
    return FitTry(
        settings=name,
        needs=forecast.memory.peak_bytes,
        available=forecast.memory.available_bytes,
        fits=forecast.memory.fits,
        step_ms=forecast.step_s * 1e3,
        change=forecast.step_s / base_step_s - 1 if base_step_s else None,
        error=None,
    )
