"""Whether what ranks wrote on their nodes has arrived here: shared file systems take their time."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

from counterpoint.core.errors import CounterpointError, UsageError
from counterpoint.runs import layout
from counterpoint.runs.outcome import OutcomeKind
from counterpoint.runs.reader import is_run, read_run

_PATIENCE_S: Final = 90.0
"""Network file systems remember for up to a minute what was not there."""
_PATIENCE_AFTER_FAILURE_S: Final = 5.0
"""Ranks that were killed have written no end, so there is none to wait for."""


class Arrival:
    """Of the Run of a gang that has ended; asked again and again until it is here."""

    def __init__(self, directory: Path, ranks: int) -> None:
        self._directory = directory
        self._ranks = ranks
        self._began: float | None = None

    def is_here(self, code: int) -> bool:
        """Whether there is no more to wait for, after this exit code."""
        now = time.monotonic()
        if self._began is None:
            self._began = now
        if self._is_whole() or (code and not is_run(self._directory)):
            return True
        over = now - self._began
        if code:
            return over > _PATIENCE_AFTER_FAILURE_S
        if over > _PATIENCE_S:
            self._refuse()
        return False

    def _is_whole(self) -> bool:
        try:
            os.listdir(self._directory)  # noqa: PTH208 - makes NFS look again
            run = read_run(self._directory)
        except (OSError, CounterpointError):
            return False
        return len(run.ranks) >= self._ranks and run.outcome.kind is not OutcomeKind.RUNNING

    def _refuse(self) -> None:
        numbers = layout.rank_numbers(self._directory)
        missing = sorted(set(range(self._ranks)) - set(numbers))
        if not missing:
            return
        raise UsageError(
            f"{self._directory}: ranks {', '.join(map(str, missing[:8]))} ended well, but left"
            " nothing here",
            why="it is not on a file system that all nodes and this machine share",
            next="keep the study on a shared file system: -o /shared/DIRECTORY",
        )
