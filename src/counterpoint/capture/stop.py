"""Why ranks are ended by us, and by which signals."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import Final

from counterpoint.runs.outcome import OutcomeKind

Schedule = tuple[tuple[float, int], ...]
"""Signals, and after how many seconds."""

_ASK: Final[Schedule] = ((0.0, signal.SIGINT), (10.0, signal.SIGTERM), (15.0, signal.SIGKILL))
_PASS_ON: Final[Schedule] = ((0.0, signal.SIGTERM),)
"""Trainers write a checkpoint then, and the scheduler knows for how long it lets them."""
_DUMP: Final[Schedule] = ((0.0, signal.SIGABRT), (5.0, signal.SIGKILL))
"""Python's fault handler then says where it hung."""
_ENOUGH: Final[Schedule] = ((0.0, signal.SIGINT), (5.0, signal.SIGTERM), (10.0, signal.SIGKILL))
"""SIGINT first: at SIGTERM trainers write checkpoints, and nobody wants one.

Not for long: of ranks that are in a collective with one that has left, none hears SIGINT.
"""
TELL: Final[Schedule] = ((0.0, signal.SIGTERM), (5.0, signal.SIGKILL))


@dataclass(frozen=True, slots=True)
class Stop:
    """Why the ranks were ended by us."""

    kind: OutcomeKind
    detail: str
    signal: str | None = None
    because_of: int | None = None

    @property
    def is_patient(self) -> bool:
        """Whether the program may take as long as it wants to end."""
        return self.signal == signal.SIGTERM.name

    @property
    def is_asked(self) -> bool:
        """Whether it is the end that was asked for from the start: no failure, whatever follows."""
        return self.kind is OutcomeKind.OK

    @property
    def schedule(self) -> Schedule:
        """How they are ended."""
        if self.kind is OutcomeKind.HANG:
            return _DUMP
        if self.is_asked:
            return _ENOUGH
        if self.is_patient:
            return _PASS_ON
        asked = self.kind in (OutcomeKind.INTERRUPTED, OutcomeKind.TIMEOUT)
        return _ASK if asked and self.because_of is None else TELL
