"""What a compiler's log proves of a profile: per module, and on the whole."""

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

LOUD: Final[Mapping[str, str]] = {
    "TF_CPP_MIN_LOG_LEVEL": "0",
    "TF_CPP_VMODULE": "profile_guided_latency_estimator=2,gpu_hlo_schedule=1",
}
"""What makes XLA say all that is read here. (TF_CPP_MAX_LOG_LEVEL, often advised, is no variable
of XLA's.)"""


class Use(StrEnum):
    """What became of the profile in a compile."""

    USED = "used"
    NOT_USED = "not used"
    FAILED = "failed"  # the compile, for want of costs
    UNKNOWN = "unknown"


class Trouble(StrEnum):
    """What the log complains of."""

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
class Complaint:
    """One thing in the log that keeps a profile from being used, and what to do about it."""

    trouble: Trouble
    text: str
    next: str


@dataclass(frozen=True, slots=True)
class ModuleUse:
    """One compile of one module. Counts are XLA's own; None where it wrote none.

    `guided`: scheduled with a profile at hand, used or not.

    `looked_up` and `missed` are single instructions, known from a loud log only.
    """

    module: str
    use: Use
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
class Evidence:
    """What a log proves. `needs` are variables to set so that the next log proves more."""

    use: Use
    reason: str
    modules: tuple[ModuleUse, ...] = ()
    sources: tuple[str, ...] = ()
    complaints: tuple[Complaint, ...] = ()
    from_cache: tuple[str, ...] = ()
    needs: Mapping[str, str] = field(default_factory=dict[str, str])

    def of(self, module: str) -> ModuleUse | None:
        """The last compile of a module that had a profile; else its last."""
        own = [it for it in self.modules if it.module == module]
        with_profile = [it for it in own if it.guided]
        return next(reversed(with_profile or own), None)


def heaviest(programs: Iterable[Program]) -> Program | None:
    """The one with most FLOPs; among equals that with most collectives, then instructions."""
    return max(programs, key=weight, default=None)


def weight(program: Program) -> tuple[int, int, int]:
    """FLOPs with loops counted as often as they turn, collectives, and instructions."""
    work = talks = size = 0
    for computation in launched(program):
        times = loop_multiplier(program, computation.name) or 1
        size += len(computation.instructions)
        for instruction in computation.instructions:
            work += (flops(program, instruction) or 0) * times
            talks += collective(program, instruction) is not None
    return work, talks, size
