"""A Calibration: scalars that measurements decided, and how well they tell what they did not see.

`Fit` is one scalar. `StepFit` is one measured step, predicted by scalars that were fitted without
it: the only figure that says what the calibration is worth elsewhere.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from counterpoint.core.errors import InputError
from counterpoint.cost.scalar_file import scalars_toml
from counterpoint.cost.scalars import Scalar, Scalars

LEAST: Final = 0.01
MOST: Final = 1.5
"""Shares of a rate that is itself an estimate can be a little above one, never near none."""
IDLE: Final = 0.25
"""A step with a larger share of it idle is no judge: prices are of what devices do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """One scalar: before, after, and how far single instructions lie from it.

    Errors are sums of |predicted - measured| over measured time. `unseen` is that of instructions
    left out in turn; None where there are too few to leave any out.
    """

    name: str
    before: Scalar
    after: Scalar
    samples: int
    measured_s: float  # of one run of each program, all samples together
    error_before: float
    error_after: float
    unseen: float | None
    how: str  # what the value rests on, or why there is none, in words
    refused: bool = False  # measured, but not believed: `after` is `before`

    @property
    def fitted(self) -> bool:
        return self.samples > 0 and not self.refused


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFit:
    """One measured step against its predictions.

    With the scalars from before, after the fit, and fitted without this step: None where it is the
    only one.
    """

    name: str
    measured_s: float
    before_s: float
    after_s: float
    unseen_s: float | None
    idle: float = 0.0  # share of it in which its devices did nothing

    @property
    def worse(self) -> bool:
        """Whether the fit made it so, by more than nothing, as far as the step can tell."""
        if self.idle > IDLE:
            return False
        before, after = (abs(it - self.measured_s) for it in (self.before_s, self.after_s))
        return after > before + 0.005 * self.measured_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """What `calibrate` found. Scalars that nothing decided keep the value from before."""

    chip: str
    scalars: Scalars
    fits: tuple[Fit, ...]
    steps: tuple[StepFit, ...]
    notes: tuple[str, ...]

    @property
    def fitted(self) -> Mapping[str, Scalar]:
        return {fit.name: fit.after for fit in self.fits if fit.fitted}

    def refuse_nothing(self, recording: str) -> None:
        """InputError where nothing was fitted: a file of it would say no more than no file."""
        if self.fitted:
            return
        raise InputError(
            f"{recording}: none of the {len(self.fits)} scalars could be fitted, nothing is kept",
            why="what was measured decides none of them: the notes say what each would need",
            next=f"counterpoint explain {shlex.quote(recording)}",
        )

    def toml(self) -> str:
        """The file that `predict --calibration` reads: only what was fitted."""
        comments = [f"{fit.name}: {fit.how}" for fit in self.fits if fit.fitted]
        return scalars_toml(self.chip, self.fitted, ("counterpoint calibrate", *comments))
