"""How a process, or a run of several, ended."""

from __future__ import annotations

import signal as signals
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class OutcomeKind(StrEnum):
    """What a run ended with, as far as its exit status and its output tell."""

    OK = "ok"
    UNKNOWN_FLAG = "unknown_flag"
    OUT_OF_MEMORY = "out_of_memory"
    NAN = "nan"
    HANG = "hang"
    TIMEOUT = "timeout"
    SIGNAL = "signal"
    INTERRUPTED = "interrupted"
    DISK_FULL = "disk_full"
    NOT_STARTED = "not_started"
    ERROR = "error"
    RUNNING = "running"
    LOST = "lost"


TELLING: Final = (
    OutcomeKind.DISK_FULL,
    OutcomeKind.UNKNOWN_FLAG,
    OutcomeKind.OUT_OF_MEMORY,
    OutcomeKind.NAN,
    OutcomeKind.HANG,
    OutcomeKind.TIMEOUT,
    OutcomeKind.NOT_STARTED,
)
"""Kinds that name a cause. Other ranks then often die of the first one's death."""

TIMED_OUT: Final = 124  # what timeout(1) exits with
DISK_FULL: Final = 3
INTERRUPTED: Final = 128 + signals.SIGINT
NO_END: Final = 1  # running or lost: there is no status to hand on


@dataclass(frozen=True, slots=True)
class Outcome:
    """How it ended; `detail` is one line for people."""

    kind: OutcomeKind
    exit_code: int | None = None
    signal: str | None = None
    detail: str = ""

    @property
    def ok(self) -> bool:
        """Whether it ended by itself, and well."""
        return self.kind is OutcomeKind.OK

    @property
    def status(self) -> int:
        """The exit code that a shell would see: the workload's own where it has one."""
        if self.kind in (OutcomeKind.TIMEOUT, OutcomeKind.HANG):
            return TIMED_OUT
        if self.kind is OutcomeKind.DISK_FULL:
            return self.exit_code or DISK_FULL
        if self.kind is OutcomeKind.INTERRUPTED:
            return 128 + number_of(self.signal) if self.signal else INTERRUPTED
        if self.exit_code is not None:
            return self.exit_code
        return 128 + number_of(self.signal) if self.signal else NO_END

    def __str__(self) -> str:
        """In words: `error, exit code 7: ValueError: no such dataset`."""
        parts = [self.kind.replace("_", " ")]
        if self.signal:
            parts.append(self.signal)
        elif self.exit_code:
            parts.append(f"exit code {self.exit_code}")
        head = ", ".join(parts)
        return f"{head}: {self.detail}" if self.detail else head


def number_of(signal: str) -> int:
    """SIGKILL is 9."""
    try:
        return signals.Signals[signal]
    except KeyError:
        return int(signal) if signal.isdecimal() else 0


def name_of(number: int) -> str:
    """9 is SIGKILL."""
    try:
        return signals.Signals(number).name
    except ValueError:
        return str(number)


def outcome_of_ranks(ended: Sequence[tuple[int, Outcome, float]]) -> Outcome:
    """The outcome of a run: rank, outcome and time of the end of each.

    One rank's death takes the others along, so the run ended as the rank did that names a cause,
    else as the first one that failed by itself.
    """
    if not ended:
        return Outcome(OutcomeKind.NOT_STARTED, detail="no rank has started")
    open_ = [entry for entry in ended if entry[1].kind is OutcomeKind.RUNNING]
    failed = [entry for entry in ended if not entry[1].ok and entry not in open_]
    if not failed:
        return open_[0][1] if open_ else ended[0][1]
    rank, outcome, _ = min(failed, key=_weight)
    if len(ended) == 1:
        return outcome
    detail = f"rank {rank}: {outcome.detail}" if outcome.detail else f"rank {rank}"
    if open_:
        return Outcome(
            OutcomeKind.RUNNING,
            detail=f"{len(open_)} of {len(ended)} ranks; {outcome.kind}, {detail}",
        )
    return Outcome(outcome.kind, outcome.exit_code, outcome.signal, detail)


def _weight(entry: tuple[int, Outcome, float]) -> tuple[int, int, float, int]:
    rank, outcome, when = entry
    telling = TELLING.index(outcome.kind) if outcome.kind in TELLING else len(TELLING)
    by_us = outcome.kind in (OutcomeKind.INTERRUPTED, OutcomeKind.LOST)
    return (telling, int(by_us), when, rank)
