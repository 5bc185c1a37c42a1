"""Runs as a table, and one run as the few lines that stand at its end."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import quantiles
from typing import Final, cast

from counterpoint.core import Unknown, beside
from counterpoint.diagnose import Remedy
from counterpoint.report import units
from counterpoint.report.document import (
    Column,
    Document,
    Kind,
    Prose,
    Section,
    Table,
    Tone,
    printable,
)
from counterpoint.runs import BURSTS, OutcomeKind, Rank, Run
from counterpoint.runs.scores import seen_steps

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


Broken = tuple[Path, str]
"""A Run directory that can't be read, and why."""

_FEW: Final = 10  # steps, below which percentiles say nothing
_COLUMNS: Final = (
    Column("name", Kind.LABEL),
    Column("started", Kind.WORD, 2),
    Column("outcome", Kind.WORD),
    Column("ranks", Kind.NUMBER, 4),
    Column("steps", Kind.NUMBER, 3),
    Column("median ms", Kind.NUMBER),
    Column("profile", Kind.WORD),
    Column("path", Kind.PLACE, 1),
)
_UNDISTURBED: Final = "in which nothing was compiled or profiled"
_HOW: Final = {
    "annotation": "from one step annotation to the next",
    "api": "as the program tells the StepProfiler",
    "log": "from the lines it prints",
}


def runs_document(runs: Sequence[Run], broken: Sequence[Broken], place: str) -> Document:
    """All runs of a directory, those that can't be read behind the others."""
    rows = [
        *(_row(run) for run in runs),
        *((path.name, "?", "broken", "?", "?", "?", "?", str(path)) for path, _ in broken),
    ]
    blocks = [
        Table(
            columns=_COLUMNS,
            rows=tuple(tuple(printable(cell) for cell in row) for row in rows),
        ),
        *(Prose(printable(f"{path.name}: {why}"), Tone.WARNING) for path, why in broken),
    ]
    known = [run for run in runs if run.profiles]
    count = f"{len(rows)} in {place}"
    return Document(
        sections=(Section("Runs", count, tuple(blocks) if rows else ()),),
        legend=f"median: of the steps {_UNDISTURBED}, where there are three of them, else of all"
        " but the first; ?: not known",
        next=f"counterpoint explain {shlex.quote(str(known[-1].path))}"
        if known
        else "counterpoint run -- python train.py",
    )


def _row(run: Run) -> tuple[str, ...]:
    steps = run.timed.steps if run.timed else ()
    timing = seen_steps(run)
    return (
        run.name,
        f"{run.started.astimezone():%Y-%m-%d %H:%M:%S}",
        run.outcome.kind.replace("_", " "),
        str(run.world_size),
        str(len(steps)) if steps else "?",
        units.UNKNOWN if isinstance(timing, Unknown) else units.column([timing.seconds * 1e3])[0],
        "yes" if run.profiles else "no",
        str(run.path),
    )


def run_lines(
    run: Run, path: Path, *, needs_profile: bool = False, digest: Iterable[str] = ()
) -> Iterator[str]:
    """What is to be said when a run has ended: outcome, steps, profile, and what to do next.

    `digest` is what the profile tells of it, which may take its time to tell.
    """
    notes = (*run.notes, *(note for rank in run.ranks for note in rank.notes))
    yield printable(f"outcome  {run.outcome}")
    yield printable(f"steps    {steps_line(run)}")
    yield printable(_profile(run, needed=needs_profile))
    yield from (printable(f"note     {note}") for note in notes)
    yield from map(printable, digest)
    yield from (printable(f"next: {command}") for command in next_commands(run, path))


def steps_line(run: Run) -> str:
    """How many steps were seen, and what the median one took."""
    rank, timing = run.timed, seen_steps(run)
    if rank is None or isinstance(timing, Unknown):
        seen = max((len(rank.steps) for rank in run.ranks), default=0)
        why = f": {BURSTS}" if any(rank.steps_in_bursts for rank in run.ranks) else ""
        return f"{seen} seen, no time known{why}" if seen else "none were seen"
    of = f" of the {timing.steps:,} {_UNDISTURBED}" if timing.left_out > 1 else ""
    if timing.compiled:
        each = "each of which" if timing.steps > 1 else "which"
        of = f" of {timing.steps:,}, in {each} something was compiled"
    elif timing.disturbed and timing.left_out > 1:
        of = f" of the {timing.steps:,} in which nothing was compiled"
    elif timing.disturbed and run.profiles:
        of = f" of the {timing.steps:,} after the first, the profiled ones among them"
    return (
        f"{len(rank.steps)} seen, median {units.milliseconds(timing.seconds * 1e3)}{of}"
        f"{_spread(timing.each_s)},"
        f" {how_timed(rank)}" + (", of the slowest rank" if run.world_size > 1 else "")
    )


def _spread(seconds: Sequence[float]) -> str:
    """From the least to the most, or the middle four fifths of ten and more."""
    if len(seconds) < 2:
        return ""
    least, most = min(seconds), max(seconds)
    if len(seconds) < _FEW:
        return f" ({units.span(least * 1e3, most * 1e3)})"
    tenths = quantiles(seconds, n=10, method="inclusive")
    return f" (p10 to p90: {units.span(tenths[0] * 1e3, tenths[-1] * 1e3)})"


def how_timed(rank: Rank) -> str:
    """By what a rank's steps were timed."""
    if rank.steps and rank.steps[0].seconds is not None:
        return "as the program prints them"
    return _HOW.get(rank.step_source or "", "?")


def _profile(run: Run, *, needed: bool) -> str:
    if not run.profiles:
        head = "error: no profile" if needed else "profile  none"
        return f"{head}: {run.why_no_profile}"
    size = sum(path.stat().st_size for path in run.profiles)
    count = len(run.profiles)
    files = f"{count} file{'s' * (count != 1)}, {units.size(size)}"
    return f"profile  {files}{_counted(run)}{_shortened(run)}"


def _counted(run: Run) -> str:
    """The first step of a profile, where the program did not say itself where its steps begin."""
    windows = (rank.window for rank in run.ranks if rank.window and rank.window.state == "done")
    for window in windows:
        if window.counted and window.counted.startswith("executions"):
            return f", from step {window.start_step} on, counted by {window.counted}"
    return ""


def _shortened(run: Run) -> str:
    """Why a profile holds less than was asked for, if it does."""
    for rank in run.ranks:
        window = rank.window
        if window is None or window.state != "done":
            continue
        if window.reason:
            return f": {window.reason}"
        wanted = asked(rank).get("steps")
        if window.steps is not None and isinstance(wanted, int) and window.steps < wanted:
            return f": {window.steps} of {wanted} steps"
    return ""
