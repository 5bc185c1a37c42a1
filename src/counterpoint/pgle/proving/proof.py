"""What a compiler's log proves about a profile: per module, and overall."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from counterpoint.hlo import Program
from counterpoint.hlo.collectives import collective
from counterpoint.hlo.model import launched
from counterpoint.hlo.schedule import loop_multiplier
from counterpoint.hlo.work import flops

VERBOSE_LOG: Final[Mapping[str, str]] = {
    "TF_CPP_MIN_LOG_LEVEL": "0",
    "TF_CPP_VMODULE": "profile_guided_latency_estimator=2,gpu_hlo_schedule=1",
}
"""Environment that makes XLA log everything that is read here.

TF_CPP_MAX_LOG_LEVEL, often advised, is not a variable of XLA's.
"""


class ProfileUse(StrEnum):
    """The outcome for a profile in a compile."""

    USED = "used"
    NOT_USED = "not used"
    FAILED = "failed"  # the compile failed for lack of costs
    UNKNOWN = "unknown"


class ComplaintKind(StrEnum):
    """A complaint in the log."""

    MISSING_FILE = "missing file"
    UNREADABLE = "unreadable"
    DISCARDED = "discarded"
    RENAMED = "renamed"
    SCHEDULER_ANYWAY = "scheduler runs anyway"
    EMPTY_TRACE = "empty trace"
    CONTENTION = "contention"
    CACHE_MISS = "cache miss"
    CACHE_WRITE = "cache write"


@dataclass(frozen=True, slots=True)
class LogComplaint:
    """One thing in the log that keeps a profile from being used, and its remedy."""

    trouble: ComplaintKind
    text: str
    next: str


@dataclass(frozen=True, slots=True)
class ModuleUse:
    """One compile of one module. Counts are XLA's own; None if it wrote none.

    `guided` is true if it was scheduled with a profile available, used or not.

    `looked_up` and `missed` are single instructions, known only from a verbose log.
    """

    module: str
    use: ProfileUse
    reason: str
    guided: bool = False
    source: str | None = None
    fingerprint: str | None = None
    fallback: str | None = None
    found: int | None = None
    missing: int | None = None
    missing_names: tuple[str, ...] = ()
    looked_up: frozenset[str] = frozenset()
    missed: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class LogEvidence:
    """The findings from a log. `needs` are variables to set for a more conclusive log."""

    use: ProfileUse
    reason: str
    modules: tuple[ModuleUse, ...] = ()
    sources: tuple[str, ...] = ()
    complaints: tuple[LogComplaint, ...] = ()
    from_cache: tuple[str, ...] = ()
    needs: Mapping[str, str] = field(default_factory=dict[str, str])

    def of(self, module: str) -> ModuleUse | None:
        """Return the last compile of a module that had a profile; else its last."""
        own = [use for use in self.modules if use.module == module]
        with_profile = [use for use in own if use.guided]
        return next(reversed(with_profile or own), None)


def heaviest(programs: Iterable[Program]) -> Program | None:
    """Return the program with the most FLOPs; among equals, collectives, then instructions.

    It is the training step. File sizes don't tell: a module that fills arrays with random numbers
    is larger than the step it serves.
    """
    return max(programs, key=weight, default=None)


def weight(program: Program) -> tuple[int, int, int]:
    """Return FLOPs including loop iterations, collectives, and instructions."""
    work = collectives = size = 0
    for computation in launched(program):
        times = loop_multiplier(program, computation.name) or 1
        size += len(computation.instructions)
        for instruction in computation.instructions:
            work += (flops(program, instruction) or 0) * times
            collectives += collective(program, instruction) is not None
    return work, collectives, size
