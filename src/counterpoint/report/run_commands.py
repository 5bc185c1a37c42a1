"""Commands that a run suggests: to explain it, to read its log, to repeat it with a profile."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, cast

from counterpoint.core import unused_path
from counterpoint.core.arguments import option_words
from counterpoint.core.notebook import as_typed
from counterpoint.diagnose.finding import Remedy
from counterpoint.runs.outcomes import OutcomeKind
from counterpoint.runs.run import Rank, Run

__all__ = ["again_command", "next_commands", "profiled_run_command", "trial_command"]

_ARM: Final = 90  # characters; longer commands are hard to read at a glance
LOCAL: Final = "local"
"""The launcher of a run that started its ranks itself."""
_NOTHING: Final[Mapping[str, object]] = {}


def next_commands(run: Run, path: Path) -> list[str]:
    """Return the commands to paste next; `path` is the run's directory as the commands name it."""
    own = [f"counterpoint explain {shlex.quote(profile)}" for profile in own_profiles(run)]
    if run.profiles:
        return [f"counterpoint explain {shlex.quote(str(path))}", *own]
    if run.outcome.kind is OutcomeKind.RUNNING or not run.ranks:
        return [f"counterpoint runs {shlex.quote(str(path))}"]
    no_jax = not any(rank.processes for rank in run.ranks)  # no window would see any steps
    if not run.outcome.ok or no_jax:
        log = _failed_output(run, path)
        return [f"less {shlex.quote(str(log))}"] if log else []
    return own or [profiled_run_command(run, path)]


def trial_command(remedy: Remedy, run: Run | None) -> str | None:
    """Return the command that tries a remedy's flags on a Run's program, if it can run here."""
    command = shlex.join(run.command) if run is not None else ""
    if run is None or not remedy.flags or not command.isprintable() or run.cwd != str(Path.cwd()):
        return None
    arm = " ".join(f"--{name}={value}" for name, value in remedy.flags)
    return f"counterpoint tune --arm {shlex.quote(arm)} -- {command}" if len(arm) <= _ARM else None


def own_profiles(run: Run) -> list[str]:
    """Return the directories into which the program itself wrote profiles."""
    profiles: dict[str, None] = {}
    for rank in run.ranks:
        for process in rank.processes:
            recorded = process.facts.get("own_profiles")
            for name in cast("list[object]", recorded) if isinstance(recorded, list) else []:
                profiles[shown_path(str(name), run.cwd)] = None
    return list(profiles)


def shown_path(name: str, cwd: str) -> str:
    """Return a path that a program named in `cwd`, relative to the current directory if inside."""
    if "://" in name:
        return name
    path, current = Path(cwd) / name, Path.cwd()
    return str(path.relative_to(current) if path.is_relative_to(current) else path)


def requested_window(rank: Rank) -> Mapping[str, object]:
    """Return the requested profiling window, as the agent received it."""
    for process in rank.processes:
        window = process.facts.get("window")
        if isinstance(window, dict):
            request = cast("dict[str, object]", window).get("asked")
            if isinstance(request, dict):
                return cast("Mapping[str, object]", request)
    return _NOTHING


def profiled_run_command(run: Run, path: Path) -> str:
    """Return the command that repeats the run with a profile."""
    return again_command(run, [*_earlier(run), "-o", str(unused_path(path))])


def again_command(run: Run, options: Sequence[str]) -> str:
    """Return the command that repeats the run with these options."""
    words = ["counterpoint", "run", *options]
    if run.launcher == LOCAL and run.world_size > 1:
        words += option_words({"ranks": run.world_size})
    words += option_words(
        {
            "set": tuple(f"{name}={value}" for name, value in run.settings.xla),
            "env": tuple(f"{name}={value}" for name, value in run.settings.env),
        }
    )
    command = shlex.join(as_typed(run.command))
    shown = command if command.isprintable() else "..."  # a multi-line program as an argument
    return f"{shlex.join(words)} -- {shown}"


def _earlier(run: Run) -> list[str]:
    """Return options for a window that opens before the one that was never reached."""
    rank = next((rank for rank in run.ranks if rank.profile_asked), None)
    if rank is None:
        return []
    start = requested_window(rank).get("start_step")
    seen = _steps_seen(rank)
    middle = (max(seen, 1) - 1) // 2
    earlier = min(start // 2, middle) if isinstance(start, int) else middle
    return option_words({"profile_start_step": earlier})


def _steps_seen(rank: Rank) -> int:
    """Count steps as `--profile-start-step` does: annotations, else executions."""
    if rank.step_source not in (None, "log"):
        return len(rank.steps)
    executions = (process.facts.get("executions") for process in rank.processes)
    counts = (
        cast("dict[str, object]", by_program).values()
        for by_program in executions
        if isinstance(by_program, dict)
    )
    return max((count for each in counts for count in each if isinstance(count, int)), default=0)


def _failed_output(run: Run, path: Path) -> Path | None:
    """Return the output of the first failed rank, if it has any."""
    rank = next((rank for rank in run.ranks if rank.outcome.kind is run.outcome.kind), run.ranks[0])
    log = next((stream for stream in (rank.stderr, rank.stdout) if _has_content(stream)), None)
    return None if log is None else path / log.relative_to(run.path)


def _has_content(path: Path) -> bool:
    try:
        return path.stat().st_size > 0
    except OSError:
        return False
