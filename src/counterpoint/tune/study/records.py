"""Records: the events in a journal, from which a Study is folded.

Fields are plain: texts, numbers, tuples, and frozen dataclasses of these, so that one codec writes
and reads them all. Fields added later have defaults, so old journals stay readable.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self, TypeAlias

from counterpoint.flags.settings import Settings
from counterpoint.tune.arm import Arm
from counterpoint.tune.space.space import LeftOut, Space
from counterpoint.tune.trial.report import Purpose, TrialReport

FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyBegan:
    """The first record: the request. `question` is a hash of everything that must not change.

    `parts` are hashes of its parts, each under a name that the user knows.
    """

    format: int
    version: str  # Counterpoint's
    question: str
    workload: str  # for display: the command, or the function or file
    command: tuple[str, ...]  # empty if nothing is run
    target: str | None
    executor: str | None
    base: Settings
    options: tuple[tuple[str, str], ...]  # budget, cap, indifference, seed and so on
    at: str  # ISO 8601, as in all records
    cwd: str = ""
    words: tuple[str, ...] = ()  # the command line that continues the study
    parts: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SpaceMade:
    """The dimensions that the search tries, and what was left out."""

    dimensions: tuple[tuple[str, int], ...]  # names and numbers of choices
    left_out: tuple[LeftOut, ...]
    at: str
    notes: tuple[str, ...] = ()
    jaxlib: str | None = None  # the release whose flags it uses

    @classmethod
    def of(cls, space: Space, at: str) -> Self:
        """Return the record of a space."""
        return cls(
            dimensions=tuple(
                (dimension.name, len(dimension.choices)) for dimension in space.dimensions
            ),
            left_out=space.left_out,
            at=at,
            notes=space.notes,
            jaxlib=space.version,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateSeen:
    """Search: an arm was predicted, or failed. `same_as` names an arm with the same program."""

    arm: Arm  # with its prediction, if any
    failure: str | None = None
    same_as: str | None = None
    at: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ablated:
    """The best arm's loss without one of its changes, as a share of the base's step.

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
    """Search: why it ended, and the shortlist, best first.

    `tied` names all candidates that may be as fast as the best one.
    """

    why: str
    shortlist: tuple[str, ...]
    seconds: float
    at: str
    tied: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmEntered:
    """Race: an arm takes part."""

    arm: Arm
    at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmDropped:
    """Race: an arm no longer takes part; `kind` is for the table: slower, same program, ..."""

    arm: str
    kind: str
    why: str
    at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationOpened:
    """An executor has got nodes; `identity` is what `Executor.sweep` finds them by."""

    number: int
    executor: str
    identity: str
    nodes: tuple[str, ...]
    at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationClosed:
    """The nodes are released."""

    number: int
    at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialStarted:
    """A trial is about to start: recorded before its gang, so that no process is ever unknown."""

    number: int
    arm: str
    purpose: Purpose
    row: int  # one pass through the base and the arms; -1 if not part of a row
    allocation: int
    directory: str  # of its Run, relative to the study
    at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GangStarted:
    """A trial's processes have started; `identity` is what `Executor.sweep` finds them by."""

    number: int
    identity: str
    at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialEnded:
    """A trial is over, whether it succeeded or failed; `wall_s` is what it cost."""

    number: int
    report: TrialReport
    wall_s: float
    at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmProfiled:
    """A PGLE profile was measured for an arm: `settings` are the arm's including the profile."""

    arm: str
    settings: Settings
    at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFitted:
    """The cost model was fitted to the measurements; errors are means over `arms` arms.

    If `path` is None, it was not fitted, for the reason `why`.
    """

    path: str | None
    arms: int
    error_before: float | None
    error_after: float | None
    why: str
    at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Paused:
    """The tuner stopped before the study was done: Ctrl-C, budget, disk full."""

    why: str
    at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed:
    """The study continues, with the user's new options for budget, limits and so on."""

    options: tuple[tuple[str, str], ...]
    version: str
    at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyEnded:
    """The study is done; `why` is the reason: decided, budget, target gain, ..."""

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
