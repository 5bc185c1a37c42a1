"""Records: what a journal may say. Each is an event; a Study is what they come to.

Fields are plain: texts, numbers, tuples, and frozen dataclasses of these, so that one codec writes
and reads them all. A field that comes later has a default: old journals stay readable.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from counterpoint.flags import Settings
from counterpoint.tune.arm import Arm
from counterpoint.tune.space.space import LeftOut
from counterpoint.tune.trial.report import Purpose, Report

FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyBegan:
    """The first record: what is asked. `question` is a hash of all that must not change.

    `parts` are hashes of what it is made of, each under the words that a user knows it by.
    """

    format: int
    version: str  # Counterpoint's
    question: str
    workload: str  # for people: the command, or the function or file
    command: tuple[str, ...]  # empty: nothing is run
    target: str | None
    executor: str | None
    base: Settings
    options: tuple[tuple[str, str], ...]  # budget, cap, indifference, seed and so on, as texts
    at: str  # ISO 8601, as in all records
    cwd: str = ""
    words: tuple[str, ...] = ()  # the command line, as it is typed to go on
    parts: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SpaceMade:
    """What the search looks at, and what was left out."""

    dimensions: tuple[tuple[str, int], ...]  # names, and how many choices
    left_out: tuple[LeftOut, ...]
    at: str
    notes: tuple[str, ...] = ()
    jaxlib: str | None = None  # whose flags it is made of


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateSeen:
    """Offline: an arm was predicted, or why it was not. `same_as` is one with the same program."""

    arm: Arm  # with its prediction, where there is one
    failure: str | None = None
    same_as: str | None = None
    at: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ablated:
    """What the best arm loses without one of its changes: a share of the base's step.

    `basis` is measured or predicted; a range that is None is unknown.
    """

    arm: str
    dimension: str
    choice: str
    loses: float
    low: float | None
    high: float | None
    basis: str
    at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchEnded:
    """Offline: why it ended, and the arms that are worth real time, the best first.

    `tied`: of all candidates, those of which nobody can say that they are behind the best one.
    """

    why: str
    shortlist: tuple[str, ...]
    seconds: float
    at: str
    tied: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmEntered:
    """Online: an arm takes part."""

    arm: Arm
    at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmDropped:
    """Online: it takes part no more; `kind` is one word for the table: slower, same program, ..."""

    arm: str
    kind: str
    why: str
    at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationOpened:
    number: int
    executor: str
    identity: str
    nodes: tuple[str, ...]
    at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationClosed:
    number: int
    at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialStarted:
    """Written before the gang is started, so that its remains can always be found."""

    number: int
    arm: str
    purpose: Purpose
    row: int  # one pass through the base and the arms; -1 where it is no part of one
    allocation: int
    directory: str  # of its Run, relative to the study
    at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GangStarted:
    """By what name `Executor.sweep` finds the trial's processes."""

    number: int
    identity: str
    at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialEnded:
    number: int
    report: Report
    wall_s: float
    at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmProfiled:
    """A PGLE profile was measured for an arm: `settings` are the arm's with it."""

    arm: str
    settings: Settings
    at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFitted:
    """The cost model was fitted to what was measured; errors are means over so many arms.

    `path` None: it was not, and `why`.
    """

    path: str | None
    arms: int
    error_before: float | None
    error_after: float | None
    why: str
    at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Paused:
    """The tuner stopped before it was done: Ctrl-C, budget, disk full."""

    why: str
    at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed:
    """It goes on, with what the user says now of budget, limits and the like."""

    options: tuple[tuple[str, str], ...]
    version: str
    at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyEnded:
    """It is done; `why` says what ended it: decided, budget, target gain, ..."""

    why: str
    at: str


Record: TypeAlias = (
    StudyBegan
    | SpaceMade
    | CandidateSeen
    | Ablated
    | SearchEnded
    | ArmEntered
    | ArmDropped
    | AllocationOpened
    | AllocationClosed
    | TrialStarted
    | GangStarted
    | TrialEnded
    | ArmProfiled
    | ModelFitted
    | Paused
    | Resumed
    | StudyEnded
)
