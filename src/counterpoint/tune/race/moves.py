"""Moves: what a study may do next. Plain data: race.py chooses them, tuner.py carries them out."""

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
    row: int  # -1 where it is no part of one
    allocation: int


@dataclass(frozen=True, slots=True)
class MakeProfile:
    """Make a PGLE profile of what a trial of the arm left, and set it for the arm."""

    arm: str
    trial: int


@dataclass(frozen=True, slots=True)
class Enter:
    """An arm takes part from now on."""

    arm: Arm


@dataclass(frozen=True, slots=True)
class Drop:
    """An arm takes part no more; `kind` is a word or two for the table."""

    arm: str
    kind: str
    why: str


@dataclass(frozen=True, slots=True)
class OpenAllocation:
    """Get nodes; `fresh` where none of the race may have run there."""

    number: int
    fresh: bool


@dataclass(frozen=True, slots=True)
class CloseAllocation:
    """Give the nodes back."""

    number: int


@dataclass(frozen=True, slots=True)
class Pause:
    """Stop for now: nobody's settings are at fault, and it may go on later."""

    why: str


@dataclass(frozen=True, slots=True)
class Finish:
    """It is done."""

    why: str


Move: TypeAlias = (
    RunTrial | MakeProfile | Enter | Drop | OpenAllocation | CloseAllocation | Pause | Finish
)
