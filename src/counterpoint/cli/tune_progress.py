"""What `tune` says while it works: read from the journal, which is written before anything goes on.

What happened stays, a line each: arms that take part, trials, arms that are dropped. Below it a
terminal has a few lines that are redrawn: spent and left, the best so far, what runs, what is being
done. A file or a pipe gets what happened, and now and then how it stands.
"""

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

from counterpoint.core.errors import CounterpointError
from counterpoint.report.tune_progress import Standing, happened, standing
from counterpoint.tune.conclusion.conclusion import Conclusion
from counterpoint.tune.study.study import Study

_WIPE: Final = "\r\x1b[K"
_UP: Final = "\x1b[1A"
_SPARE: Final = 3
"""Columns for the ^C that a terminal echoes behind a line: one more row could not be wiped."""
_PREFIX: Final = "counterpoint: "


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds from one look at the journal to the next, and from one line of a pipe to the next."""

    look: float
    again: float


ON_TERMINAL: Final = Pace(look=0.5, again=0.0)
IN_FILE: Final = Pace(look=1.0, again=60.0)


class StudyProgress:
    """Says what happens in a study while a block runs."""

    def __init__(
        self, directory: Path, stream: TextIO | None = None, pace: Pace | None = None
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
        """From now on, this is being done."""
        self._doing = what

    def note(self, line: str) -> None:
        """A line that stays."""
        with self._lock, suppress(OSError, ValueError):
            self._stay([line])

    def __enter__(self) -> Self:
        self._told = _read(self._directory)  # what was there before is not told again
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._finished.set()
        self._thread.join()

    def _follow(self) -> None:
        with suppress(OSError, ValueError):  # a stderr that is gone stops the talk, not the work
            while not self._finished.wait(self._pace.look):
                self._look()
            self._look(last=True)

    def _look(self, *, last: bool = False) -> None:
        study = self._news()
        with self._lock:
            if study is not None:
                self._stay(happened(self._told, study))
                self._told = study
            if self._on_terminal:
                self._draw([] if last else self._status())
            elif not last:
                self._say_again()

    def _news(self) -> Study | None:
        """The study, where its journal has grown."""
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

    def _standing(self) -> Standing | None:
        if self._told is None or self._conclusion is None:
            return None
        return standing(self._told, self._conclusion, datetime.now(UTC))

    def _stay(self, lines: list[str]) -> None:
        if not lines:
            return
        self._draw([])
        for line in lines:
            self._stream.write(f"{_PREFIX}{line}\n")
        self._stream.flush()
        self._said_at = time.monotonic()

    def _draw(self, lines: list[str]) -> None:
        if not self._on_terminal:
            return
        width = get_terminal_size().columns - _SPARE
        back = (_WIPE + _UP) * max(self._drawn - 1, 0) + (_WIPE if self._drawn else "")
        self._stream.write(back + "\n".join(line[:width] for line in lines))
        self._stream.flush()
        self._drawn = len(lines)

    def _say_again(self) -> None:
        """How it stands, where nothing was said for a while and that has changed."""
        if time.monotonic() - self._said_at < self._pace.again:
            return
        said = "; ".join(self._status())
        if said and said != self._said:
            self._stay([said])
            self._said = said
        self._said_at = time.monotonic()


def _read(directory: Path) -> Study | None:
    from counterpoint.tune.study.directory import is_study, read_study

    if not is_study(directory):
        return None
    try:
        return read_study(directory)
    except CounterpointError:  # whoever works with it says what is wrong
        return None


def _conclude(study: Study) -> Conclusion | None:
    from counterpoint.tune.conclusion.conclude import conclude
    from counterpoint.tune.study.plan_text import plan_of

    try:
        return conclude(study, plan_of(study))
    except CounterpointError:
        return None
