"""What a version of the compiler can't do without the device, where it matters to a task.

Before jaxlib 0.12 a compile without the device is not told how hosts and GPUs are arranged (its
`slice_size` stays 0): the same program comes out for 8x8 and for 64, XLA's own estimator takes its
defaults, and a windowed einsum, whose steps are at most the slice's GPUs, is impossible.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.compile.task import Task

_TOLD_OF_HOSTS: Final = (0, 12)
_USUAL_HOST: Final = 8
_ESTIMATOR: Final = "xla_gpu_analytical_latency_estimator_options"
_WINDOWED: Final = "xla_gpu_threshold_for_windowed_einsum_mib"
_NEVER: Final = 100_000
"""XLA's default threshold of a windowed einsum, in MiB: out of reach."""


def limit_notes(task: Task, jaxlib: str) -> Iterator[str]:
    """What is otherwise than on the device, for this task."""
    target, options = task.target, task.flags
    if _version(jaxlib) < _TOLD_OF_HOSTS:
        if _number(options.get(_WINDOWED)) < _NEVER:
            yield (
                f"{_WINDOWED} does nothing here: before jaxlib 0.12 XLA is not told without the"
                " device how many GPUs share NVLink. A run may have windowed einsums"
            )
        if target.hosts > 1 and target.gpus_per_host != _USUAL_HOST and _ESTIMATOR not in options:
            yield (
                f"XLA before 0.12 is not told without the device that a host has"
                f" {target.gpus_per_host} GPUs: its scheduler's own estimates are those of its"
                " defaults, and the order of collectives may differ from a run's"
            )
    if "matrix_unit_description" not in target.config:
        yield (
            "the target's description says nothing of matrix units: XLA's own estimates of GEMMs,"
            " which order the schedule, are about 10 times off"
        )


def _number(text: str | None) -> float:
    try:
        return float(text) if text is not None else float("inf")
    except ValueError:
        return float("inf")


def _version(text: str) -> tuple[int, ...]:
    parts = text.split(".")[:2]
    return tuple(int(part) for part in parts) if all(part.isdigit() for part in parts) else ()
