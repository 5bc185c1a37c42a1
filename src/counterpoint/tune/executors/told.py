"""What is told of a gang's end: by its Run, else by the last words of whoever launched it."""

from __future__ import annotations

import os
import re
from itertools import takewhile
from pathlib import Path
from typing import Final

from counterpoint.core.errors import InputError
from counterpoint.runs.outcome import OutcomeKind
from counterpoint.runs.reader import is_run, read_run
from counterpoint.tune.executors.executor import Ended, EndedKind

_TAIL: Final = 1 << 14
_LINES: Final = 6


def launcher_log(directory: Path) -> Path:
    """Beside the Run, which takes nothing but its own: what was said before there was one."""
    return directory.with_name(f"{directory.name}.launcher.log")


def told(directory: Path, code: int, log: Path) -> Ended:
    """How a gang ended that nobody ended; the log is kept only where it ended ill.

    The Run knows which rank was the first to fail, and so the code that counts; a launcher knows
    only the codes of all, of which some died because of the first.
    """
    exit_code, detail = code, ""
    try:
        outcome = read_run(directory).outcome if is_run(directory) else None
    except InputError as damage:
        outcome, detail = None, str(damage)
    if outcome is None:
        exit_code = (first_code(log) if code else None) or code
        detail = detail or last_words(log)
    elif outcome.kind not in (OutcomeKind.RUNNING, OutcomeKind.LOST):
        exit_code, detail = outcome.status, outcome.detail
    if exit_code == 0 and code == 0:
        log.unlink(missing_ok=True)
    return Ended(kind=EndedKind.EXITED, exit_code=exit_code or code, detail=detail if code else "")


def last_words(log: Path) -> str:
    """The last error in it with what was said about it, else its last lines."""
    lines = _tail(log)
    errors = [number for number, line in enumerate(lines) if line.startswith("error:")]
    if not errors:
        return "\n".join(lines[-_LINES:])
    first, *more = lines[errors[-1] :]
    return "\n".join([first, *takewhile(lambda line: line.startswith("  "), more)])


def first_code(log: Path) -> int | None:
    """The exit code of the task that failed first, in srun's words; others die of it."""
    found = (re.match(r"srun: error: .*: Exited with exit code (\d+)$", it) for it in _tail(log))
    return next((int(it.group(1)) for it in found if it), None)


def _tail(log: Path) -> list[str]:
    try:
        with log.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL))
            return file.read().decode("utf-8", errors="replace").strip().splitlines()
    except OSError:
        return []
