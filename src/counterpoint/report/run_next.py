"""What to do after a run: read its profile, get one, or see what went wrong."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Final, cast

from counterpoint.runs import OutcomeKind, Rank, Run

_QUIET: Final = 0.5  # seconds
_NOTHING: Final[Mapping[str, object]] = {}


def next_commands(run: Run, path: Path) -> list[str]:
    """Commands to paste. `path` is where the run lies, as it is to be written."""
    own = [f"counterpoint explain {shlex.quote(it)}" for it in own_profiles(run)]
    if run.profiles:
        return [f"counterpoint explain {shlex.quote(str(path))}", *own]
    if run.outcome.kind is OutcomeKind.RUNNING or not run.ranks:
        return [f"counterpoint runs {shlex.quote(str(path))}"]
    if not run.outcome.ok:
        return [f"less {shlex.quote(str(_telling(run, path)))}"]
    return own or [_with_profile(run)]


def own_profiles(run: Run) -> list[str]:
    """The directories into which the program wrote profiles of its own."""
    found: dict[str, None] = {}
    for rank in run.ranks:
        for process in rank.processes:
            told = process.facts.get("own_profiles")
            for name in cast("list[object]", told) if isinstance(told, list) else []:
                found[_shown(str(name), run.cwd)] = None
    return list(found)


def _shown(name: str, cwd: str) -> str:
    if "://" in name:
        return name
    path, here = Path(cwd) / name, Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def asked(rank: Rank) -> Mapping[str, object]:
    """The window that was asked for, as the agent had it."""
    for process in rank.processes:
        window = process.facts.get("window")
        if isinstance(window, dict):
            told = cast("dict[str, object]", window).get("asked")
            if isinstance(told, dict):
                return cast("Mapping[str, object]", told)
    return _NOTHING


def _with_profile(run: Run) -> str:
    """The same run, so that there will be a profile."""
    words = ["counterpoint", "run", *_earlier(run)]
    for name, value in run.settings.xla:
        words += ["--set", f"{name}={value}"]
    for name, value in run.settings.env:
        words += ["--env", f"{name}={value}"]
    command = shlex.join(run.command)
    told = command if command.isprintable() else "..."  # a program of several lines, in a word
    return f"{shlex.join(words)} -- {told}"


def _earlier(run: Run) -> list[str]:
    """A window that opens before the one that did not come."""
    rank = next((rank for rank in run.ranks if rank.profile_asked), None)
    if rank is None:
        return []
    start = asked(rank).get("start_step")
    if isinstance(start, int) and (len(rank.steps) > 1 and rank.step_source != "log"):
        return ["--profile-start-step", str(min(start, len(rank.steps)) // 2)]
    quiet = asked(rank).get("quiet_s")
    shorter = quiet / 2 if isinstance(quiet, int | float) and quiet <= _QUIET else _QUIET
    return ["--profile-after-quiet", f"{shorter if start is None else _QUIET:g}"]


def _telling(run: Run, path: Path) -> Path:
    """Where the failure is told: by the first rank that did not end well."""
    rank = next((rank for rank in run.ranks if rank.outcome.kind is run.outcome.kind), run.ranks[0])
    told = rank.stderr if _has_content(rank.stderr) else rank.stdout
    return path / told.relative_to(run.path)


def _has_content(path: Path) -> bool:
    try:
        return path.stat().st_size > 0
    except OSError:
        return False
