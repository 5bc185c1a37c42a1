"""A rank's output: kept in its files, shown while it runs, and searched for steps."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal, TextIO

from counterpoint.capture.steps import StepLines, bar_step_of, step_of
from counterpoint.core import CounterpointError
from counterpoint.runs import layout
from counterpoint.runs.outcomes import Outcome, OutcomeKind
from counterpoint.runs.run import Rank, Run

_CHUNK: Final = 1 << 16
_LONGEST: Final = 1 << 16
"""Length at which a line is cut: progress bars may never end one."""
_TAIL: Final = 1 << 18
"""Number of bytes kept in memory, to determine the outcome, if the log can't be written."""


class Output:
    """One of the two streams of a rank."""

    def __init__(
        self,
        source: int,
        log: Path,
        sink: Callable[[bytes], None],
        see: Callable[[str, float], None],
        lost: Callable[[str], None],
    ) -> None:
        self.source = source
        self.unkept: str | None = None  # why the log ends before the program did
        self.tail = b""  # output that is not in the log
        self._lost = lost
        self._log = log.open("xb", buffering=0)
        self._sink = sink
        self._see = see
        self._rest = b""
        self.shown_at = float("-inf")
        self.is_mid_line = False

    def pump(self) -> bool:
        """Read what is available; return False at the end of the stream."""
        try:
            chunk = os.read(self.source, _CHUNK)
        except OSError:
            chunk = b""
        if not chunk:
            self._sink(chunk)
            self._lines(b"\n" if self._rest else b"")
            return False
        self._sink(chunk)
        self.shown_at, self.is_mid_line = time.monotonic(), not chunk.endswith(b"\n")
        self._lines(chunk)
        self._keep(chunk)
        return True

    def close(self) -> None:
        """Close the log."""
        with suppress(OSError):
            self._log.close()

    def _keep(self, chunk: bytes) -> None:
        try:
            while chunk and self.unkept is None:
                chunk = chunk[self._log.write(chunk) :]
        except OSError as failure:
            self.close()  # from here on output is only shown
            name = Path(self._log.name).name
            self.unkept = f"{name} is incomplete: {failure.strerror or failure}"
            self._lost(f"{self.unkept}; the program continues, and further output is only shown")
        if self.unkept is not None:
            self.tail = (self.tail + chunk)[-_TAIL:]

    def _lines(self, chunk: bytes) -> None:
        text = (self._rest + chunk).replace(b"\r", b"\n")
        done, _, self._rest = text.rpartition(b"\n")
        self._rest = self._rest[-_LONGEST:]
        if _may_name_a_step(done):  # a program may print 100 MB/s, but a few steps at most
            arrived_s = time.monotonic()  # of all of them: they came together
            for line in filter(_may_name_a_step, done.split(b"\n")):
                self._see(line.decode("utf-8", errors="replace"), arrived_s)


def _may_name_a_step(text: bytes) -> bool:
    """Return whether any pattern of capture/steps.py can match: each needs one of these words."""
    low = text.lower()
    return b"step" in low or b"loss" in low


class PrintedSteps:
    """Records the steps that a rank's lines name, with their arrival times."""

    def __init__(self, agent: Path) -> None:
        self._lines = (agent / layout.STEPS_OF_LOG, StepLines(step_of))
        self._bars = (agent / layout.STEPS_OF_BARS, StepLines(bar_step_of))

    def see(self, line: str, arrived_s: float) -> None:
        """Check a line for a step."""
        for path, steps in (self._lines, self._bars):
            named = steps.find(line)
            if named is None:
                continue
            record: dict[str, object] = {
                "step": named.step,
                "start_s": arrived_s,
                "source": "log",
            }
            if named.seconds is not None:
                record["seconds"] = named.seconds
            with suppress(OSError), path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")


def sink(
    echo: bool | Literal["stderr"], *, is_stderr: bool, prefix: bytes = b""
) -> Callable[[bytes], None]:
    """Return the display of a stream: as it comes, or by whole lines after a prefix.

    Empty bytes mark the end of the stream.
    """
    if echo is False:
        return lambda _: None
    stream = sys.stderr if is_stderr or echo == "stderr" else sys.stdout
    return _Prefixed(stream, prefix) if prefix else _Plain(stream)


def end_line(outputs: tuple[Output, Output], echo: bool | Literal["stderr"]) -> None:
    """End a partial line of the program before our next message; its stdout stays unchanged."""
    if echo is False:
        return
    shared = outputs if echo == "stderr" or _is_one_place() else outputs[1:]
    if max(shared, key=lambda output: output.shown_at).is_mid_line:
        _Plain(sys.stderr)(b"\n")


def _is_one_place() -> bool:
    """Return whether stdout and stderr go to the same terminal, file or pipe."""
    try:
        return os.path.sameopenfile(1, 2)
    except OSError:
        return False


class _Plain:
    """Shows bytes unchanged. If the terminal is gone, display ends, not the run."""

    def __init__(self, stream: TextIO) -> None:
        self._stream: TextIO | None = stream

    def __call__(self, chunk: bytes) -> None:
        if self._stream is None:
            return
        try:
            if hasattr(self._stream, "buffer"):
                self._stream.flush()
                self._stream.buffer.write(chunk)
            else:
                self._stream.write(chunk.decode("utf-8", errors="replace"))
            self._stream.flush()
        except (OSError, ValueError):
            self._stream = None


class _Prefixed:
    """Shows whole lines, each after the number of its rank."""

    def __init__(self, stream: TextIO, prefix: bytes) -> None:
        self._show = _Plain(stream)
        self._prefix = prefix
        self._rest = b""

    def __call__(self, chunk: bytes) -> None:
        ended = chunk or b"\n"
        *lines, self._rest = (self._rest + ended.replace(b"\r", b"\n")).split(b"\n")
        if len(self._rest) > _LONGEST:
            lines, self._rest = [*lines, self._rest], b""
        if shown := [line for line in lines if line]:
            self._show(b"".join(self._prefix + line + b"\n" for line in shown))


_LEFT: Final = 64 * 1024
"""Less free space than this is too little for a program, a profile and our records."""


@dataclass(frozen=True, slots=True)
class UnwrittenRecord:
    """A record of the end of a run that could not be written: of a rank, or of the whole run."""

    failure: OSError | CounterpointError
    rank: int | None = None
    outcome: Outcome | None = None

    @property
    def words(self) -> str:
        """A description for people."""
        failure = self.failure
        why = (
            failure.what
            if isinstance(failure, CounterpointError)
            else failure.strerror or str(failure)
        )
        return f"its outcome can't be recorded: {why}"


@dataclass(frozen=True, slots=True)
class RunGaps:
    """The state of the disk when the program had ended, and afterwards."""

    unwritten: tuple[UnwrittenRecord, ...]
    was_full: bool
    unkept: tuple[str, ...] = ()
    """Logs that end before the program did."""


def with_run_gaps(run: Run, at_end: RunGaps) -> Run:
    """Return the run as read, plus what could not be written to it."""
    lost = {
        unwritten.rank: unwritten for unwritten in at_end.unwritten if unwritten.rank is not None
    }
    ranks = tuple(_with_end(rank, lost.get(rank.number)) for rank in run.ranks)
    notes = [*at_end.unkept, *(unwritten.words for unwritten in at_end.unwritten)]
    if at_end.was_full:
        notes.append("the disk is full, which may explain missing parts of the run")
    outcome = run.outcome
    if lost and outcome.kind is OutcomeKind.RUNNING:
        outcome = next(rank.outcome for rank in ranks if rank.number in lost)
    return replace(run, ranks=ranks, outcome=outcome, notes=(*run.notes, *notes))


def _with_end(rank: Rank, lost: UnwrittenRecord | None) -> Rank:
    """Use the observed outcome: failing to record it is not the program's failure."""
    if lost is None or lost.outcome is None:
        return rank
    return replace(rank, outcome=lost.outcome)


def is_full(place: Path) -> bool:
    """Return whether there is practically no space left."""
    try:
        about = os.statvfs(place)
    except OSError:
        return False
    return about.f_blocks > 0 and about.f_bavail * about.f_frsize < _LEFT
