"""A Calibration: scalars fitted to measurements, with their errors on data outside the fit.

`ScalarFit` is one scalar. `StepFit` is one measured step, predicted by scalars that were fitted
without it: the only figure that shows how good the calibration is elsewhere.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from counterpoint.core import InputError
from counterpoint.cost.scalars import Scalar, Scalars, scalars_toml
from counterpoint.hlo.model.program import Program

LEAST: Final = 0.01
MOST: Final = 1.5
"""A share of a rate that is itself an estimate can be slightly above one, but not near zero."""
IDLE: Final = 0.25
"""A step with a larger idle share is not used: prices cover only the work of devices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalarFit:
    """One scalar: before, after, and the errors of single instructions.

    Errors are sums of |predicted - measured| over measured time. `unseen` is that of instructions
    left out in turn; None if there are too few to leave any out.
    """

    name: str
    before: Scalar
    after: Scalar
    samples: int
    measured_s: float  # of one run of each program, all samples together
    error_before: float
    error_after: float
    unseen: float | None
    how: str  # the basis of the value, or why there is none
    refused: bool = False  # measured, but rejected: `after` is `before`

    @property
    def fitted(self) -> bool:
        return self.samples > 0 and not self.refused


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFit:
    """One measured step against its predictions.

    With the scalars from before, after the fit, and fitted without this step: None if it is the
    only one.
    """

    name: str
    measured_s: float
    before_s: float
    after_s: float
    unseen_s: float | None
    idle: float = 0.0  # share of it in which its devices were idle

    @property
    def worse(self) -> bool:
        """True if the fit made it noticeably worse; False for a step that is mostly idle."""
        if self.idle > IDLE:
            return False
        before, after = (
            abs(predicted_s - self.measured_s) for predicted_s in (self.before_s, self.after_s)
        )
        return after > before + 0.005 * self.measured_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """The result of `calibrate`. Scalars without evidence keep their previous value."""

    chip: str
    scalars: Scalars
    fits: tuple[ScalarFit, ...]
    steps: tuple[StepFit, ...]
    notes: tuple[str, ...]

    @property
    def fitted(self) -> Mapping[str, Scalar]:
        return {fit.name: fit.after for fit in self.fits if fit.fitted}

    def refuse_nothing(self, recording: str) -> None:
        """Raise an InputError if nothing was fitted: the file would have no effect."""
        if self.fitted:
            return
        raise InputError(
            f"{recording}: none of the {len(self.fits)} scalars could be fitted",
            why="the recordings determine none of them; the notes say what each needs",
            next=f"counterpoint explain {shlex.quote(recording)}",
        )

    def toml(self) -> str:
        """Format the file that `predict --calibration` reads: only what was fitted."""
        comments = [f"{fit.name}: {fit.how}" for fit in self.fits if fit.fitted]
        return scalars_toml(self.chip, self.fitted, ("counterpoint calibrate", *comments))


PLAUSIBLE: Final[Mapping[str, tuple[float, float]]] = {
    "matmul": (0.3, MOST), "memory": (0.3, 1.2), "attention": (0.3, MOST),
    "network": (0.05, 1.1), "slowdown": (0.0, 0.5),
}  # fmt: skip
"""Ranges of plausible values.

Slowdown: 18.9% on average and 40% at most were measured on four kinds of GPU (arXiv:2507.03114);
more is waiting for something else. Network: a cloud's without RDMA reaches little.
"""
_KINDS: Final = 2
_SMALL: Final = 0.05
"""An error on held-out kinds up to this is accepted, whatever it was before."""
_WORSE: Final = 0.005
"""The accepted growth of a step's error: the second digit of a percentage is not significant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationStep:
    """A measured step of a program whose schedule is known."""

    name: str
    program: Program
    seconds: float
    idle: float = 0.0  # share of it in which its devices were idle


StepOf = Callable[[CalibrationStep, Scalars], float]


def rejection_reason(fit: ScalarFit, kinds: int) -> str:
    """Return why the fit by itself is not plausible; empty if it is.

    A fit always finds a value. It is accepted only if the value is plausible, more than one kind of
    work supports it, and kinds of work left out in turn are predicted no worse. `reject_worse`
    then checks measured steps: errors of several scalars may cancel out in a step, and moving one
    of them alone undoes that.
    """
    least, most = PLAUSIBLE[fit.name]
    value = fit.after.value
    if not least <= value <= most:
        return (
            f"fitted {value:.3g}, outside the plausible range ({least:g} to {most:g}): these"
            " times contain something else"
        )
    if kinds < _KINDS:
        return f"fitted {value:.3g}, but to one kind of work only"
    if fit.unseen is not None and fit.unseen > max(fit.error_before, _SMALL):
        return (
            f"fitted {value:.3g}, but kinds of work left out in turn are predicted no better"
            f" (error {fit.unseen:.0%}, before {fit.error_before:.0%})"
        )
    return ""


def rejected(fit: ScalarFit, why: str) -> ScalarFit:
    """Reject a fit: the scalar keeps its value."""
    return replace(fit, after=fit.before, how=why, refused=True)


def apply_fits(before: Scalars, fits: Sequence[ScalarFit]) -> Scalars:
    """Return the scalars with every accepted fit."""
    return replace(before, **{fit.name: fit.after for fit in fits if fit.fitted})


def reject_worse(
    before: Scalars, fits: Sequence[ScalarFit], steps: Sequence[CalibrationStep], step_of: StepOf
) -> tuple[ScalarFit, ...]:
    """Reject the fits that together make the predictions of the measured steps worse."""
    kept = list(fits)
    if not steps:
        return tuple(kept)
    usual = _off(before, steps, step_of)
    now = _off(apply_fits(before, kept), steps, step_of)
    while now > usual + _WORSE and any(fit.fitted for fit in kept):
        without: dict[int, float] = {}
        for at, fit in enumerate(kept):
            if fit.fitted:
                rest = [other for other in kept if other is not fit]
                without[at] = _off(apply_fits(before, rest), steps, step_of)
        worst = min(without, key=lambda at: without[at])
        why = (
            f"fitted {kept[worst].after.value:.3g}, but it makes the prediction of the step worse"
            f" (error {now:.1%}; without it {without[worst]:.1%}, before {usual:.1%})"
        )
        kept[worst] = rejected(kept[worst], why)
        now = without[worst]
    return tuple(kept)


def idle_notes(steps: Iterable[CalibrationStep]) -> Iterator[str]:
    """Report the steps that were not used because they are mostly idle."""
    for step in steps:
        if step.idle > IDLE:
            yield (
                f"the devices of {step.name} are idle for {step.idle:.0%} of its step, which no"
                " scalar covers; it is not used"
            )


def _off(scalars: Scalars, steps: Sequence[CalibrationStep], step_of: StepOf) -> float:
    """Return the average error of predictions of the steps."""
    apart = [abs(math.log(step_of(step, scalars) / step.seconds)) for step in steps]
    return math.expm1(math.fsum(apart) / len(apart))
