"""Fit the scalars to step times alone, such as published ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from counterpoint.core import UsageError
from counterpoint.cost.build import build_model
from counterpoint.cost.scalars import Scalar, Scalars
from counterpoint.hardware.target import Target
from counterpoint.hlo.model.program import Program
from counterpoint.simulate.simulation import simulate
from counterpoint.workflow.calibration.calibration import (
    LEAST,
    MOST,
    Calibration,
    ScalarFit,
    StepFit,
)

NAMES: Final = ("matmul", "memory", "attention", "network", "slowdown")
_STEP_ERROR: Final = 0.03
"""The typical mismatch of a published step time and a program: versions, clocks, inputs."""
_NUDGE: Final = 0.02
_TURNS: Final = 4
_NARROWEST: Final = 0.02
_Vector = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredStep:
    """A compiled program, its target, and the step time that was measured there."""

    name: str
    program: Program
    target: Target
    seconds: float


StepOf = Callable[[MeasuredStep, Scalars], float]
"""A function that predicts the seconds of a step under scalars."""


def predicted_step(step: MeasuredStep, scalars: Scalars) -> float:
    """Return the step time that the simulator predicts."""
    model = build_model(step.target, scalars=scalars)
    return simulate(step.program, model, target=step.target).step_s


def calibrate_steps(
    steps: Sequence[MeasuredStep],
    start: Scalars,
    *,
    names: Sequence[str] = NAMES,
    step_of: StepOf = predicted_step,
) -> Calibration:
    """Fit scalars to the steps, and predict each step from the others alone.

    A step time is one number for five scalars, so it can't determine them all. Each scalar starts
    from its current value and moves only as far as its uncertainty (`reach`) makes likely: least
    squares over log errors of the steps, and over log moves in units of the reach.
    """
    if not steps:
        raise UsageError("no measured steps to fit to", next="name a program and its step time")
    problem = _Problem(steps, start, tuple(names), step_of)
    solved = problem.solve()
    scalars = problem.scalars(solved.moves, solved.widths)
    fits = tuple(problem.fit(name, solved) for name in names)
    return Calibration(
        chip=steps[0].target.gpu,
        scalars=scalars,
        fits=fits,
        steps=tuple(problem.step_fits(solved)),
        notes=("fitted to step times: scalars that no step depends on keep their values",),
    )


@dataclass(frozen=True, slots=True)
class _Solved:
    moves: _Vector  # log of new over old value, by scalar
    widths: _Vector  # their remaining uncertainty
    errors: _Vector  # log of predicted over measured at the solution, by step
    slopes: _Vector  # of the errors by the moves


@dataclass(frozen=True, slots=True)
class _Problem:
    steps: Sequence[MeasuredStep]
    start: Scalars
    names: tuple[str, ...]
    step_of: StepOf

    @property
    def reaches(self) -> _Vector:
        reaches = [max(getattr(self.start, name).reach, _NARROWEST) for name in self.names]
        return np.array(reaches, dtype=np.float64)

    def scalars(self, moves: _Vector, widths: _Vector | None = None) -> Scalars:
        """Return the scalars shifted by logs from their start values."""
        changed: dict[str, Scalar] = {}
        for at, name in enumerate(self.names):
            old: Scalar = getattr(self.start, name)
            least = min(LEAST, old.value)
            value = float(np.clip(old.value * np.exp(moves[at]), least, MOST))
            reach = old.reach if widths is None else float(widths[at])
            source = f"fitted to {len(self.steps)} step times"
            changed[name] = Scalar(value, reach, old.source if widths is None else source)
        return replace(self.start, **changed)

    def errors(self, moves: _Vector) -> _Vector:
        scalars = self.scalars(moves)
        return np.array(
            [np.log(self.step_of(step, scalars) / step.seconds) for step in self.steps],
            dtype=np.float64,
        )

    def solve(self) -> _Solved:
        """Solve by Gauss-Newton; steps are nearly linear in the logs, so few iterations suffice."""
        moves = np.zeros(len(self.names))
        errors = self.errors(moves)
        slopes = self._slopes(moves, errors)
        for _ in range(_TURNS):
            moves = _least(errors - slopes @ moves, slopes, self.reaches)
            errors = self.errors(moves)
            slopes = self._slopes(moves, errors)
        curvature = slopes.T @ slopes / _STEP_ERROR**2 + np.diag(self.reaches**-2.0)
        widths = np.maximum(np.sqrt(np.diag(np.linalg.inv(curvature))), _NARROWEST)
        return _Solved(moves, widths, errors, slopes)

    def _slopes(self, moves: _Vector, errors: _Vector) -> _Vector:
        columns: list[_Vector] = []
        for at in range(len(self.names)):
            nudged = moves.copy()
            nudged[at] += _NUDGE
            columns.append((self.errors(nudged) - errors) / _NUDGE)
        return np.stack(columns, axis=1)

    def step_fits(self, solved: _Solved) -> list[StepFit]:
        """Return every step before and after, and predicted by the solution without it."""
        before = self.errors(np.zeros(len(self.names)))
        steps: list[StepFit] = []
        constant = solved.errors - solved.slopes @ solved.moves
        for at, step in enumerate(self.steps):
            others = np.arange(len(self.steps)) != at
            unseen = None
            if others.any():
                moves = _least(constant[others], solved.slopes[others], self.reaches)
                unseen = self.step_of(step, self.scalars(moves))
            steps.append(
                StepFit(
                    name=step.name,
                    measured_s=step.seconds,
                    before_s=step.seconds * float(np.exp(before[at])),
                    after_s=step.seconds * float(np.exp(solved.errors[at])),
                    unseen_s=unseen,
                )
            )
        return steps

    def fit(self, name: str, solved: _Solved) -> ScalarFit:
        at = self.names.index(name)
        before: Scalar = getattr(self.start, name)
        after: Scalar = getattr(self.scalars(solved.moves, solved.widths), name)
        start = self.errors(np.zeros(len(self.names)))
        return ScalarFit(
            name=name,
            before=before,
            after=after,
            samples=len(self.steps) if np.abs(solved.slopes[:, at]).max() > 1e-4 else 0,
            measured_s=sum(step.seconds for step in self.steps),
            error_before=float(np.abs(np.expm1(start)).mean()),
            error_after=float(np.abs(np.expm1(solved.errors)).mean()),
            unseen=None,
            how=f"{len(self.steps)} step times, from {before.value:.3g} give or take "
            f"{before.reach:.0%}",
        )


def _least(constant: _Vector, slopes: _Vector, reaches: _Vector) -> _Vector:
    """Return the moves that minimize errors and moves together, each in its own units."""
    rows = np.concatenate([slopes / _STEP_ERROR, np.diag(1 / reaches)])
    wanted = np.concatenate([-constant / _STEP_ERROR, np.zeros(len(reaches))])
    return np.linalg.lstsq(rows, wanted, rcond=None)[0].astype(np.float64)
