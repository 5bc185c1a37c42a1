"""Trials that gave no figure, and why."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from counterpoint.runs import Outcome, OutcomeKind, Run
from counterpoint.runs.outcomes import TIMED_OUT, outcome_of_ranks
from counterpoint.tune.executors.executor import Ended, EndedKind
from counterpoint.tune.trial.report import Failure

_XIDS: Final = "48|63|64|74|79|94|95|119|120"


@dataclass(frozen=True, slots=True)
class _Sign:
    pattern: re.Pattern[str]
    why_not_with: str = ""  # a prefix of variables by which settings may bring it about
    needs_lost_rank: bool = False


def _sign(pattern: str, why_not_with: str = "", *, needs_lost_rank: bool = False) -> _Sign:
    return _Sign(re.compile(rf"^.*(?:{pattern}).*$", re.MULTILINE), why_not_with, needs_lost_rank)


_SIGNS: Final = (
    # CUDA Driver API, CUresult: the device's memory, NVLink, or the device itself failed.
    _sign(r"CUDA_ERROR_ECC_UNCORRECTABLE|uncorrectable ECC error"),
    _sign(r"CUDA_ERROR_NVLINK_UNCORRECTABLE|uncorrectable NVLink error"),
    _sign(r"CUDA_ERROR_SYSTEM_NOT_READY|CUDA_ERROR_DEVICE_UNAVAILABLE"),
    # NVIDIA, "XID Errors": those of hardware. 13, 31, 43 and 45 are the program's own.
    _sign(rf"NVRM: Xid \([^)]*\): (?:{_XIDS})\b"),
    _sign(r"GPU has fallen off the bus|GPU is lost"),
    # NCCL, "Troubleshooting": a call to the system failed: links, /dev/shm, sockets.
    _sign(r"ncclSystemError|NCCL.*unhandled system error", "NCCL_"),
    # Linux: file systems of a network that went away.
    _sign(r"Stale file handle|Transport endpoint is not connected|\[Errno 5\] Input/output error"),
    # XLA, coordination_service.cc: a peer is silent. Of a peer that crashed there are words, too.
    _sign(r"heartbeat timeout\. This indicates that the remote task has", needs_lost_rank=True),
)


def node_fault(text: str, variables: frozenset[str], *, lost_rank: bool) -> str | None:
    """The line that blames a machine.

    Args:
        text: What a rank printed last.
        variables: Names of those that the settings change.
        lost_rank: Whether there is a rank that nobody knows the end of.
    """
    for sign in _SIGNS:
        if sign.needs_lost_rank and not lost_rank:
            continue
        if sign.why_not_with and any(it.startswith(sign.why_not_with) for it in variables):
            continue
        if found := sign.pattern.search(text):
            return found[0].strip()[:300]
    return None


_OF_MACHINE: Final[Mapping[EndedKind, Failure]] = {
    EndedKind.PREEMPTED: Failure.PREEMPTED,
    EndedKind.NODE_FAULT: Failure.NODE_FAULT,
}
_OF_RUN: Final[Mapping[OutcomeKind, Failure]] = {
    OutcomeKind.UNKNOWN_FLAG: Failure.UNKNOWN_FLAG,
    OutcomeKind.OUT_OF_MEMORY: Failure.OUT_OF_MEMORY,
    OutcomeKind.NAN: Failure.NAN,
    OutcomeKind.HANG: Failure.HANG,
    OutcomeKind.TIMEOUT: Failure.TIMEOUT,
    OutcomeKind.DISK_FULL: Failure.DISK_FULL,
    OutcomeKind.INTERRUPTED: Failure.INTERRUPTED,
}
_OPEN: Final = (OutcomeKind.RUNNING, OutcomeKind.LOST)
_REFUSED_FLAGS: Final = re.compile(r"XLA ends the process at|\bunknown flags?\b", re.IGNORECASE)
_NO_SPACE: Final = re.compile(r"No space left on device|Disk quota exceeded")
_ERROR: Final = "error: "
_SIGNALS: Final = 128
_TAIL: Final = 1 << 18
_LATE: Final = float("inf")


@dataclass(frozen=True, slots=True)
class Cause:
    """What it was, and one line that names the file to read."""

    failure: Failure
    detail: str


def why_no_run(directory: Path, ended: Ended, damage: str) -> Cause:
    """For what left no Run, or none that can be read."""
    said = _said(ended.detail) or damage
    if ended.kind is not EndedKind.EXITED:
        return Cause(_not_by_itself(ended), said)
    if _NO_SPACE.search(ended.detail):
        return Cause(Failure.DISK_FULL, said)
    if _REFUSED_FLAGS.search(ended.detail):
        return Cause(Failure.UNKNOWN_FLAG, said)
    code = ended.exit_code or 0
    if code < 0 or code > _SIGNALS:
        return Cause(Failure.INTERRUPTED, f"{said}; it was killed from outside, exit code {code}")
    return Cause(Failure.CRASH, f"{said}; see {directory}")


def why_failed(run: Run, ended: Ended) -> Cause | None:
    """For a run that did not end well; None for one that did."""
    if ended.kind in _OF_MACHINE:
        return Cause(_OF_MACHINE[ended.kind], _said(ended.detail) or str(run.outcome))
    outcome, open_ranks = _of_closed(run), _open_ranks(run)
    if outcome is not None and outcome.ok and not _cut_off(ended, open_ranks):
        return None
    if outcome is None or outcome.ok or _is_of_others(outcome):
        return _unseen(run, ended, open_ranks)
    return _told(run, ended, outcome, lost_rank=bool(open_ranks))


def _told(run: Run, ended: Ended, outcome: Outcome, *, lost_rank: bool) -> Cause:
    """What a rank says of its end."""
    place = _blamed(run, outcome)
    detail = f"{_in_words(outcome)}; see {place}"
    if outcome.kind in _OF_RUN:
        return Cause(_OF_RUN[outcome.kind], detail)
    if said := _machine(run, lost_rank=lost_rank):
        return Cause(Failure.NODE_FAULT, said)
    if outcome.kind is OutcomeKind.SIGNAL and ended.kind is EndedKind.KILLED:
        return Cause(_not_by_itself(ended), _said(ended.detail) or detail)
    return Cause(Failure.CRASH, detail)


def _of_closed(run: Run) -> Outcome | None:
    """The outcome by the ranks whose end is known: those of a node that died never tell."""
    ended = [
        (it.number, it.outcome, it.ended.timestamp() if it.ended else _LATE)
        for it in run.ranks
        if it.outcome.kind not in _OPEN
    ]
    if ended:
        return outcome_of_ranks(ended)
    return None if run.ranks or run.outcome.kind in _OPEN else run.outcome


def _open_ranks(run: Run) -> int:
    there = sum(it.outcome.kind not in _OPEN for it in run.ranks)
    return max(run.world_size, len(run.ranks)) - there


def _cut_off(ended: Ended, open_ranks: int) -> bool:
    """Whether ranks that nobody has seen the end of did not end well.

    A gang that exited with 0 has: what the ranks of other machines wrote may come a moment later.
    """
    return bool(open_ranks) and not (ended.kind is EndedKind.EXITED and ended.exit_code == 0)


def _is_of_others(outcome: Outcome) -> bool:
    """A rank that was ended because another one had: of that one nothing is known."""
    return outcome.kind is OutcomeKind.INTERRUPTED and outcome.signal is None


def _unseen(run: Run, ended: Ended, open_ranks: int) -> Cause:
    """Ranks of which nobody says how they ended."""
    said = _said(ended.detail)
    if ended.kind is not EndedKind.KILLED and (line := _machine(run, lost_rank=bool(open_ranks))):
        return Cause(Failure.NODE_FAULT, line)
    gone = f"{open_ranks} of {run.world_size} ranks ended with nobody left to say how"
    failure = _not_by_itself(ended)
    return Cause(failure, f"{said or gone}; see {run.path}")


def _not_by_itself(ended: Ended) -> Failure:
    """Ended by somebody else, or by nobody knows whom."""
    if ended.kind in _OF_MACHINE:
        return _OF_MACHINE[ended.kind]
    if ended.kind is EndedKind.LOST:
        return Failure.NODE_FAULT
    late = ended.kind is EndedKind.KILLED and ended.exit_code == TIMED_OUT
    return Failure.TIMEOUT if late else Failure.INTERRUPTED


def _blamed(run: Run, outcome: Outcome) -> Path:
    """The log of the rank whose outcome it is: of several, its number stands in front."""
    named = re.match(r"rank (\d+)", outcome.detail)
    numbers = [int(named[1])] if named else []
    ranks = [it for it in run.ranks if it.number in numbers] or run.ranks[:1]
    return ranks[0].stderr if ranks else run.path


def _machine(run: Run, *, lost_rank: bool) -> str | None:
    """In which words a rank blames a machine, and where."""
    variables = frozenset(name for name, _ in run.settings.env)
    for rank in run.ranks:
        for stream in (rank.stderr, rank.stdout):
            if said := node_fault(_tail(stream), variables, lost_rank=lost_rank):
                return f"{said}; see {stream}"
    return None


def _tail(path: Path) -> str:
    with suppress(OSError), path.open("rb") as file:
        file.seek(max(0, file.seek(0, 2) - _TAIL))
        return file.read().decode("utf-8", errors="replace")
    return ""


def _in_words(outcome: Outcome) -> str:
    """What is known of it; the exit code may be all."""
    said = _one_line(outcome.detail)
    if outcome.kind is OutcomeKind.ERROR and outcome.exit_code:
        return f"exit code {outcome.exit_code}{f': {said}' if said else ''}"
    return said or outcome.kind.replace("_", " ")


def _said(text: str) -> str:
    """Of an error of ours what failed and why: what to do next is for whoever reads all of it."""
    first, *more = text.strip().splitlines() or [""]
    if not first.startswith(_ERROR):
        return _one_line(text)
    parts = [first.removeprefix(_ERROR)]
    for line in more:
        if line.startswith("  next: "):
            break
        parts.append(line.removeprefix("  why: "))
    return _one_line("; ".join(parts))


def _one_line(text: str) -> str:
    return " ".join(text.split())[:400]
