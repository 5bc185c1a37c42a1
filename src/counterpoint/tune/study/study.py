"""Study: the state that a journal adds up to, computed from its records without files or clocks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import singledispatch
from types import MappingProxyType
from typing import Final

from counterpoint.core import as_html
from counterpoint.tune.arm import BASE, Arm
from counterpoint.tune.study.records import (
    Ablated,
    AllocationClosed,
    AllocationOpened,
    ArmDropped,
    ArmEntered,
    ArmProfiled,
    CandidateSeen,
    GangStarted,
    ModelFitted,
    Paused,
    Record,
    Resumed,
    SearchEnded,
    SpaceMade,
    StudyBegan,
    StudyEnded,
    TrialEnded,
    TrialStarted,
)
from counterpoint.tune.trial.report import (
    NO_MATTER_WHEN_PROFILING,
    Purpose,
    TrialFailure,
    TrialReport,
)

NO_BUDGET: Final = "no budget"
"""The reason for a drop that is revoked when a study resumes: the budget may be larger then."""
BASE_FAILS: Final = "the base itself fails"
"""The reason for an end that does not prevent a restart, since nothing has been measured."""

_NONE: Mapping[str, ArmDropped] = MappingProxyType({})
_NO_COUNTS: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Trial:
    """The state of a trial; `report` is None while it runs, or if the tuner was killed."""

    started: TrialStarted
    gang: str | None = None
    report: TrialReport | None = None
    wall_s: float | None = None

    @property
    def counts(self) -> bool:
        """True if it measured a step time."""
        return self.report is not None and self.report.steady is not None

    @property
    def failure(self) -> TrialFailure | None:
        return self.report.failure if self.report else None

    @property
    def may_blame_arm(self) -> bool:
        """True if it failed through what may be the arm's fault."""
        if self.failure is None or not self.failure.blames_the_arm:
            return False
        profiled = self.started.purpose is Purpose.PROFILE
        return not (profiled and self.failure in NO_MATTER_WHEN_PROFILING)

    @property
    def may_be_chance(self) -> bool:
        """True if it failed through what may be the arm's fault or a busy machine's."""
        return self.failure is not None and self.may_blame_arm and self.failure.may_be_chance


def is_no_chance(in_a_row: int, failed: int, timed: int) -> bool:
    """Return whether trials that may fail by chance did so too often for that.

    Three in a row are too many; two are, unless more trials were timed than failed.
    """
    return in_a_row > 2 or (in_a_row == 2 and failed >= timed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """The full state of a study, in the order in which it was recorded."""

    began: StudyBegan
    space: SpaceMade | None = None
    candidates: tuple[CandidateSeen, ...] = ()
    search: SearchEnded | None = None
    ablation: tuple[Ablated, ...] = ()
    arms: tuple[Arm, ...] = ()
    entered: Mapping[str, int] = field(default_factory=lambda: _NO_COUNTS)  # trials before entry
    dropped: Mapping[str, ArmDropped] = field(default_factory=lambda: _NONE)
    dropped_after: Mapping[str, int] = field(
        default_factory=lambda: _NO_COUNTS
    )  # trials before the drop
    allocations: tuple[AllocationOpened, ...] = ()
    open_allocations: tuple[int, ...] = ()
    trials: tuple[Trial, ...] = ()
    profiled: frozenset[str] = frozenset()  # arms whose settings include their PGLE profile
    fitted: ModelFitted | None = None
    paused: Paused | None = None  # None again once it resumes
    ended: StudyEnded | None = None
    ends: tuple[int, ...] = ()  # trials before each end, also of those that were continued
    resumed: Resumed | None = None
    earlier_trials: int = 0  # number of trials of earlier sessions

    def __repr__(self) -> str:
        end = "not ended" if self.ended is None else f"ended: {self.ended.why}"
        return f"<Study of {len(self.arms)} arms, {len(self.trials)} trials, {end}>"

    def _repr_html_(self) -> str | None:
        return as_html(self)

    @property
    def is_done(self) -> bool:
        """True if repeating the command finds nothing more to do."""
        return self.ended is not None and not self.ended.why.startswith(BASE_FAILS)

    @property
    def options(self) -> tuple[tuple[str, str], ...]:
        """The latest options: budget, limits and the like."""
        return self.began.options if self.resumed is None else self.resumed.options

    def arm(self, name: str) -> Arm:
        """Return the arm of that name."""
        for arm in self.arms:
            if arm.name == name:
                return arm
        raise KeyError(name)

    @property
    def jaxlib(self) -> str | None:
        """The jaxlib release: as the runs report it, or the one its space was made for."""
        versions = (
            dict(trial.report.versions) for trial in self.trials if trial.report is not None
        )
        run = next((found["jaxlib"] for found in versions if "jaxlib" in found), None)
        return run or (self.space.jaxlib if self.space is not None else None)

    @property
    def running(self) -> tuple[Trial, ...]:
        """Trials without an end: of a tuner at work, or of one that was killed."""
        return tuple(trial for trial in self.trials if trial.report is None)

    @property
    def excused(self) -> frozenset[int]:
        """The numbers of trials that a busy machine may have kept from being timed.

        An arm is excused until it fails so in a row that chance no longer explains it. If the base
        can't be timed either, the machine is the likely cause, so the rows of the others end.
        """
        timed, failed, in_a_row = Counter[str](), Counter[str](), Counter[str]()
        numbers: set[int] = set()
        for trial in self.trials:
            name = trial.started.arm
            if trial.counts:
                timed[name] += 1
                in_a_row[name] = 0
            if not trial.may_be_chance:
                continue
            if name == BASE:
                in_a_row = Counter({BASE: in_a_row[BASE]})
            failed[name] += 1
            in_a_row[name] += 1
            if not is_no_chance(in_a_row[name], failed[name], timed[name]):
                numbers.add(trial.started.number)
        return frozenset(numbers)

    @property
    def charged(self) -> int:
        """The number of trials that count against a budget: those with a result about their arm."""
        excused = self.excused
        return sum(
            (trial.failure is None or trial.failure.blames_the_arm)
            and trial.started.number not in excused
            for trial in self.trials
        )

    def trials_of(self, name: str) -> tuple[Trial, ...]:
        return tuple(trial for trial in self.trials if trial.started.arm == name)


class ImpossibleRecord(ValueError):
    """A record that no study could have written after the ones before it."""


def fold(records: Iterable[Record]) -> Study:
    """Fold records into a study; raise ImpossibleRecord if they can't follow each other.

    So whoever reads a study finds the arm of every trial and of every drop.
    """
    remaining = iter(records)
    first = next(remaining, None)
    if not isinstance(first, StudyBegan):
        raise ImpossibleRecord("line 1: a journal begins with StudyBegan")
    study = Study(began=first)
    for line, record in enumerate(remaining, 2):
        if why := _impossible(study, record):
            raise ImpossibleRecord(f"line {line}: {type(record).__name__}: {why}")
        study = follow(study, record)
    return study


def _impossible(study: Study, record: Record) -> str | None:
    """Return why the record can't come after those that the study was folded from."""
    if isinstance(record, StudyBegan):
        return "a study begins once"
    if isinstance(record, ArmEntered):
        known = record.arm.is_base or study.arms
        return None if known else "the base takes part before any other arm"
    if isinstance(record, ArmDropped | ArmProfiled | TrialStarted) and record.arm not in (
        arm.name for arm in study.arms
    ):
        return f"no arm {record.arm!r} takes part"
    if isinstance(record, TrialStarted | GangStarted | TrialEnded):
        begun = record.number in (trial.started.number for trial in study.trials)
        if begun == isinstance(record, TrialStarted):
            return f"trial {record.number} {'began before' if begun else 'has not begun'}"
    return None


def follow(study: Study, record: Record) -> Study:
    """Return the study after one more record."""
    if not isinstance(record, Paused) and study.paused is not None:
        study = replace(study, paused=None)
    return _follow(record, study)


@singledispatch
def _follow(record: Record, study: Study) -> Study:
    del study
    raise TypeError(f"{type(record).__name__} can't come here")


@_follow.register
def _(record: SpaceMade, study: Study) -> Study:
    return replace(study, space=record)


@_follow.register
def _(record: CandidateSeen, study: Study) -> Study:
    return replace(study, candidates=(*study.candidates, record))


@_follow.register
def _(record: SearchEnded, study: Study) -> Study:
    candidates = tuple(
        _tied(candidate) if candidate.arm.name in record.tied else candidate
        for candidate in study.candidates
    )
    return replace(study, search=record, candidates=candidates)


def _tied(seen: CandidateSeen) -> CandidateSeen:
    """Mark a candidate as tied with the best, which is known only after the search."""
    if seen.arm.predicted is None:
        return seen
    return replace(seen, arm=replace(seen.arm, predicted=replace(seen.arm.predicted, tied=True)))


@_follow.register
def _(record: Ablated, study: Study) -> Study:
    return replace(study, ablation=(*study.ablation, record))


@_follow.register
def _(record: ArmEntered, study: Study) -> Study:
    name = record.arm.name
    entered = MappingProxyType({**study.entered, name: len(study.trials)})
    if name not in study.entered:
        return replace(study, arms=(*study.arms, record.arm), entered=entered)
    dropped, out = ({**study.dropped}, {**study.dropped_after})  # the budget allows it again
    dropped.pop(name, None)
    out.pop(name, None)
    return replace(
        study,
        entered=entered,
        dropped=MappingProxyType(dropped),
        dropped_after=MappingProxyType(out),
    )


@_follow.register
def _(record: ArmDropped, study: Study) -> Study:
    dropped = MappingProxyType({**study.dropped, record.arm: record})
    out = MappingProxyType({**study.dropped_after, record.arm: len(study.trials)})
    return replace(study, dropped=dropped, dropped_after=out)


@_follow.register
def _(record: ArmProfiled, study: Study) -> Study:
    arms = tuple(
        replace(arm, settings=record.settings) if arm.name == record.arm else arm
        for arm in study.arms
    )
    profiled = study.profiled | {record.arm}
    return replace(study, arms=arms, profiled=profiled)


def _with_trial(study: Study, number: int, change: Callable[[Trial], Trial]) -> Study:
    trials = tuple(
        change(trial) if trial.started.number == number else trial for trial in study.trials
    )
    return replace(study, trials=trials)


@_follow.register
def _(record: AllocationOpened, study: Study) -> Study:
    return replace(
        study,
        allocations=(*study.allocations, record),
        open_allocations=(*study.open_allocations, record.number),
    )


@_follow.register
def _(record: AllocationClosed, study: Study) -> Study:
    left = tuple(number for number in study.open_allocations if number != record.number)
    return replace(study, open_allocations=left)


@_follow.register
def _(record: TrialStarted, study: Study) -> Study:
    return replace(study, trials=(*study.trials, Trial(record)))


@_follow.register
def _(record: GangStarted, study: Study) -> Study:
    return _with_trial(study, record.number, lambda trial: replace(trial, gang=record.identity))


@_follow.register
def _(record: TrialEnded, study: Study) -> Study:
    return _with_trial(
        study,
        record.number,
        lambda trial: replace(trial, report=record.report, wall_s=record.wall_s),
    )


@_follow.register
def _(record: ModelFitted, study: Study) -> Study:
    return replace(study, fitted=record)


@_follow.register
def _(record: Paused, study: Study) -> Study:
    return replace(study, paused=record)


@_follow.register
def _(record: Resumed, study: Study) -> Study:
    dropped = {name: drop for name, drop in study.dropped.items() if drop.kind != NO_BUDGET}
    out = {name: at for name, at in study.dropped_after.items() if name in dropped}
    return replace(
        study,
        resumed=record,
        ended=None,
        earlier_trials=len(study.trials),
        dropped=MappingProxyType(dropped),
        dropped_after=MappingProxyType(out),
    )


@_follow.register
def _(record: StudyEnded, study: Study) -> Study:
    return replace(study, ended=record, ends=(*study.ends, len(study.trials)))
