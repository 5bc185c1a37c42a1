"""Savings: what the step would gain if a cause were gone.

Where the profile carries the step's Program, the simulator is asked: measured costs, the same
schedule, some of them free. Where it does not, what is exposed bounds it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from counterpoint.core.basis import Range

if TYPE_CHECKING:
    from counterpoint.diagnose.case import Case


class Savings(Protocol):
    """Milliseconds of a median step."""

    def without(self, instructions: Iterable[str]) -> Range | None:
        """If these took no time; None where nobody can tell."""
        ...


class _Unasked:
    """Nobody can tell."""

    def without(self, instructions: Iterable[str]) -> Range | None:
        del instructions


def savings_of(case: Case) -> Savings:
    """Of the step's program, on what its instructions were measured to cost."""
    del case
    return _Unasked()
