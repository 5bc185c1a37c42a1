"""Report: what one run of one arm told, of its speed, its program, its memory and its numbers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Purpose(StrEnum):
    """Why a trial runs."""

    NOISE = "noise"  # the base twice in a row: how much identical runs differ
    SCREEN = "screen"  # all arms, once or twice
    RACE = "race"  # those that may be faster, until that is decided
    CONFIRM = "confirm"  # the best one against the base, in a fresh allocation
    ABLATE = "ablate"  # the best one without one of its changes
    PROFILE = "profile"  # for PGLE; its step time counts for nothing


class Failure(StrEnum):
    """Why a trial gave no figure."""

    UNKNOWN_FLAG = "unknown flag"
    OUT_OF_MEMORY = "out of memory"
    NAN = "NaN"
    OTHER_NUMBERS = "other numbers"  # its losses are not the base's
    HANG = "hang"
    TIMEOUT = "timeout"
    CRASH = "crash"
    NO_STEPS = "no steps"  # it ended well, but nobody saw what a step takes
    UNSTEADY = "unsteady"  # its steps never settled
    PREEMPTED = "preempted"
    NODE_FAULT = "node fault"
    DISK_FULL = "disk full"
    INTERRUPTED = "interrupted"  # by the user, or the tuner was killed

    @property
    def blames_the_arm(self) -> bool:
        """Whether the arm's settings may be at fault; else the trial is made again."""
        return self not in _BLAMELESS

    @property
    def is_certain(self) -> bool:
        """Whether one such trial is enough to drop the arm; else it gets a second chance."""
        return self in _CERTAIN


_BLAMELESS = frozenset(
    {Failure.PREEMPTED, Failure.NODE_FAULT, Failure.DISK_FULL, Failure.INTERRUPTED}
)
_CERTAIN = frozenset({Failure.UNKNOWN_FLAG, Failure.OUT_OF_MEMORY, Failure.NAN})


@dataclass(frozen=True, slots=True, kw_only=True)
class Steady:
    """The steps of a run after its warm-up, as one figure."""

    median_s: float
    steps: int
    warm_up: int  # steps before them that were left out
    spread: float  # within the run, as a share: tells of its quality, never of runs
    source: str  # how steps were seen: annotation, api, log or profile
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Losses:
    """What the program printed of its losses, by step; empty where it prints none.

    Norms of the gradient are beside them, where those are printed, too.
    """

    steps: tuple[int, ...] = ()
    values: tuple[float, ...] = ()
    norm_steps: tuple[int, ...] = ()
    norms: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """`program` is the hash of the scheduled step, None where XLA dumped none."""

    steady: Steady | None = None
    failure: Failure | None = None
    detail: str = ""
    program: str | None = None
    peak_bytes: int | None = None
    limit_bytes: int | None = None
    remat: bool | None = None  # whether XLA recomputed to save memory
    losses: Losses | None = None
    hosts: tuple[str, ...] = ()
    versions: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    steps_seen: int | None = None  # all of them, where the program ended by itself
    devices: tuple[str, ...] = ()  # the kinds it ran on, as JAX names them
