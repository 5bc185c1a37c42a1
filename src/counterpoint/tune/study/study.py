"""Study: what a journal comes to. Pure: `fold` takes records, and knows no files or clocks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import singledispatch
from types import MappingProxyType
from typing import Final

from counterpoint.core import drawn
from counterpoint.tune.arm import Arm
from counterpoint.tune.journal.records import (
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
from counterpoint.tune.trial.report import Failure, Report

NO_BUDGET: Final = "no budget"
"""Why an arm was dropped that comes back when a study goes on: there may be more now."""
BASE_FAILS: Final = "the base itself fails"
"""What a study ends for that may be begun again, since nothing is known yet."""

_NONE: Mapping[str, ArmDropped] = MappingProxyType({})
_NOBODY: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Trial:
    """A trial as far as it has come; `report` is None while it runs, or when the tuner died."""

    started: TrialStarted
    gang: str | None = None
    report: Report | None = None
    wall_s: float | None = None

    @property
    def counts(self) -> bool:
        """Whether it gave a step time."""
        return self.report is not None and self.report.steady is not None

    @property
    def failure(self) -> Failure | None:
        return self.report.failure if self.report else None

    @property
    def is_charged(self) -> bool:
        """Whether a budget of trials pays for it: not for one that failed without blame."""
        return self.failure is None or self.failure.blames_the_arm


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """Everything a study knows, in the order in which it came to know it."""

    began: StudyBegan
    space: SpaceMade | None = None
    candidates: tuple[CandidateSeen, ...] = ()
    search: SearchEnded | None = None
    ablation: tuple[Ablated, ...] = ()
    arms: tuple[Arm, ...] = ()
    entered: Mapping[str, int] = field(default_factory=lambda: _NOBODY)  # after how many trials
    dropped: Mapping[str, ArmDropped] = field(default_factory=lambda: _NONE)
    out: Mapping[str, int] = field(default_factory=lambda: _NOBODY)  # dropped after how many trials
    allocations: tuple[AllocationOpened, ...] = ()
    open_allocations: tuple[int, ...] = ()
    trials: tuple[Trial, ...] = ()
    profiled: frozenset[str] = frozenset()  # arms whose settings have their PGLE profile
    fitted: ModelFitted | None = None
    paused: Paused | None = None  # None again as soon as it went on
    ended: StudyEnded | None = None
    resumed: Resumed | None = None
    before: int = 0  # trials of earlier sittings

    def __repr__(self) -> str:
        end = "not ended" if self.ended is None else f"ended: {self.ended.why}"
        return f"<Study of {len(self.arms)} arms, {len(self.trials)} trials, {end}>"

    def _repr_html_(self) -> str | None:
        return drawn(self)

    @property
    def is_done(self) -> bool:
        """Whether the same question again finds nothing more to do."""
        return self.ended is not None and not self.ended.why.startswith(BASE_FAILS)

    @property
    def options(self) -> tuple[tuple[str, str], ...]:
        """What was last said of budget, limits and the like."""
        return self.began.options if self.resumed is None else self.resumed.options

    def arm(self, name: str) -> Arm:
        """The arm of that name."""
        for it in self.arms:
            if it.name == name:
                return it
        raise KeyError(name)

    @property
    def jaxlib(self) -> str | None:
        """The release that it is about: as the runs tell, else as its space was made for."""
        told = (dict(it.report.versions) for it in self.trials if it.report is not None)
        run = next((it["jaxlib"] for it in told if "jaxlib" in it), None)
        return run or (self.space.jaxlib if self.space is not None else None)

    @property
    def running(self) -> tuple[Trial, ...]:
        """Trials without an end: of a tuner that works now, or of one that died."""
        return tuple(it for it in self.trials if it.report is None)

    def trials_of(self, name: str) -> tuple[Trial, ...]:
        return tuple(it for it in self.trials if it.started.arm == name)


def fold(records: Iterable[Record]) -> Study:
    """What they come to. The first one has to be a StudyBegan."""
    several = iter(records)
    first = next(several, None)
    if not isinstance(first, StudyBegan):
        raise ValueError("a journal begins with what is asked")  # noqa: TRY004  # not a type error
    study = Study(began=first)
    for record in several:
        study = follow(study, record)
    return study


def follow(study: Study, record: Record) -> Study:
    """The study after one more record."""
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
    candidates = tuple(_tied(it) if it.arm.name in record.tied else it for it in study.candidates)
    return replace(study, search=record, candidates=candidates)


def _tied(seen: CandidateSeen) -> CandidateSeen:
    """Who is the best shows when the search is over."""
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
    dropped, out = ({**study.dropped}, {**study.out})  # there is room for it again
    dropped.pop(name, None)
    out.pop(name, None)
    return replace(
        study,
        entered=entered,
        dropped=MappingProxyType(dropped),
        out=MappingProxyType(out),
    )


@_follow.register
def _(record: ArmDropped, study: Study) -> Study:
    dropped = MappingProxyType({**study.dropped, record.arm: record})
    out = MappingProxyType({**study.out, record.arm: len(study.trials)})
    return replace(study, dropped=dropped, out=out)


@_follow.register
def _(record: ArmProfiled, study: Study) -> Study:
    arms = tuple(
        replace(it, settings=record.settings) if it.name == record.arm else it for it in study.arms
    )
    profiled = study.profiled | {record.arm}
    return replace(study, arms=arms, profiled=profiled)


def _with_trial(study: Study, number: int, change: Callable[[Trial], Trial]) -> Study:
    trials = tuple(change(it) if it.started.number == number else it for it in study.trials)
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
    left = tuple(it for it in study.open_allocations if it != record.number)
    return replace(study, open_allocations=left)


@_follow.register
def _(record: TrialStarted, study: Study) -> Study:
    return replace(study, trials=(*study.trials, Trial(record)))


@_follow.register
def _(record: GangStarted, study: Study) -> Study:
    return _with_trial(study, record.number, lambda it: replace(it, gang=record.identity))


@_follow.register
def _(record: TrialEnded, study: Study) -> Study:
    return _with_trial(
        study, record.number, lambda it: replace(it, report=record.report, wall_s=record.wall_s)
    )


@_follow.register
def _(record: ModelFitted, study: Study) -> Study:
    return replace(study, fitted=record)


@_follow.register
def _(record: Paused, study: Study) -> Study:
    return replace(study, paused=record)


@_follow.register
def _(record: Resumed, study: Study) -> Study:
    dropped = {name: it for name, it in study.dropped.items() if it.kind != NO_BUDGET}
    out = {name: at for name, at in study.out.items() if name in dropped}
    return replace(
        study,
        resumed=record,
        ended=None,
        before=len(study.trials),
        dropped=MappingProxyType(dropped),
        out=MappingProxyType(out),
    )


@_follow.register
def _(record: StudyEnded, study: Study) -> Study:
    return replace(study, ended=record)


class Ledger:
    """The only thing of a tune that changes.

    Args:
        study: What the journal came to when it was opened.
        append: Puts a record on disk, and returns when it is there; it raises where it can't.
    """

    def __init__(self, study: Study, append: Callable[[Record], None]) -> None:
        self.study = study
        self._append = append

    def add(self, record: Record) -> Study:
        """Write it down, then know it."""
        after = follow(self.study, record)
        self._append(record)
        self.study = after
        return after


def stamp() -> str:
    """Now, as records say it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")
