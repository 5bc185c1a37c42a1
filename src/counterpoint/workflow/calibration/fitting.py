"""Fit one scalar to instructions with known times.

The value makes the sum of prices equal to the sum of times: a step adds instructions up, so their
sum has to be right before any of them. Outliers (a kernel that is something else than it seems) are
excluded first. Instructions are grouped by what they compute, so that those left out in turn differ
from those in the fit, and are not the same in another layer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from counterpoint.core import UsageError
from counterpoint.cost import Scalar, Scalars, build_model
from counterpoint.hardware import Target
from counterpoint.hlo import Program
from counterpoint.simulate import simulate
from counterpoint.workflow.calibration.calibration import (
    LEAST,
    MOST,
    Calibration,
    ScalarFit,
    StepFit,
)
from counterpoint.workflow.calibration.samples import Sample

_FAR: Final = 3.0
"""A price wrong by a larger factor is not explained by a scalar."""
_FOLDS: Final = 5
_ALONE: Final = 0.1
"""Up to this share of its time beside a collective, an instruction counts as alone."""
_BESIDE: Final = 0.5
_ENOUGH: Final = 0.01
"""Share of the time of all work that must have run beside collectives to show their effect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Factor:
    """The factor by which prices are too long, with its errors and the samples it rests on."""

    value: float
    reach: float
    kept: tuple[Sample, ...]
    dropped: int
    error_before: float
    error_after: float
    unseen: float | None


def alone(samples: Sequence[Sample]) -> tuple[Sample, ...]:
    """Return the samples without a collective beside them, or all of them if these are few."""
    free = tuple(sample for sample in samples if sample.beside <= _ALONE)
    return free if _weight(free) > 0.2 * _weight(samples) else tuple(samples)


def fit_factor(samples: Sequence[Sample]) -> Factor | None:
    """Fit the ratio of predicted to measured time; None without samples."""
    if not samples:
        return None
    middle = weighted_median(
        [sample.ratio for sample in samples], [sample.weight for sample in samples]
    )
    inliers = tuple(sample for sample in samples if middle / _FAR <= sample.ratio <= middle * _FAR)
    value = _ratio(inliers)
    apart = [abs(math.log(sample.ratio / value)) for sample in inliers]
    spread = weighted_median(apart, [sample.weight for sample in inliers])
    return Factor(
        value=value,
        reach=min(max(spread, 0.02), 0.5),
        kept=inliers,
        dropped=len(samples) - len(inliers),
        error_before=_error(inliers, 1.0),
        error_after=_error(inliers, value),
        unseen=_unseen(inliers),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Slowdown:
    """The slowdown of work beside a collective: median, spread and number of kinds of work."""

    value: float
    apart: float
    kinds: int
    pressed: tuple[tuple[Sample, float], ...]  # beside a collective, and seconds alone

    def error(self, value: float) -> float:
        """Return the error for work beside collectives, if it is slowed down by this value."""
        off = sum(
            sample.times * abs(alone_s * (1 + value * sample.beside) - sample.measured_s)
            for sample, alone_s in self.pressed
        )
        return off / _weight([sample for sample, _ in self.pressed])


def fit_slowdown(samples: Sequence[Sample]) -> Slowdown | None:
    """Fit the slowdown to equal work alone and beside collectives; None without enough of it.

    Only the same computation on the same shapes is compared: alone in one place of the schedule,
    beside a collective in another.
    """
    slower: list[float] = []
    weights: list[float] = []
    found: list[tuple[Sample, float]] = []
    for equals in _by_shapes(samples).values():
        free = [sample for sample in equals if sample.beside <= _ALONE]
        pressed = [sample for sample in equals if sample.beside >= _BESIDE]
        if free and pressed:
            usual = float(np.median([sample.measured_s for sample in free]))
            longer = [(sample.measured_s / usual - 1) / sample.beside for sample in pressed]
            slower.append(float(np.median(longer)))
            weights.append(_weight(pressed))
            found += [(sample, usual) for sample in pressed]
    if sum(weights) < _ENOUGH * _weight(samples):
        return None
    middle = min(max(weighted_median(slower, weights), 0.0), 1.0)
    apart = weighted_median([abs(value - middle) for value in slower], weights)
    return Slowdown(value=middle, apart=apart, kinds=len(slower), pressed=tuple(found))


def weighted_median(values: Sequence[float], weights: Sequence[float]) -> float:
    """Return the value with half of the weight below it."""
    half, reached = sum(weights) / 2, 0.0
    for value, weight in sorted(zip(values, weights, strict=True)):
        reached += weight
        if reached >= half:
            return value
    return max(values)


def _unseen(samples: Sequence[Sample]) -> float | None:
    """Return the error on kinds of work left out in turn."""
    kinds = sorted(_by_shapes(samples).items())
    if len(kinds) < 2:
        return None
    folds = min(_FOLDS, len(kinds))
    off = 0.0
    for fold in range(folds):
        out = [
            sample
            for at, (_, equals) in enumerate(kinds)
            if at % folds == fold
            for sample in equals
        ]
        seen = [
            sample
            for at, (_, equals) in enumerate(kinds)
            if at % folds != fold
            for sample in equals
        ]
        off += _error(out, _ratio(seen)) * _weight(out)
    return off / _weight(samples)


def _by_shapes(samples: Sequence[Sample]) -> dict[tuple[str, ...], list[Sample]]:
    kinds: dict[tuple[str, ...], list[Sample]] = {}
    for sample in samples:
        kinds.setdefault(sample.shapes, []).append(sample)
    return kinds


def _ratio(samples: Sequence[Sample]) -> float:
    return sum(sample.times * sample.priced_s for sample in samples) / _weight(samples)


def _error(samples: Sequence[Sample], factor: float) -> float:
    """Return the sum of the errors of single instructions, divided by their time."""
    off = sum(
        sample.times * abs(sample.priced_s / factor - sample.measured_s) for sample in samples
    )
    return off / _weight(samples)


def _weight(samples: Sequence[Sample]) -> float:
    return sum(sample.weight for sample in samples)


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
        steps=tuple(problem.told(solved)),
        notes=("fitted to step times: scalars that no step depends on stay where they were",),
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

    def told(self, solved: _Solved) -> list[StepFit]:
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
