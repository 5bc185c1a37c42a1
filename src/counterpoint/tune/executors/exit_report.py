"""The end of a gang that was not killed: from its Run, or from the last output of its launcher.

Ranks on other nodes write their part of the Run there; `Arrival` detects when all of it can be read
here, which takes a network file system a while.
"""

from __future__ import annotations

import os
import re
import time
from itertools import takewhile
from pathlib import Path
from typing import Final

from counterpoint.core import CounterpointError, InputError, UsageError
from counterpoint.runs import layout
from counterpoint.runs.layout import is_run
from counterpoint.runs.outcomes import OutcomeKind
from counterpoint.runs.reader import read_run
from counterpoint.tune.executors.executor import GangEnd, GangEndKind

_TAIL: Final = 1 << 14
NO_SPACE: Final = re.compile(r"No space left on device|Disk quota exceeded")
_LINES: Final = 6
_PATIENCE_S: Final = 90.0
"""Network file systems cache for up to a minute that a file does not exist."""
_PATIENCE_AFTER_FAILURE_S: Final = 5.0
"""Killed ranks have recorded no end, so there is none to wait for."""


def launcher_log(directory: Path) -> Path:
    """Return the file for output of launchers and ranks before there is a Run, beside the Run."""
    return directory.with_name(f"{directory.name}.launcher.log")


def exit_report(directory: Path, code: int) -> GangEnd:
    """Report the end of a gang that was not killed; its log is deleted after a success.

    It is kept if the disk was full: a program may end well where its output could not be written.

    The Run records which rank was the first to fail, and so the relevant exit code; a launcher has
    only the codes of all, some of which are consequences of the first failure.
    """
    log = launcher_log(directory)
    exit_code, detail = code, ""
    try:
        outcome = read_run(directory).outcome if is_run(directory) else None
    except InputError as damage:
        outcome, detail = None, str(damage)
    if outcome is None:
        exit_code = (_first_code(log) if code else None) or code
        detail = detail or last_words(log)
    elif outcome.kind not in (OutcomeKind.RUNNING, OutcomeKind.LOST):
        exit_code, detail = outcome.status, outcome.detail
    if exit_code == 0 and code == 0 and no_space_line(log) is None:
        log.unlink(missing_ok=True)
    return GangEnd(
        kind=GangEndKind.EXITED, exit_code=exit_code or code, detail=detail if code else ""
    )


def last_words(log: Path) -> str:
    """Return the last error in a log with its indented lines, or the log's last lines."""
    lines = tail(log, _TAIL).strip().splitlines()
    errors = [number for number, line in enumerate(lines) if line.startswith("error:")]
    if not errors:
        return "\n".join(lines[-_LINES:])
    first, *more = lines[errors[-1] :]
    return "\n".join([first, *takewhile(lambda line: line.startswith("  "), more)])


def no_space_line(log: Path) -> str | None:
    """Return the last line in a log which says that the disk was full."""
    lines = tail(log, _TAIL).splitlines()
    return next((line.strip() for line in reversed(lines) if NO_SPACE.search(line)), None)


def _first_code(log: Path) -> int | None:
    """Return the exit code of the task that failed first, according to srun."""
    words = r"^srun: error: .*: Exited with exit code (\d+)$"
    found = re.search(words, tail(log, _TAIL), re.MULTILINE)
    return int(found.group(1)) if found else None


def tail(log: Path, size: int) -> str:
    """Return the last bytes of a file as text; empty if there is no file."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - size))
            return file.read().decode("utf-8", errors="replace")
    except OSError:
        return ""


class Arrival:
    """The Run of a gang that has ended, in transit to this machine; polled until it is complete."""

    def __init__(self, directory: Path, ranks: int) -> None:
        self._directory = directory
        self._ranks = ranks
        self._began: float | None = None

    def is_here(self, code: int) -> bool:
        """Return True if there is nothing to wait for, after this exit code of the launcher."""
        now = time.monotonic()
        if self._began is None:
            self._began = now
        if self._is_whole() or (code and not is_run(self._directory)):
            return True
        elapsed_s = now - self._began
        if code:
            return elapsed_s > _PATIENCE_AFTER_FAILURE_S
        if elapsed_s > _PATIENCE_S:
            self._refuse()
        return False

    def _is_whole(self) -> bool:
        try:
            os.listdir(self._directory)  # noqa: PTH208 - makes NFS refresh its cache
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
            f"{self._directory}: ranks {', '.join(map(str, missing[:8]))} ended successfully,"
            " but left nothing here",
            why="it is not on a file system that all nodes and this machine share",
            next="use -o /shared/DIRECTORY: a directory on a shared file system",
        )
