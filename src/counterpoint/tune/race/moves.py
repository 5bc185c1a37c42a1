"""Moves: what a study may do next. race.py chooses them, tuner.py executes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from counterpoint.tune.arm import Arm
from counterpoint.tune.trial.report import Purpose


@dataclass(frozen=True, slots=True)
class RunTrial:
    """Run the command once, under an arm."""

    arm: str
    purpose: Purpose
    row: int  # -1 if not part of a row
    allocation: int


@dataclass(frozen=True, slots=True)
class MakeProfile:
    """Make a PGLE profile from a trial of the arm, and add it to the arm's settings."""

    arm: str
    trial: int


@dataclass(frozen=True, slots=True)
class Enter:
    """Enter an arm into the race."""

    arm: Arm


@dataclass(frozen=True, slots=True)
class Drop:
    """Drop an arm; `kind` is a word or two for the table."""

    arm: str
    kind: str
    why: str


@dataclass(frozen=True, slots=True)
class OpenAllocation:
    """Get nodes; with `fresh`, nodes on which no trial of the race ran."""

    number: int
    fresh: bool


@dataclass(frozen=True, slots=True)
class CloseAllocation:
    """Release the nodes."""

    number: int


@dataclass(frozen=True, slots=True)
class Pause:
    """Stop for now, through no fault of any arm; the study may continue later."""

    why: str


@dataclass(frozen=True, slots=True)
class Finish:
    """End the study."""

    why: str


Move: TypeAlias = (
    RunTrial | MakeProfile | Enter | Drop | OpenAllocation | CloseAllocation | Pause | Finish
)
