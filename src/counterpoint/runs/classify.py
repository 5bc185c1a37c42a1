"""How a process ended, told from its exit status and from what it printed last.

A status alone says little: XLA exits with 1 for an unknown flag, and a loss that is NaN with 0.
Each pattern is a text that XLA, JAX, CUDA, Python or a trainer really prints; the tests quote them.
"""

from __future__ import annotations

import math
import re
from typing import Final

from counterpoint.runs.outcome import Outcome, OutcomeKind, name_of

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
