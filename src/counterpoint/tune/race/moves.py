"""Moves: what a study may do next. race.py chooses them, tuner.py executes them."""

from __future__ import annotations

from typing import TypeAlias

from counterpoint.core.frozen import frozen
from counterpoint.tune.arm import Arm
from counterpoint.tune.trial.report import Purpose


@frozen
class RunTrial:
    """Run the command once, under an arm."""

    arm: str
    purpose: Purpose
    row: int  # -1 if not part of a row
    allocation: int


@frozen
class MakeProfile:
    """Make a PGLE profile from a trial of the arm, and add it to the arm's settings."""

    arm: str
    trial: int


@frozen
class Enter:
    """Enter an arm into the race."""

    arm: Arm


@frozen
class Drop:
    """Drop an arm; `kind` is a word or two for the table."""

    arm: str
    kind: str
    why: str


@frozen
class OpenAllocation:
    """Get nodes; with `fresh`, nodes on which no trial of the race ran."""

    number: int
    fresh: bool


@frozen
class CloseAllocation:
    """Release the nodes."""

    number: int


@frozen
class Pause:
    """Stop for now, through no fault of any arm; the study may continue later."""

    why: str


@frozen
class Finish:
    """End the study."""

    why: str


Move: TypeAlias = (
    RunTrial | MakeProfile | Enter | Drop | OpenAllocation | CloseAllocation | Pause | Finish
)
