"""A disk that became full while the program ran: said, also where it can't be written down."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from counterpoint.core.errors import CounterpointError
from counterpoint.runs.outcome import Outcome, OutcomeKind
from counterpoint.runs.run import Rank, Run

_LEFT: Final = 64 * 1024
"""Less than that is no room for what a program, a profile and we write."""


@dataclass(frozen=True, slots=True)
class Unwritten:
    """What of the end of a run is not on disk: that of a rank, or of the whole."""

    failure: OSError | CounterpointError
    rank: int | None = None
    outcome: Outcome | None = None

    @property
    def words(self) -> str:
        """For people."""
        told = self.failure
        why = told.what if isinstance(told, CounterpointError) else told.strerror or str(told)
        return f"how it ended can't be written down: {why}"


@dataclass(frozen=True, slots=True)
class AtEnd:
    """What was to be seen of the disk when the program had ended, and then."""

    unwritten: tuple[Unwritten, ...]
    was_full: bool
    unkept: tuple[str, ...] = ()
    """Logs that end before the program did."""


def told_of_disk(run: Run, at_end: AtEnd) -> Run:
    """The run as it was read, with what could not be written to it."""
    lost = {one.rank: one for one in at_end.unwritten if one.rank is not None}
    ranks = tuple(_with_end(rank, lost.get(rank.number)) for rank in run.ranks)
    notes = [*at_end.unkept, *(one.words for one in at_end.unwritten)]
    if at_end.was_full:
        notes.append("the disk is full: what is missing here may be missing for that")
    outcome = run.outcome
    if lost and outcome.kind is OutcomeKind.RUNNING:
        outcome = next(rank.outcome for rank in ranks if rank.number in lost)
    return replace(run, ranks=ranks, outcome=outcome, notes=(*run.notes, *notes))


def _with_end(rank: Rank, lost: Unwritten | None) -> Rank:
    """How it ended, as it was seen: that it can't be written down is no failure of the program."""
    if lost is None or lost.outcome is None:
        return rank
    return replace(rank, outcome=lost.outcome)


def is_full(place: Path) -> bool:
    """Whether nothing of use can be written there."""
    try:
        about = os.statvfs(place)
    except OSError:
        return False
    return about.f_blocks > 0 and about.f_bavail * about.f_frsize < _LEFT
