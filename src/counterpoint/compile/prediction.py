"""What a compile without the device has to be told, so that it schedules as a run would."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from counterpoint.compile.workload import Workload
from counterpoint.hardware.target import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class ForPrediction:
    """Options to compile with, and what was assumed on the way."""

    options: Mapping[str, str]
    notes: tuple[str, ...]
    memory_fraction: float  # of the device's memory, which JAX's allocator takes


def for_prediction(
    workload: Workload,
    target: Target,
    options: Mapping[str, str],
    environment: Mapping[str, str],
) -> ForPrediction:
    """The user's options, and what a run on the device has without being told.

    Kernels without the autotuner are library calls, and the scheduler may use what JAX's allocator
    would take (XLA_PYTHON_CLIENT_MEM_FRACTION in `environment`, else JAX's default).
    """
    raise NotImplementedError
