"""What a log proves of a profile, whoever started the program: proof, its contrary, or doubt."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from counterpoint.core import InputError
from counterpoint.flags.text import parse_xla_flags
from counterpoint.flags.versions import PROFILE
from counterpoint.pgle.compiler_log import CompilerLog, ProfileUse, read_compiler_log
from counterpoint.pgle.profiles.profile import ENDINGS
from counterpoint.runs.layout import is_run
from counterpoint.runs.reader import read_run
from counterpoint.runs.reports import variables_of
from counterpoint.runs.run import Run
from counterpoint.workflow.feedback.profile_proof import log_text, platforms_without_pgle

_RANK_LOG: Final = "stderr.log"
_WORST_FIRST: Final = (
    ProfileUse.FAILED,
    ProfileUse.NOT_USED,
    ProfileUse.UNKNOWN,
    ProfileUse.USED,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogProof:
    """The use of a profile by one log, or by the rank of a run that speaks most against it.

    `given` is the profile that XLA's flag names, if that is known.
    """

    where: str
    use: ProfileUse
    reason: str
    evidence: CompilerLog
    given: str | None = None


def proof_in(path: Path) -> LogProof:
    """Return what a log shows: a file, a pipe, `-` (stdin), or a Run's own."""
    if str(path) == "-":
        return _of_text("stdin", sys.stdin.buffer.read().decode(errors="replace"))
    if path.is_dir() and is_run(path):
        return proof_of(read_run(path))
    if (path / _RANK_LOG).is_file():
        path /= _RANK_LOG
    if not path.exists():
        raise InputError(
            f"{path}: no such file",
            why="a log is a file of text, a pipe, `-` (stdin), or a Run, which has its logs",
            next="counterpoint run -- python train.py",
        )
    try:
        if not (path.is_file() or path.is_fifo()):
            raise InputError(
                f"{path}: not a log",
                why="a log is a file of text, a pipe, `-` (stdin), or a Run, which has its logs",
                next="counterpoint run -- python train.py",
            )
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as failure:
        raise InputError(f"{path}: can't be read: {failure.strerror or failure}") from None
    return _of_text(str(path), text)


def _of_text(where: str, text: str) -> LogProof:
    """Return what a text shows of which nobody knows whether a compiler wrote to it."""
    log = read_compiler_log(text)
    reason = log.reason
    if not log.from_xla:
        reason = (
            "no line of it is XLA's: it is not the log of a compile, or not verbose enough, for at"
            " its default level XLA does not mention profiles"
        )
    return LogProof(where=where, use=log.use, reason=reason, evidence=log)


def proof_of(run: Run) -> LogProof:
    """Return what the logs of a run show; of several ranks, the one that speaks most against."""
    flags = flags_of(run)
    given = flags.get(PROFILE) or None
    several = len(run.ranks) > 1
    proofs = [
        _of_log(
            read_compiler_log(log_text(rank.stderr), flags),
            f"rank {rank.number}: " if several else "",
            run,
            given,
        )
        for rank in run.ranks
    ]
    if not proofs:
        raise InputError(f"{run.path} has no ranks, and so no log")
    return min(proofs, key=lambda proof: _WORST_FIRST.index(proof.use))


def flags_of(run: Run) -> Mapping[str, str]:
    """Return the XLA flags of a run: as its program had them if that is known, else as given."""
    read = parse_xla_flags(variables_of(run).get("XLA_FLAGS", ""))
    return {**dict(run.settings.xla), **dict(read)}


def _of_log(log: CompilerLog, rank: str, run: Run, given: str | None) -> LogProof:
    use, reason = log.use, log.reason
    platform = platforms_without_pgle(run)
    if given is not None and platform and use is not ProfileUse.USED:
        use = ProfileUse.NOT_USED
        reason = f"it ran on {platform}, and XLA uses PGLE profiles on GPUs only"
    elif given is not None and use is ProfileUse.UNKNOWN:
        use, reason = _by_its_place(Path(run.cwd) / given, reason)
    return LogProof(
        where=str(run.path), use=use, reason=f"{rank}{reason}", evidence=log, given=given
    )


def _by_its_place(place: Path, reason: str) -> tuple[ProfileUse, str]:
    """Judge a profile by its path, where the log is silent: XLA looks at nothing else first."""
    if place.is_dir():
        return ProfileUse.UNKNOWN, reason
    if place.suffix not in ENDINGS:
        reason = "is no directory, and its name ends in neither .pbtxt nor .pb: XLA ignores it"
        return ProfileUse.NOT_USED, f"{place} {reason}"
    if not place.exists():
        return ProfileUse.UNKNOWN, f"{place} does not exist here; {reason}"
    return ProfileUse.UNKNOWN, reason
