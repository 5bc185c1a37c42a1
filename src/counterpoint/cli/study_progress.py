"""The progress of a study on stderr: events that stay, and status lines that are redrawn."""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from shutil import get_terminal_size
from threading import Event, Lock, Thread
from typing import Final, Self, TextIO

from counterpoint.core import CounterpointError
from counterpoint.core.printable import printable
from counterpoint.report.tune.progress import StudyStatus, event_lines, study_status
from counterpoint.tune.conclusion import Conclusion, conclude
from counterpoint.tune.study import Study, is_study, plan_of, read_study

_WIPE: Final = "\r\x1b[K"
_UP: Final = "\x1b[1A"
_SPARE: Final = 3
"""Columns for the ^C that a terminal echoes after a line: a wrapped row could not be erased."""
_PREFIX: Final = "counterpoint: "


@dataclass(frozen=True, slots=True)
class RefreshIntervals:
    """Seconds between reads of the journal, and between lines written to a pipe."""

    look: float
    again: float


ON_TERMINAL: Final = RefreshIntervals(look=0.5, again=0.0)
IN_FILE: Final = RefreshIntervals(look=1.0, again=60.0)


class StudyProgress:
    """Reports the progress of a study while a block runs, from its journal.

    Events are printed once and stay, a line each. Below them, a terminal shows status lines that
    are redrawn; a file or a pipe gets a status line now and then.
    """

    def __init__(
        self, directory: Path, stream: TextIO | None = None, pace: RefreshIntervals | None = None
    ) -> None:
        self._directory = directory
        self._stream = sys.stderr if stream is None else stream
        self._on_terminal = self._stream.isatty()
        self._pace = pace or (ON_TERMINAL if self._on_terminal else IN_FILE)
        self._finished = Event()
        self._lock = Lock()
        self._doing = ""
        self._told: Study | None = None
        self._conclusion: Conclusion | None = None
        self._size = -1
        self._drawn = 0
        self._said_at = time.monotonic()
        self._said = ""
        self._thread = Thread(target=self._follow, name="study progress", daemon=True)

    def say(self, what: str) -> None:
        """Set what is being done."""
        self._doing = what

    def note(self, line: str) -> None:
        """Print a permanent line."""
        with self._lock, suppress(OSError, ValueError):
            self._stay([line])

    def __enter__(self) -> Self:
        self._told = _read(self._directory)  # earlier events are not reported again
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._finished.set()
        self._thread.join()

    def _follow(self) -> None:
        with suppress(OSError, ValueError):  # a closed stderr ends the output, not the work
            while not self._finished.wait(self._pace.look):
                self._look()
            self._look(last=True)

    def _look(self, *, last: bool = False) -> None:
        study = self._news()
        with self._lock:
            if study is not None:
                self._stay(event_lines(self._told, study))
                self._told = study
            if self._on_terminal:
                self._draw([] if last else self._status())
            elif not last:
                self._say_again()

    def _news(self) -> Study | None:
        """Return the study if its journal has grown."""
        with suppress(OSError):
            size = (self._directory / "journal.jsonl").stat().st_size
            if size != self._size:
                study = _read(self._directory)
                self._conclusion = None if study is None else _conclude(study)
                self._size = size
                return study
        return None

    def _status(self) -> list[str]:
        found = self._standing()
        lines = [] if found is None else [*found.lines]
        return [*lines, self._doing] if self._doing and not (found and found.running) else lines

    def _standing(self) -> StudyStatus | None:
        if self._told is None or self._conclusion is None:
            return None
        return study_status(self._told, self._conclusion, datetime.now(UTC))

    def _stay(self, lines: list[str]) -> None:
        if not lines:
            return
        self._draw([])
        for line in lines:
            self._stream.write(f"{_PREFIX}{printable(line)}\n")
        self._stream.flush()
        self._said_at = time.monotonic()

    def _draw(self, lines: list[str]) -> None:
        if not self._on_terminal:
            return
        width = get_terminal_size().columns - _SPARE
        back = (_WIPE + _UP) * max(self._drawn - 1, 0) + (_WIPE if self._drawn else "")
        self._stream.write(back + "\n".join(printable(line)[:width] for line in lines))
        self._stream.flush()
        self._drawn = len(lines)

    def _say_again(self) -> None:
        """Print the standing if it has changed and nothing was printed for a while."""
        if time.monotonic() - self._said_at < self._pace.again:
            return
        text = "; ".join(self._status())
        if text and text != self._said:
            self._stay([text])
            self._said = text
        self._said_at = time.monotonic()


def _read(directory: Path) -> Study | None:
    if not is_study(directory):
        return None
    try:
        return read_study(directory)
    except CounterpointError:  # reported by the code that uses the study
        return None


def _conclude(study: Study) -> Conclusion | None:
    try:
        return conclude(study, plan_of(study))
    except CounterpointError:
        return None
