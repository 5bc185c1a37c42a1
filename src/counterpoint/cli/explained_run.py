"""The Run that `explain` is called on: how it ended, and how to get a profile if it has none."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from counterpoint.core import InputError
from counterpoint.report.runs import profiled_run_command
from counterpoint.runs import OutcomeKind, Run, find_runs, is_run, list_runs, read_run


def find_run(paths: Sequence[str]) -> Run | None:
    """Return the Run among the paths, which must have a profile; None for none or several."""
    named = sorted({path for path in paths if is_run(path)})
    if len(named) != 1:
        return None
    run = _read(named[0])
    if not run.profiles:
        ending = "" if run.outcome.ok else f"{run.outcome}; "
        raise InputError(
            f"{named[0]}: {ending}this run has no profile",
            why=run.why_no_profile,
            next=_how_to_get_one(run, named[0]),
        )
    return run


def refuse_directory_of_runs(paths: Sequence[str]) -> None:
    """Raise an error that names the newest run if a directory of runs was given."""
    for path in paths:
        if not _holds_runs(path):
            continue
        known = list_runs(path)
        newest = ([run for run in known if run.profiles] or known)[-1:]
        inside = "1 run" if len(known) == 1 else f"{len(known)} runs"
        raise InputError(
            f"{path} is not a profile but a directory of {inside}",
            next=" ".join(f"counterpoint explain {shlex.quote(str(run.path))}" for run in newest)
            or f"counterpoint runs {shlex.quote(path)}",
        )


def _holds_runs(path: str) -> bool:
    try:
        return not is_run(path) and bool(find_runs(path))
    except InputError:
        return False  # no readable directory, which has been reported already


def _read(path: str) -> Run:
    """Read the Run; if it is damaged, raise an error that points to its remaining profiles."""
    try:
        return read_run(path)
    except InputError as damage:
        quoted = shlex.quote(path)
        whole = any(Path(path).glob("rank*/profile/plugins/profile/*/*.xplane.pb*"))
        next_ = f"counterpoint explain {quoted}/rank*/profile" if whole else None
        raise InputError(
            damage.what, why=damage.why, next=next_ or damage.next or f"ls {quoted}"
        ) from None


def _how_to_get_one(run: Run, shown: str) -> str:
    """Return the next command: wait, read the error, or repeat the run with a profile."""
    if run.outcome.kind is OutcomeKind.RUNNING:
        return f"counterpoint explain {shlex.quote(shown)}   # when it has ended"
    seen = any(rank.steps for rank in run.ranks)
    failed = next((r for r in run.ranks if r.outcome.kind is run.outcome.kind), None)
    if failed is not None and not run.outcome.ok and not seen:
        return f"less {shlex.quote(str(failed.stderr))}"
    return profiled_run_command(run, Path(shown))
