"""TrialReport: the results of one run of one arm: its speed, program, memory and losses."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from counterpoint.capture.losses import Losses
from counterpoint.runs.steady import Steady


class Purpose(StrEnum):
    """The purpose of a trial."""

    NOISE = "noise"  # the base twice in a row: the difference between identical runs
    SCREEN = "screen"  # all arms, once or twice
    RACE = "race"  # those that may be faster, until that is decided
    CONFIRM = "confirm"  # the best one against the base, in a fresh allocation
    ABLATE = "ablate"  # the best one without one of its changes
    PROFILE = "profile"  # for PGLE; its step time is not used


class TrialFailure(StrEnum):
    """The reason why a trial has no step time."""

    UNKNOWN_FLAG = "unknown flag"
    NOT_APPLIED = "not applied"  # its settings did not reach the program
    OUT_OF_MEMORY = "out of memory"
    NAN = "NaN"
    OTHER_NUMBERS = "other numbers"  # its losses are not the base's
    FEWER_STEPS = "fewer steps"  # it ended by itself before the base does
    HANG = "hang"
    TIMEOUT = "timeout"
    CRASH = "crash"
    NO_STEPS = "no steps"  # it ended well, but no steps were recorded
    UNSTEADY = "unsteady"  # its step time never became stable
    PREEMPTED = "preempted"
    NODE_FAULT = "node fault"
    DISK_FULL = "disk full"
    INTERRUPTED = "interrupted"  # by the user, or the tuner was killed

    @property
    def blames_the_arm(self) -> bool:
        """True if the arm's settings may be at fault; otherwise the trial is repeated."""
        return self not in _BLAMELESS

    @property
    def may_be_chance(self) -> bool:
        """True if a busy machine may be at fault instead: the steps could not be timed in time."""
        return self in _OF_A_BUSY_MACHINE

    @property
    def is_certain(self) -> bool:
        """True if one such trial is enough to drop the arm; otherwise it gets a second chance."""
        return self in _CERTAIN


_BLAMELESS = frozenset(
    {
        TrialFailure.PREEMPTED,
        TrialFailure.NODE_FAULT,
        TrialFailure.DISK_FULL,
        TrialFailure.INTERRUPTED,
    }
)
_OF_A_BUSY_MACHINE = frozenset({TrialFailure.NO_STEPS, TrialFailure.UNSTEADY, TrialFailure.TIMEOUT})
NO_MATTER_WHEN_PROFILING = frozenset({TrialFailure.NO_STEPS, TrialFailure.UNSTEADY})
"""Failures that do not matter in a profiled run, which needs no step times."""
_CERTAIN = frozenset(
    {
        TrialFailure.UNKNOWN_FLAG,
        TrialFailure.NOT_APPLIED,
        TrialFailure.OUT_OF_MEMORY,
        TrialFailure.NAN,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialReport:
    """The results of a run.

    `program` is the hash of the scheduled step, and `compiled` that of the step with all compiler
    options that could have an effect; None without a dump.
    """

    steady: Steady | None = None
    failure: TrialFailure | None = None
    detail: str = ""
    program: str | None = None
    compiled: str | None = None
    peak_bytes: int | None = None
    limit_bytes: int | None = None
    remat: bool | None = None  # True if XLA recomputed to save memory
    losses: Losses | None = None
    hosts: tuple[str, ...] = ()
    versions: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    steps_seen: int | None = None  # all steps, if the program ended by itself
    devices: tuple[str, ...] = ()  # the kinds of devices, as JAX names them
    compile_s: float | None = None  # by XLA, of the rank that compiled longest
    start_s: float | None = None  # beside its steps at the steady pace: start, compile, warm-up
