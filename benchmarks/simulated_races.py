"""Studies by tune's own moves, on trials that take what a load and their arm's gain say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from counterpoint.flags.settings import Settings
from counterpoint.tune.arm import Acts, Arm, ArmChange
from counterpoint.tune.conclusion.conclude import conclude
from counterpoint.tune.conclusion.conclusion import Conclusion
from counterpoint.tune.plan import StudyPlan
from counterpoint.tune.race.moves import (
    CloseAllocation,
    Drop,
    Enter,
    Finish,
    OpenAllocation,
    RunTrial,
)
from counterpoint.tune.race.race import next_move
from counterpoint.tune.study.records import (
    FORMAT,
    AllocationClosed,
    AllocationOpened,
    ArmDropped,
    ArmEntered,
    CandidateSeen,
    GangStarted,
    Record,
    SearchEnded,
    StudyBegan,
    StudyEnded,
    TrialEnded,
    TrialStarted,
)
from counterpoint.tune.study.study import Study, fold, follow
from counterpoint.tune.trial.report import Steady, TrialFailure, TrialReport
from simulated_loads import Floats, Load

FIRST: Final = "1"
"""The arm that has the gain, if one has."""
_MOST: Final = 1000  # trials
_AT: Final = "2026-01-01T00:00:00.000+00:00"
_WALL_S: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Raced:
    """A study that is over, and what it concludes."""

    conclusion: Conclusion
    trials: int

    @property
    def winner(self) -> str | None:
        """The arm of a confirmed gain."""
        won = self.conclusion.winner if self.conclusion.confirmed else None
        return won.name if won is not None else None


def raced(load: Load, gains: Sequence[float], plan: StudyPlan, rng: np.random.Generator) -> Raced:
    """Carry out one study of as many arms as there are gains; arms are called 1, 2, ..."""
    trials = _Trials(load, gains, rng)
    study = _begun([_arm(str(number + 1)) for number in range(len(gains))])
    while study.ended is None:
        for record in _records(study, plan, trials):
            study = follow(study, record)
    return Raced(conclusion=conclude(study, plan), trials=len(study.trials))


class _Trials:
    """What each trial reports."""

    def __init__(self, load: Load, gains: Sequence[float], rng: np.random.Generator) -> None:
        self._load = load
        self._gains = {str(number + 1): gain for number, gain in enumerate(gains)}
        self._logs: Floats = load.draw(_MOST, rng) + rng.normal(0, load.sigma, _MOST)
        self._unsteady = rng.random(_MOST) < load.unsteady

    def report(self, study: Study, arm: str) -> TrialReport:
        at = len(study.trials)
        if self._unsteady[at]:
            return TrialReport(failure=TrialFailure.UNSTEADY, detail="its steps never settled")
        log = self._logs[at]
        if study.trials and study.trials[-1].started.arm == FIRST:
            log += self._load.left_over
        step_s = (1 - self._gains.get(arm, 0.0)) * float(np.exp(log))
        steady = Steady(median_s=step_s, steps=30, warm_up=3, spread=0.01, source="log")
        return TrialReport(steady=steady)


def _arm(name: str) -> Arm:
    settings = Settings(env=((f"ARM_{name}", "1"),))
    change = ArmChange(dimension=name, choice="on", settings=settings, acts=Acts.RUNTIME)
    return Arm(name=name, settings=settings, changes=(change,))


def _begun(arms: Sequence[Arm]) -> Study:
    began = StudyBegan(
        format=FORMAT,
        version="0",
        question="simulated",
        workload="train.py",
        command=("train.py",),
        target=None,
        executor="local",
        base=Settings(),
        options=(),
        at=_AT,
    )
    names = tuple(arm.name for arm in arms)
    searched = SearchEnded(why="named", shortlist=names, seconds=0.0, at=_AT)
    return fold([began, *(CandidateSeen(arm=arm, at=_AT) for arm in arms), searched])


def _records(study: Study, plan: StudyPlan, trials: _Trials) -> list[Record]:
    """Return what the tuner writes down of the next move."""
    match next_move(study, plan):
        case Enter(arm):
            return [ArmEntered(arm=arm, at=_AT)]
        case Drop(arm, kind, why):
            return [ArmDropped(arm=arm, kind=kind, why=why, at=_AT)]
        case OpenAllocation(number):
            opened = AllocationOpened(
                number=number, executor="local", identity=str(number), nodes=("here",), at=_AT
            )
            return [opened]
        case CloseAllocation(number):
            return [AllocationClosed(number=number, at=_AT)]
        case RunTrial(arm, purpose, row, allocation):
            number = len(study.trials) + 1
            started = TrialStarted(
                number=number,
                arm=arm,
                purpose=purpose,
                row=row,
                allocation=allocation,
                directory=f"runs/{number}",
                at=_AT,
            )
            ended = TrialEnded(
                number=number, report=trials.report(study, arm), wall_s=_WALL_S, at=_AT
            )
            return [started, GangStarted(number=number, identity=str(number), at=_AT), ended]
        case Finish(why):
            return [StudyEnded(why=why, at=_AT)]
        case move:
            raise AssertionError(f"no simulated study comes to {move}")
