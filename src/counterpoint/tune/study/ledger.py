"""Ledger: a study and its journal together; a record is on disk before the study has it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from counterpoint.tune.study.records import (
    Record,
)
from counterpoint.tune.study.study import Study, follow


class Ledger:
    """The only mutable state of a tuning session.

    Args:
        study: The state of the journal when it was opened.
        append: Writes a record to disk, and returns when it is there; raises if it cannot.
    """

    def __init__(self, study: Study, append: Callable[[Record], None]) -> None:
        self.study = study
        self._append = append

    def add(self, record: Record) -> Study:
        """Write a record to the journal, then apply it to the study."""
        after = follow(self.study, record)
        self._append(record)
        self.study = after
        return after


def stamp() -> str:
    """Return the current time in the format of the records."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")
