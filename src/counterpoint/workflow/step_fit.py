"""Fit scalars to step times alone: programs, their targets, and how long a step took.

A step time is one number for five scalars, so it can't decide them all. Each scalar therefore
starts from the value it has and is moved only as far as its own uncertainty (`reach`) makes it
likely: least squares over log errors of the steps, and over log moves in units of the reach.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from counterpoint.cost.scalars import Scalars
from counterpoint.hardware import Target
from counterpoint.hlo import Program
from counterpoint.workflow.calibration import Calibration


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredStep:
    """A compiled program, where it ran, and the step time that was measured there."""

    name: str
    program: Program
    target: Target
    seconds: float


StepOf = Callable[[MeasuredStep, Scalars], float]
"""Predicted seconds of a step under scalars."""


def calibrate_steps(
    steps: Sequence[MeasuredStep],
    start: Scalars,
    *,
    names: Sequence[str] = ("matmul", "memory", "attention", "network", "slowdown"),
    step_of: StepOf | None = None,
) -> Calibration:
    """Scalars under which the steps come out best, and each step as the others alone tell it."""
    raise NotImplementedError
