"""How a process, or a run of several, ended."""

from __future__ import annotations

import math
import os
import re
import signal as signals
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final


class OutcomeKind(StrEnum):
    """What a run ended with, as far as its exit status and its output tell."""

    OK = "ok"
    UNKNOWN_FLAG = "unknown_flag"
    OUT_OF_MEMORY = "out_of_memory"
    NAN = "nan"
    HANG = "hang"
    TIMEOUT = "timeout"
    SIGNAL = "signal"
    INTERRUPTED = "interrupted"
    DISK_FULL = "disk_full"
    NOT_STARTED = "not_started"
    ERROR = "error"
    RUNNING = "running"
    LOST = "lost"


TELLING: Final = (
    OutcomeKind.DISK_FULL,
    OutcomeKind.UNKNOWN_FLAG,
    OutcomeKind.OUT_OF_MEMORY,
    OutcomeKind.NAN,
    OutcomeKind.HANG,
    OutcomeKind.TIMEOUT,
    OutcomeKind.NOT_STARTED,
)
"""Kinds that name a cause. Other ranks then often die of the first one's death."""

TIMED_OUT: Final = 124  # what timeout(1) exits with
DISK_FULL: Final = 3
INTERRUPTED: Final = 128 + signals.SIGINT
NO_END: Final = 1  # running or lost: there is no status to hand on


@dataclass(frozen=True, slots=True)
class Outcome:
    """How it ended; `detail` is one line for people."""

    kind: OutcomeKind
    exit_code: int | None = None
    signal: str | None = None
    detail: str = ""

    @property
    def ok(self) -> bool:
        """Whether it ended by itself, and well."""
        return self.kind is OutcomeKind.OK

    @property
    def status(self) -> int:
        """The exit code that a shell would see: the workload's own where it has one."""
        if self.kind in (OutcomeKind.TIMEOUT, OutcomeKind.HANG):
            return TIMED_OUT
        if self.kind is OutcomeKind.DISK_FULL:
            return self.exit_code or DISK_FULL
        if self.kind is OutcomeKind.INTERRUPTED:
            return 128 + number_of(self.signal) if self.signal else INTERRUPTED
        if self.exit_code is not None:
            return self.exit_code
        return 128 + number_of(self.signal) if self.signal else NO_END

    def __str__(self) -> str:
        """In words: `error, exit code 7: ValueError: no such dataset`."""
        parts = [self.kind.replace("_", " ")]
        if self.signal:
            parts.append(self.signal)
        elif self.exit_code:
            parts.append(f"exit code {self.exit_code}")
        head = ", ".join(parts)
        return f"{head}: {self.detail}" if self.detail else head


def number_of(signal: str) -> int:
    """SIGKILL is 9."""
    try:
        return signals.Signals[signal]
    except KeyError:
        return int(signal) if signal.isdecimal() else 0


def name_of(number: int) -> str:
    """9 is SIGKILL."""
    try:
        return signals.Signals(number).name
    except ValueError:
        return str(number)


def outcome_of_ranks(ended: Sequence[tuple[int, Outcome, float]]) -> Outcome:
    """The outcome of a run: rank, outcome and time of the end of each.

    One rank's death takes the others along, so the run ended as the rank did that names a cause,
    else as the first one that failed by itself.
    """
    if not ended:
        return Outcome(OutcomeKind.NOT_STARTED, detail="no rank has started")
    open_ = [entry for entry in ended if entry[1].kind is OutcomeKind.RUNNING]
    failed = [entry for entry in ended if not entry[1].ok and entry not in open_]
    if not failed:
        return open_[0][1] if open_ else ended[0][1]
    rank, outcome, _ = min(failed, key=_weight)
    if len(ended) == 1:
        return outcome
    detail = f"rank {rank}: {outcome.detail}" if outcome.detail else f"rank {rank}"
    if open_:
        return Outcome(
            OutcomeKind.RUNNING,
            detail=f"{len(open_)} of {len(ended)} ranks; {outcome.kind}, {detail}",
        )
    return Outcome(outcome.kind, outcome.exit_code, outcome.signal, detail)


def _weight(entry: tuple[int, Outcome, float]) -> tuple[int, int, float, int]:
    rank, outcome, when = entry
    telling = TELLING.index(outcome.kind) if outcome.kind in TELLING else len(TELLING)
    by_us = outcome.kind in (OutcomeKind.INTERRUPTED, OutcomeKind.LOST)
    return (telling, int(by_us), when, rank)


_FLAG: Final = re.compile(r"^.*parse_flags_from_env\.cc:\d+\] *(.*)$", re.MULTILINE)
_MEMORY: Final = re.compile(
    r"^.*(?:RESOURCE_EXHAUSTED|CUDA_ERROR_OUT_OF_MEMORY|hipErrorOutOfMemory|Out of memory (?:while"
    r" |allocating|trying)|Ran out of memory in memory space|MemoryError|oom[-_]kill|OOM killed"
    r"|Cannot allocate memory).*$",
    re.MULTILINE,
)
_DISK: Final = re.compile(r"^.*(?:No space left on device|Disk quota exceeded).*$", re.MULTILINE)
_NAN_ERROR: Final = re.compile(r"^.*FloatingPointError: invalid value \(nan\).*$", re.MULTILINE)
_NAN_LOSS: Final = re.compile(
    r"(?<![A-Za-z])loss(?:es)?\b[\"']?\s*[:=]?\s*[\"']?[-+]?nan\b", re.IGNORECASE
)
_LOSS: Final = re.compile(
    r"(?<![A-Za-z])loss(?:es)?\b[\"']?\s*[:=]?\s*[\"']?([-+]?(?:nan|inf|\d[\d.]*(?:e[-+]?\d+)?))\b",
    re.IGNORECASE,
)
_EXCEPTION: Final = re.compile(
    r"^[A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit)\b.*$", re.MULTILINE
)
_FATAL: Final = re.compile(
    r"^(?:Fatal |F\d{4} |terminate called|.*: Assertion |[A-Za-z_][\w.]*Error\b).*$", re.MULTILINE
)
_COMPLAINT: Final = re.compile(
    r"\b(?:\w*error|\w*exception|fail(?:ed|ure|s)?|fatal|abort(?:ed|ing)?|can(?:no|')t|unable"
    r"|not found|no such|denied|refused|invalid|killed|panic)\b",
    re.IGNORECASE,
)
_STEP_LINE: Final = re.compile(
    r"\bstep\b[\"']?\s*[:=#]?\s*\d|(?<![\d.])\d+/\d+ \[|\d+%\|", re.IGNORECASE
)
"""What a trainer prints of a step that went well, and progress bars."""
_SHELL_SIGNALS: Final = frozenset({1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 13, 15})
"""Those a shell reports as 128 and more; other such codes are a program's own."""
_LONGEST: Final = 300


def classify(
    exit_code: int | None, signal: int | None, output: str, errors: str | None = None
) -> Outcome:
    """The outcome of a process that ended by itself.

    Args:
        exit_code: Its exit code, None where a signal ended it.
        signal: That signal.
        output: What it printed last: stdout, then stderr.
        errors: Of that what came by stderr; all of it, where that is not known.
    """
    if exit_code == 0:
        if last_loss_is_nan(output):
            return Outcome(OutcomeKind.NAN, 0, detail="the last loss printed is NaN")
        return Outcome(OutcomeKind.OK, 0)
    if signal is None and exit_code is not None and exit_code - 128 in _SHELL_SIGNALS:
        signal = exit_code - 128
    name = None if signal is None else name_of(signal)
    told = _told(output)
    if told is not None:
        kind, detail = told
        return Outcome(kind, exit_code, name, _short(detail))
    if name is not None:
        return Outcome(OutcomeKind.SIGNAL, exit_code, name, _of_signal(name, output))
    said = _last_words(output, output if errors is None else errors)
    return Outcome(OutcomeKind.ERROR, exit_code, None, said)


def last_loss_is_nan(output: str) -> bool:
    """Whether the last figure that is called a loss is not a number."""
    losses = _LOSS.findall(output)
    return bool(losses) and math.isnan(float(losses[-1].rstrip(".") or "0"))


def _told(output: str) -> tuple[OutcomeKind, str] | None:
    """The cause that the output of a failed process names."""
    if flags := _FLAG.findall(output):
        return OutcomeKind.UNKNOWN_FLAG, flags[0]
    if memory := _memory(output):
        return OutcomeKind.OUT_OF_MEMORY, memory
    if disk := _DISK.findall(output):
        return OutcomeKind.DISK_FULL, disk[-1]
    if error := _NAN_ERROR.findall(output):
        return OutcomeKind.NAN, error[-1]
    if _NAN_LOSS.search(output):
        return OutcomeKind.NAN, "a loss printed is NaN"
    return None


def _memory(output: str) -> str | None:
    """The line that tells of memory running out.

    The compiler logs so of kernels that it tries and gives up, too: then another error follows.
    """
    found = list(_MEMORY.finditer(output))
    if not found:
        return None
    raised = [line for line in found if _EXCEPTION.match(line[0])]
    if raised:
        return raised[-1][0]
    last = found[-1]
    return None if _EXCEPTION.search(output, last.end()) else last[0]


def _of_signal(name: str, output: str) -> str:
    if name == "SIGKILL":
        return "killed from outside, as the kernel does when memory runs out"
    fatal = _FATAL.findall(output)
    return _short(fatal[-1]) if fatal else ""


def _last_words(output: str, errors: str) -> str:
    """The exception's line, where there is one; else the last line that tells of anything wrong.

    What stdout said last is as a rule a step that went well, and no cause of anything: then the
    exit code is all that is known.
    """
    if not output.strip():
        return "it printed nothing"
    if exceptions := _EXCEPTION.findall(output):
        return _short(exceptions[-1])
    for text, may_tell in ((errors, _is_no_step), (output, _COMPLAINT.search)):
        lines = [line for line in re.split(r"[\r\n]+", text) if line.strip() and may_tell(line)]
        if lines:
            return _short(lines[-1])
    return ""


def _is_no_step(line: str) -> bool:
    """Trainers log to stderr, too."""
    return _STEP_LINE.search(line) is None or _COMPLAINT.search(line) is not None


def _short(text: str) -> str:
    text = text.strip()
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def start_of(pid: int) -> int | None:
    """When a process started, in the kernel's ticks; None where that can't be told."""
    try:
        return int(_alive_told(pid)[19])
    except (ValueError, IndexError):
        return None


def _alive_told(pid: int) -> list[str]:
    """What the kernel says behind the name, which in its brackets may hold anything."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()


def is_alive(pid: int, started: int | None) -> bool:
    """Whether the process with this number, started then, is there and can still do something.

    One that has ended keeps its number until its parent asks: in a container perhaps nobody does.
    """
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # somebody else's, so it is there
    if _alive_told(pid)[:1] in (["Z"], ["X"]):
        return False
    return started is None or start_of(pid) in (started, None)
