"""Races that are carried out on paper: a step takes what a formula says, and nothing is run.

For the rules of the race alone; what tuner, executors and statistics do is tested with programs.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field

from counterpoint.tune.plan import StudyPlan
from counterpoint.tune.race.moves import (
    CloseAllocation,
    Drop,
    Enter,
    Finish,
    MakeProfile,
    Move,
    OpenAllocation,
    Pause,
    RunTrial,
)
from counterpoint.tune.race.race import next_move
from counterpoint.tune.study.records import (
    AllocationClosed,
    AllocationOpened,
    ArmDropped,
    ArmEntered,
    ArmProfiled,
    GangStarted,
    TrialEnded,
)
from counterpoint.tune.study.study import Study
from counterpoint.tune.trial.report import TrialFailure, TrialReport
from tune_studies import AT, Made, report


@dataclass
class Race:
    """What is true of the arms, and the study as it comes to know it.

    `gains` are of changes, by dimension: an arm has all of its own. `failing` says how often in a
    row, and how, an arm fails before it works; -1 is always.
    """

    made: Made
    plan: StudyPlan
    gains: Mapping[str, float] = field(default_factory=dict[str, float])
    failing: Mapping[str, tuple[TrialFailure, int]] = field(
        default_factory=dict[str, tuple[TrialFailure, int]]
    )
    programs: Mapping[str, str] = field(default_factory=dict[str, str])
    noise: float = 0.001
    drift: float = 0.0
    faults: float = 0.0  # how many of all trials fail by a node's fault
    wall_s: float = 60.0
    seed: int = 0
    moves: list[Move] = field(default_factory=list[Move])

    @property
    def study(self) -> Study:
        return self.made.study

    def run(self, most: int = 1000) -> Finish | Pause:
        """All moves to the end."""
        for _ in range(most):
            move = next_move(self.study, self.plan)
            self.moves.append(move)
            if isinstance(move, Finish | Pause):
                return move
            self.follow(move)
        raise AssertionError(f"no end after {most} moves: {self.moves[-5:]}")

    def follow(self, move: Move) -> None:
        """What a tuner would write down."""
        match move:
            case Enter(arm):
                self.made.add(ArmEntered(arm=arm, at=AT))
            case Drop(arm, kind, why):
                self.made.add(ArmDropped(arm=arm, kind=kind, why=why, at=AT))
            case OpenAllocation():
                self.made.opened()
            case CloseAllocation(number):
                self.made.add(AllocationClosed(number=number, at=AT))
            case MakeProfile(arm, _):
                settings = self.study.arm(arm).settings
                self.made.add(ArmProfiled(arm=arm, settings=settings, at=AT))
            case RunTrial(arm, purpose, row, allocation):
                number = self.made.started(arm, purpose, row, allocation)
                told = self.measured(arm, number)
                self.made.add(GangStarted(number=number, identity=f"gang{number}", at=AT))
                self.made.add(TrialEnded(number=number, report=told, wall_s=self.wall_s, at=AT))
            case Finish() | Pause():
                raise AssertionError("that is the end")

    def measured(self, name: str, number: int) -> TrialReport:
        """The same for the same trial of the same race, however often the tuner died."""
        chance = random.Random(f"{self.seed} {number}")  # noqa: S311
        if chance.random() < self.faults:
            return report(failure=TrialFailure.NODE_FAULT)
        failure, times = self.failing.get(name, (TrialFailure.CRASH, 0))
        before = sum(it.failure is failure for it in self.study.trials_of(name))
        if times < 0 or before < times:
            return report(failure=failure)
        seconds = 1.0
        for it in self.study.arm(name).changes:
            seconds *= 1 - self.gains.get(it.dimension, 0.0)
        seconds *= chance.gauss(1.0, self.noise) * (1 + self.drift * number)
        return report(seconds, program=self.programs.get(name))

    @property
    def trials(self) -> list[RunTrial]:
        return [it for it in self.moves if isinstance(it, RunTrial)]

    @property
    def rows(self) -> dict[int, list[str]]:
        """Who ran in which row, in order."""
        found: dict[int, list[str]] = {}
        for it in self.trials:
            if it.row >= 0:
                found.setdefault(it.row, []).append(it.arm)
        return found

    @property
    def drops(self) -> dict[str, str]:
        """Kinds by arm."""
        return {it.arm: it.kind for it in self.moves if isinstance(it, Drop)}

    @property
    def allocations(self) -> list[AllocationOpened]:
        return list(self.study.allocations)
