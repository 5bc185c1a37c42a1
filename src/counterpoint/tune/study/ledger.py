"""Ledger: a study and its journal together. What is added is on disk before anybody knows of it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from counterpoint.tune.journal.records import Record
from counterpoint.tune.study.study import Study, follow


class Ledger:
    """The only thing of a tune that changes.

    Args:
        study: What the journal came to when it was opened.
        append: Puts a record on disk, and returns when it is there; it raises where it can't.
    """

    def __init__(self, study: Study, append: Callable[[Record], None]) -> None:
        self.study = study
        self._append = append

    def add(self, record: Record) -> Study:
        """Write it down, then know it."""
        after = follow(self.study, record)
        self._append(record)
        self.study = after
        return after


def stamp() -> str:
    """Now, as records say it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")
