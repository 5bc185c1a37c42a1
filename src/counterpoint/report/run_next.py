"""What to do after a run: read its profile, get one, or see what went wrong."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Final, cast

from counterpoint.core.beside import beside
from counterpoint.diagnose.finding import Remedy
from counterpoint.runs import OutcomeKind, Rank, Run

_ARM: Final = 90  # characters, in a line that is read at a glance
LOCAL: Final = "local"
"""The launcher of a run that has started its ranks itself."""
_NOTHING: Final[Mapping[str, object]] = {}


def next_commands(run: Run, path: Path) -> list[str]:
    """Commands to paste. `path` is where the run lies, as it is to be written."""
    own = [f"counterpoint explain {shlex.quote(it)}" for it in own_profiles(run)]
    if run.profiles:
        return [f"counterpoint explain {shlex.quote(str(path))}", *own]
    if run.outcome.kind is OutcomeKind.RUNNING or not run.ranks:
        return [f"counterpoint runs {shlex.quote(str(path))}"]
    no_jax = not any(rank.processes for rank in run.ranks)  # another window would see none, either
    if not run.outcome.ok or no_jax:
        told = _telling(run, path)
        return [f"less {shlex.quote(str(told))}"] if told else []
    return own or [with_profile(run, path)]


def trial_of(remedy: Remedy, run: Run | None) -> str | None:
    """The command that tries a remedy's flags on the program of a Run, where that is known here."""
    command = shlex.join(run.command) if run is not None else ""
    if run is None or not remedy.flags or not command.isprintable() or run.cwd != str(Path.cwd()):
        return None
    arm = " ".join(f"--{name}={value}" for name, value in remedy.flags)
    return f"counterpoint tune --arm {shlex.quote(arm)} -- {command}" if len(arm) <= _ARM else None


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


def with_profile(run: Run, path: Path) -> str:
    """The same run, so that there will be a profile."""
    words = ["counterpoint", "run", *_earlier(run), "-o", str(beside(path))]
    if run.launcher == LOCAL and run.world_size > 1:
        words += ["--ranks", str(run.world_size)]
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
    seen = _steps_seen(rank)
    middle = (max(seen, 1) - 1) // 2
    earlier = min(start // 2, middle) if isinstance(start, int) else middle
    return ["--profile-start-step", str(earlier)]


def _steps_seen(rank: Rank) -> int:
    """As `--profile-start-step` counts them: annotations, else executions."""
    if rank.step_source not in (None, "log"):
        return len(rank.steps)
    told = (process.facts.get("executions") for process in rank.processes)
    counts = (cast("dict[str, object]", it).values() for it in told if isinstance(it, dict))
    return max((it for each in counts for it in each if isinstance(it, int)), default=0)


def _telling(run: Run, path: Path) -> Path | None:
    """What the first rank printed that did not end well, if it printed anything."""
    rank = next((rank for rank in run.ranks if rank.outcome.kind is run.outcome.kind), run.ranks[0])
    told = next((it for it in (rank.stderr, rank.stdout) if _has_content(it)), None)
    return None if told is None else path / told.relative_to(run.path)


def _has_content(path: Path) -> bool:
    try:
        return path.stat().st_size > 0
    except OSError:
        return False
