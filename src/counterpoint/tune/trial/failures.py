"""Failures: why a trial has no step time.

The machine comes first: a job that was preempted, or whose node failed, may have printed anything
before it ended. Then comes the Run, which names a cause if some text gives one. A run whose end
nobody recorded is a failure of its node, a timeout or an interruption, never a crash.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from counterpoint.capture import is_full
from counterpoint.core.arguments import option_of
from counterpoint.flags.probe import XLA_ABORTS
from counterpoint.runs.outcomes import TIMED_OUT, Outcome, OutcomeKind, outcome_of_ranks
from counterpoint.runs.run import Run
from counterpoint.tune.executors.executor import GangEnd, GangEndKind
from counterpoint.tune.executors.exit_report import NO_SPACE, launcher_log, no_space_line
from counterpoint.tune.trial.report import TrialFailure

_XIDS: Final = "48|63|64|74|79|94|95|119|120"


@dataclass(frozen=True, slots=True)
class _Sign:
    """A line of output which shows that a machine failed."""

    pattern: re.Pattern[str]
    why_not_with: str = ""  # settings of variables with this prefix may cause it
    needs_lost_rank: bool = False


def _sign(pattern: str, why_not_with: str = "", *, needs_lost_rank: bool = False) -> _Sign:
    return _Sign(re.compile(rf"^.*(?:{pattern}).*$", re.MULTILINE), why_not_with, needs_lost_rank)


# Signs that the machine is at fault, not the settings: few, and sure. A fault that is taken for a
# crash costs a second trial; a crash that is taken for a fault costs one trial after another. Each
# pattern has its source.
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
    # Linux: network file systems that became unavailable.
    _sign(r"Stale file handle|Transport endpoint is not connected|\[Errno 5\] Input/output error"),
    # XLA, coordination_service.cc: a peer is silent. A peer that crashed leaves a message, too.
    _sign(r"heartbeat timeout\. This indicates that the remote task has", needs_lost_rank=True),
)


def node_fault(text: str, variables: frozenset[str], *, lost_rank: bool) -> str | None:
    """Return the line that blames a machine, if any.

    Args:
        text: The last output of a rank.
        variables: Names of the variables that the settings change.
        lost_rank: True if there is a rank whose end is unknown.
    """
    for sign in _SIGNS:
        if sign.needs_lost_rank and not lost_rank:
            continue
        if sign.why_not_with and any(name.startswith(sign.why_not_with) for name in variables):
            continue
        if found := sign.pattern.search(text):
            return found[0].strip()[:300]
    return None


_OF_MACHINE: Final[Mapping[GangEndKind, TrialFailure]] = {
    GangEndKind.PREEMPTED: TrialFailure.PREEMPTED,
    GangEndKind.NODE_FAULT: TrialFailure.NODE_FAULT,
}
_OF_RUN: Final[Mapping[OutcomeKind, TrialFailure]] = {
    OutcomeKind.UNKNOWN_FLAG: TrialFailure.UNKNOWN_FLAG,
    OutcomeKind.OUT_OF_MEMORY: TrialFailure.OUT_OF_MEMORY,
    OutcomeKind.NAN: TrialFailure.NAN,
    OutcomeKind.HANG: TrialFailure.HANG,
    OutcomeKind.TIMEOUT: TrialFailure.TIMEOUT,
    OutcomeKind.DISK_FULL: TrialFailure.DISK_FULL,
    OutcomeKind.INTERRUPTED: TrialFailure.INTERRUPTED,
}
_LIMITS: Final = {OutcomeKind.TIMEOUT: "timeout", OutcomeKind.HANG: "hang_after"}
_OPEN: Final = (OutcomeKind.RUNNING, OutcomeKind.LOST)
_REFUSED_FLAGS: Final = re.compile(rf"{XLA_ABORTS}|\bunknown flags?\b", re.IGNORECASE)
_ERROR: Final = "error: "
_SIGNALS: Final = 128
_TAIL: Final = 1 << 18
_LATE: Final = float("inf")


@dataclass(frozen=True, slots=True)
class FailureCause:
    """A failure, and one line that names the file to read."""

    failure: TrialFailure
    detail: str


def why_no_run(directory: Path, ended: GangEnd, damage: str) -> FailureCause:
    """Return the cause if there is no Run, or only one that cannot be read."""
    message = _what_and_why(ended.detail) or damage
    if ended.kind is not GangEndKind.EXITED:
        return FailureCause(_ended_from_outside(ended), message)
    if NO_SPACE.search(ended.detail):
        return FailureCause(TrialFailure.DISK_FULL, message)
    if _REFUSED_FLAGS.search(ended.detail):
        return FailureCause(TrialFailure.UNKNOWN_FLAG, message)
    code = ended.exit_code or 0
    if code < 0 or code > _SIGNALS:
        return FailureCause(
            TrialFailure.INTERRUPTED, f"{message}; it was killed from outside, exit code {code}"
        )
    return FailureCause(TrialFailure.CRASH, f"{message}; see {directory}")


def why_failed(run: Run, ended: GangEnd) -> FailureCause | None:
    """Return the cause of a run that failed; None for one that succeeded."""
    if ended.kind in _OF_MACHINE:
        return FailureCause(
            _OF_MACHINE[ended.kind], _what_and_why(ended.detail) or str(run.outcome)
        )
    outcome, open_ranks = _outcome_of_closed(run), _open_ranks(run)
    if outcome is not None and outcome.ok and not _cut_off(ended, open_ranks):
        return None
    if outcome is None or outcome.ok or _is_ended_by_another(outcome):
        return _unrecorded_cause(run, ended, open_ranks)
    return _reported_cause(run, ended, outcome, lost_rank=bool(open_ranks))


def _reported_cause(run: Run, ended: GangEnd, outcome: Outcome, *, lost_rank: bool) -> FailureCause:
    """Return the cause from a rank's own report of its end."""
    place = _log_to_read(run, outcome)
    detail = f"{_in_words(outcome)}; see {place}"
    if outcome.kind in _OF_RUN:
        limit = _LIMITS.get(outcome.kind)
        if limit is not None and not any(rank.steps for rank in run.ranks):
            compiles = (
                f"it made no step within {option_of(limit)}, so it may still have been compiling"
            )
            detail = f"{compiles}; {detail}"
        return FailureCause(_OF_RUN[outcome.kind], detail)
    if line := _machine_line(run, lost_rank=lost_rank):
        return FailureCause(TrialFailure.NODE_FAULT, line)
    if outcome.kind is OutcomeKind.SIGNAL and ended.kind is GangEndKind.KILLED:
        return FailureCause(_ended_from_outside(ended), _what_and_why(ended.detail) or detail)
    return FailureCause(TrialFailure.CRASH, detail)


def disk_full_line(run: Run) -> str | None:
    """Return what says that the disk was too full for the run's output, if it was.

    The program itself may have ended well, and its steps are missing all the same.
    """
    if (line := no_space_line(launcher_log(run.path))) is not None:
        return line
    return f"no space is left on the disk of {run.path}" if is_full(run.path) else None


def _outcome_of_closed(run: Run) -> Outcome | None:
    """Return the outcome of the ranks with a known end; those of a node that died report none."""
    ended = [
        (rank.number, rank.outcome, rank.ended.timestamp() if rank.ended else _LATE)
        for rank in run.ranks
        if rank.outcome.kind not in _OPEN
    ]
    if ended:
        return outcome_of_ranks(ended)
    return None if run.ranks or run.outcome.kind in _OPEN else run.outcome


def _open_ranks(run: Run) -> int:
    closed = sum(rank.outcome.kind not in _OPEN for rank in run.ranks)
    return max(run.world_size, len(run.ranks)) - closed


def _cut_off(ended: GangEnd, open_ranks: int) -> bool:
    """Return True if ranks whose end is unknown did not end well.

    In a gang that exited with 0 they did: records from other machines may arrive a moment later.
    """
    return bool(open_ranks) and not (ended.kind is GangEndKind.EXITED and ended.exit_code == 0)


def _is_ended_by_another(outcome: Outcome) -> bool:
    """Return True for a rank that was ended because another one had, whose end is unknown."""
    return outcome.kind is OutcomeKind.INTERRUPTED and outcome.signal is None


def _unrecorded_cause(run: Run, ended: GangEnd, open_ranks: int) -> FailureCause:
    """Return the cause for ranks without a recorded end."""
    message = _what_and_why(ended.detail)
    if ended.kind is not GangEndKind.KILLED and (
        line := _machine_line(run, lost_rank=bool(open_ranks))
    ):
        return FailureCause(TrialFailure.NODE_FAULT, line)
    gone = f"{open_ranks} of {run.world_size} ranks ended without recording how"
    failure = _ended_from_outside(ended)
    return FailureCause(failure, f"{message or gone}; see {run.path}")


def _ended_from_outside(ended: GangEnd) -> TrialFailure:
    """Return the failure of a run that was ended from outside, or by an unknown cause."""
    if ended.kind in _OF_MACHINE:
        return _OF_MACHINE[ended.kind]
    if ended.kind is GangEndKind.LOST:
        return TrialFailure.NODE_FAULT
    late = ended.kind is GangEndKind.KILLED and ended.exit_code == TIMED_OUT
    return TrialFailure.TIMEOUT if late else TrialFailure.INTERRUPTED


def _log_to_read(run: Run, outcome: Outcome) -> Path:
    """Return the log of the rank with this outcome, whose number is in it if there are several."""
    named = re.match(r"rank (\d+)", outcome.detail)
    numbers = [int(named[1])] if named else []
    ranks = [rank for rank in run.ranks if rank.number in numbers] or run.ranks[:1]
    return ranks[0].stderr if ranks else run.path


def _machine_line(run: Run, *, lost_rank: bool) -> str | None:
    """Return the line with which a rank blames a machine, and its file."""
    variables = frozenset(name for name, _ in run.settings.env)
    for rank in run.ranks:
        for stream in (rank.stderr, rank.stdout):
            if line := node_fault(_tail(stream), variables, lost_rank=lost_rank):
                return f"{line}; see {stream}"
    return None


def _tail(path: Path) -> str:
    with suppress(OSError), path.open("rb") as file:
        file.seek(max(0, file.seek(0, 2) - _TAIL))
        return file.read().decode("utf-8", errors="replace")
    return ""


def _in_words(outcome: Outcome) -> str:
    """Describe an outcome; the exit code may be all that is known."""
    detail = _one_line(outcome.detail)
    if outcome.kind is OutcomeKind.ERROR and outcome.exit_code:
        return f"exit code {outcome.exit_code}{f': {detail}' if detail else ''}"
    return detail or outcome.kind.replace("_", " ")


def _what_and_why(text: str) -> str:
    """Return what failed and why from one of our error messages, without what to do next."""
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
