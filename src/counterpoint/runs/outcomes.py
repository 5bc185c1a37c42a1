"""Outcomes of a process, or of a run of several."""

from __future__ import annotations

import math
import re
import signal as signals
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final

from counterpoint.core.field import Field

__all__ = ["KINDS_WITH_CAUSE", "TIMED_OUT", "classify", "last_loss_is_nan", "outcome_of_ranks"]


TIMED_OUT: Final = 124  # exit code of timeout(1)
DISK_FULL: Final = 3
INTERRUPTED: Final = 128 + signals.SIGINT
NO_END: Final = 1  # running or lost: there is no exit status

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
    r"(?<![A-Za-z])loss(?:es)?\b[\"']?\s*+(?:[:=]\s*+)?[\"']?[-+]?nan\b", re.IGNORECASE
)
_LOSS: Final = re.compile(
    r"(?<![A-Za-z])loss(?:es)?\b[\"']?\s*+(?:[:=]\s*+)?[\"']?([-+]?(?:nan|inf|\d[\d.]*(?:e[-+]?\d+)?))\b",
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
    r"\bstep\b[\"']?\s*+(?:[:=#]\s*+)?\d|(?<![\d.])\d+/\d+ \[|(?<!\d)\d++%\|", re.IGNORECASE
)
"""Lines that a trainer prints for a successful step, and progress bars."""
_SHELL_SIGNALS: Final = frozenset({1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 13, 15})
"""Signals that a shell reports as 128 and more; other such codes are a program's own."""
_LONGEST: Final = 300


class OutcomeKind(StrEnum):
    """The way in which a run ended, according to its exit status and its output."""

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


KINDS_WITH_CAUSE: Final = (
    OutcomeKind.DISK_FULL,
    OutcomeKind.UNKNOWN_FLAG,
    OutcomeKind.OUT_OF_MEMORY,
    OutcomeKind.NAN,
    OutcomeKind.HANG,
    OutcomeKind.TIMEOUT,
    OutcomeKind.NOT_STARTED,
)
"""Kinds that name a cause. Other ranks often fail as a consequence of the first one."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of a run; `detail` is one line for people."""

    kind: Annotated[
        OutcomeKind,
        Field(
            "`ok`, `unknown_flag`, `out_of_memory`, `nan`, `hang`, `timeout`, `signal`, "
            "`interrupted`, `disk_full`, `not_started`, `error`, `running` or `lost`"
        ),
    ]
    exit_code: Annotated[int | None, Field("the workload's exit code; null: it has none")] = None
    signal: Annotated[str | None, Field("the signal that ended it; null: none did")] = None
    detail: Annotated[str, Field("what its output says of it, in one line; may be empty")] = ""

    @property
    def ok(self) -> bool:
        """True if it ended by itself, successfully."""
        return self.kind is OutcomeKind.OK

    @property
    def status(self) -> int:
        """The exit code that a shell would see: the workload's own if it has one."""
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
        """Return words such as `error, exit code 7: ValueError: no such dataset`."""
        parts = [self.kind.replace("_", " ")]
        if self.signal:
            parts.append(self.signal)
        elif self.exit_code:
            parts.append(f"exit code {self.exit_code}")
        head = ", ".join(parts)
        return f"{head}: {self.detail}" if self.detail else head


def number_of(signal: str) -> int:
    """Return the number of a signal: SIGKILL is 9."""
    try:
        return signals.Signals[signal]
    except KeyError:
        return int(signal) if signal.isdecimal() else 0


def name_of(number: int) -> str:
    """Return the name of a signal: 9 is SIGKILL."""
    try:
        return signals.Signals(number).name
    except ValueError:
        return str(number)


def outcome_of_ranks(ended: Sequence[tuple[int, Outcome, float]]) -> Outcome:
    """Return the outcome of a run from the rank, outcome and end time of each.

    One rank's failure ends the others, so the run has the outcome of the rank that names a cause,
    else of the first one that failed by itself.
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
    telling = (
        KINDS_WITH_CAUSE.index(outcome.kind)
        if outcome.kind in KINDS_WITH_CAUSE
        else len(KINDS_WITH_CAUSE)
    )
    by_us = outcome.kind in (OutcomeKind.INTERRUPTED, OutcomeKind.LOST)
    return (telling, int(by_us), when, rank)


def classify(
    exit_code: int | None, signal: int | None, output: str, errors: str | None = None
) -> Outcome:
    """Return the outcome of a process that ended by itself.

    Args:
        exit_code: Its exit code, None if a signal ended it.
        signal: That signal.
        output: The end of its output: stdout, then stderr.
        errors: The stderr part of it; None if unknown, which means all of it.

    The status alone says little: XLA exits with 1 for an unknown flag, and a NaN loss exits with 0.
    The patterns match text that XLA, JAX, CUDA, Python and trainers really print; the tests quote
    it.
    """
    if exit_code == 0:
        if last_loss_is_nan(output):
            return Outcome(OutcomeKind.NAN, 0, detail="the last printed loss is NaN")
        return Outcome(OutcomeKind.OK, 0)
    if signal is None and exit_code is not None and exit_code - 128 in _SHELL_SIGNALS:
        signal = exit_code - 128
    name = None if signal is None else name_of(signal)
    cause = _told(output)
    if cause is not None:
        kind, detail = cause
        return Outcome(kind, exit_code, name, _short(detail))
    if name is not None:
        return Outcome(OutcomeKind.SIGNAL, exit_code, name, _of_signal(name, output))
    last_words = _last_words(output, output if errors is None else errors)
    return Outcome(OutcomeKind.ERROR, exit_code, None, last_words)


def last_loss_is_nan(output: str) -> bool:
    """Return whether the last number called a loss is NaN."""
    losses = _LOSS.findall(output)
    return bool(losses) and math.isnan(float(losses[-1].rstrip(".") or "0"))


def _told(output: str) -> tuple[OutcomeKind, str] | None:
    """Return the cause that the output of a failed process names."""
    if flags := _FLAG.findall(output):
        return OutcomeKind.UNKNOWN_FLAG, flags[0]
    if memory := _memory(output):
        return OutcomeKind.OUT_OF_MEMORY, memory
    if disk := _DISK.findall(output):
        return OutcomeKind.DISK_FULL, disk[-1]
    if error := _NAN_ERROR.findall(output):
        return OutcomeKind.NAN, error[-1]
    if _NAN_LOSS.search(output):
        return OutcomeKind.NAN, "a printed loss is NaN"
    return None


def _memory(output: str) -> str | None:
    """Return the line that reports running out of memory.

    The compiler also logs such lines for kernels that it tries and rejects: then another error
    follows.
    """
    matches = list(_MEMORY.finditer(output))
    if not matches:
        return None
    raised = [line for line in matches if _EXCEPTION.match(line[0])]
    if raised:
        return raised[-1][0]
    last = matches[-1]
    return None if _EXCEPTION.search(output, last.end()) else last[0]


def _of_signal(name: str, output: str) -> str:
    if name == "SIGKILL":
        return "killed by another process or by the kernel, for example when memory runs out"
    fatal = _FATAL.findall(output)
    return _short(fatal[-1]) if fatal else ""


def _last_words(output: str, errors: str) -> str:
    """Return the exception's line if there is one; else the last line that reports a problem.

    The last line of stdout is usually a successful step, not a cause: then only the exit code is
    known.
    """
    if not output.strip():
        return "no output"
    if exceptions := _EXCEPTION.findall(output):
        return _short(exceptions[-1])
    for text, may_tell in ((errors, _is_no_step), (output, _COMPLAINT.search)):
        lines = [line for line in re.split(r"[\r\n]+", text) if line.strip() and may_tell(line)]
        if lines:
            return _short(lines[-1])
    return ""


def _is_no_step(line: str) -> bool:
    """Return whether a line is not about a step: trainers log to stderr, too."""
    return _STEP_LINE.search(line) is None or _COMPLAINT.search(line) is not None


def _short(text: str) -> str:
    text = text.strip()
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
