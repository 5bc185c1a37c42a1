"""Runs as a table, and the closing lines of one run."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import quantiles
from typing import Annotated, Any, Final, Literal, cast

from counterpoint.core import Unknown, unused_path
from counterpoint.core.arguments import option_words
from counterpoint.core.printable import counted_noun
from counterpoint.diagnose import Remedy
from counterpoint.report import units
from counterpoint.report.document import (
    Column,
    ColumnKind,
    Document,
    Prose,
    Section,
    TextTable,
    Tone,
    printable,
)
from counterpoint.report.json import At, CountOf, Pairs, Result, fill, json_text
from counterpoint.runs import BURSTS, Outcome, OutcomeKind, Rank, Run
from counterpoint.runs.reports import effective_flags, flags_by_module
from counterpoint.runs.scores import seen_steps
from counterpoint.trainers import TokensInStep, find_trainer, tokens_on

__all__ = [
    "TokensInStep",
    "next_commands",
    "profiled_run_command",
    "run_lines",
    "runs_document",
    "runs_json",
    "tokens_in_step",
    "trial_command",
]


_ARM: Final = 90  # characters; longer commands are hard to read at a glance
LOCAL: Final = "local"
"""The launcher of a run that started its ranks itself."""
_NOTHING: Final[Mapping[str, object]] = {}


def next_commands(run: Run, path: Path) -> list[str]:
    """Return commands to paste; `path` is the run's directory as it is to be written."""
    own = [f"counterpoint explain {shlex.quote(profile)}" for profile in own_profiles(run)]
    if run.profiles:
        return [f"counterpoint explain {shlex.quote(str(path))}", *own]
    if run.outcome.kind is OutcomeKind.RUNNING or not run.ranks:
        return [f"counterpoint runs {shlex.quote(str(path))}"]
    no_jax = not any(rank.processes for rank in run.ranks)  # no window would see any steps
    if not run.outcome.ok or no_jax:
        log = _telling(run, path)
        return [f"less {shlex.quote(str(log))}"] if log else []
    return own or [profiled_run_command(run, path)]


def trial_command(remedy: Remedy, run: Run | None) -> str | None:
    """Return the command that tries a remedy's flags on a Run's program, if it is known here."""
    command = shlex.join(run.command) if run is not None else ""
    if run is None or not remedy.flags or not command.isprintable() or run.cwd != str(Path.cwd()):
        return None
    arm = " ".join(f"--{name}={value}" for name, value in remedy.flags)
    return f"counterpoint tune --arm {shlex.quote(arm)} -- {command}" if len(arm) <= _ARM else None


def own_profiles(run: Run) -> list[str]:
    """Return the directories into which the program itself wrote profiles."""
    found: dict[str, None] = {}
    for rank in run.ranks:
        for process in rank.processes:
            recorded = process.facts.get("own_profiles")
            for name in cast("list[object]", recorded) if isinstance(recorded, list) else []:
                found[_shown(str(name), run.cwd)] = None
    return list(found)


def _shown(name: str, cwd: str) -> str:
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
    words = ["counterpoint", "run", *_earlier(run), "-o", str(unused_path(path))]
    if run.launcher == LOCAL and run.world_size > 1:
        words += option_words({"ranks": run.world_size})
    words += option_words(
        {
            "set": tuple(f"{name}={value}" for name, value in run.settings.xla),
            "env": tuple(f"{name}={value}" for name, value in run.settings.env),
        }
    )
    command = shlex.join(run.command)
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


def _telling(run: Run, path: Path) -> Path | None:
    """Return the output of the first failed rank, if it has any."""
    rank = next((rank for rank in run.ranks if rank.outcome.kind is run.outcome.kind), run.ranks[0])
    log = next((stream for stream in (rank.stderr, rank.stdout) if _has_content(stream)), None)
    return None if log is None else path / log.relative_to(run.path)


def _has_content(path: Path) -> bool:
    try:
        return path.stat().st_size > 0
    except OSError:
        return False


Broken = tuple[Path, str]
"""A Run directory that can't be read, and why."""

_FEW: Final = 10  # with fewer steps percentiles mean nothing
_COLUMNS: Final = (
    Column("name", ColumnKind.LABEL),
    Column("started", ColumnKind.WORD, 2),
    Column("outcome", ColumnKind.WORD),
    Column("ranks", ColumnKind.NUMBER, 4),
    Column("steps", ColumnKind.NUMBER, 3),
    Column("median ms", ColumnKind.NUMBER),
    Column("profile", ColumnKind.WORD),
    Column("path", ColumnKind.PLACE, 1),
)
_UNDISTURBED: Final = "without compilation or profiling"
_HOW: Final = {
    "annotation": "between step annotations",
    "api": "from the StepProfiler of the program",
    "log": "from printed lines",
}


def runs_document(runs: Sequence[Run], broken: Sequence[Broken], place: str) -> Document:
    """Return all runs of a directory, unreadable ones last."""
    rows = [
        *(_row(run) for run in runs),
        *((path.name, "?", "broken", "?", "?", "?", "?", str(path)) for path, _ in broken),
    ]
    blocks = [
        TextTable(
            columns=_COLUMNS,
            rows=tuple(tuple(printable(cell) for cell in row) for row in rows),
        ),
        *(Prose(printable(f"{path.name}: {why}"), Tone.WARNING) for path, why in broken),
    ]
    known = [run for run in runs if run.profiles]
    count = f"{len(rows)} in {place}"
    return Document(
        sections=(Section("Runs", count, tuple(blocks) if rows else ()),),
        legend=f"median: of the steps {_UNDISTURBED} if there are three, otherwise of all but the"
        " first;"
        " ?: unknown",
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
    """Yield the closing lines of a run: outcome, steps, profile and next commands.

    `digest` is the summary of its profile, which may take time to produce.
    """
    notes = (*run.notes, *(note for rank in run.ranks for note in rank.notes))
    yield printable(f"outcome  {run.outcome}")
    yield printable(f"steps    {steps_line(run)}")
    if tokens := _tokens_line(run):
        yield printable(f"tokens   {tokens}")
    yield printable(_profile(run, needed=needs_profile))
    yield from (printable(f"note     {note}") for note in notes)
    yield from map(printable, digest)
    yield from (printable(f"next: {command}") for command in next_commands(run, path))


def steps_line(run: Run) -> str:
    """Describe how many steps were seen, and the median step time."""
    rank, timing = run.timed, seen_steps(run)
    if rank is None or isinstance(timing, Unknown):
        seen = max((len(rank.steps) for rank in run.ranks), default=0)
        why = f": {BURSTS}" if any(rank.steps_in_bursts for rank in run.ranks) else ""
        return f"{seen} seen, not timed{why}" if seen else "none seen"
    which = f" of the {timing.steps:,} {_UNDISTURBED}" if timing.left_out > 1 else ""
    if timing.compiled:
        each = "each" if timing.steps > 1 else "it"
        which = f" of {timing.steps:,} ({each} includes a compilation)"
    elif timing.disturbed and timing.left_out > 1:
        which = f" of the {timing.steps:,} without compilation"
    elif timing.disturbed and run.profiles:
        which = f" of the {timing.steps:,} after the first, profiled ones included"
    return (
        f"{len(rank.steps)} seen, median {units.milliseconds(timing.seconds * 1e3)}{which}"
        f"{_spread(timing.each_s)},"
        f" {how_timed(rank)}" + (", of the slowest rank" if run.world_size > 1 else "")
    )


def tokens_in_step(run: Run) -> TokensInStep | None:
    """Return the tokens of a step, where the trainer's options tell batch and sequence."""
    trainer = find_trainer(run.command)
    processes = [next((p for p in rank.processes if p.devices), None) for rank in run.ranks]
    devices = sum(len(process.devices) for process in processes if process)
    if trainer is None or None in processes or not devices:
        return None
    return tokens_on(trainer, run.command, Path(run.cwd), devices)


def _tokens_line(run: Run) -> str | None:
    """Describe the tokens per second, if batch, sequence and step time are known."""
    timing, tokens = seen_steps(run), tokens_in_step(run)
    if isinstance(timing, Unknown) or not timing.seconds or tokens is None:
        return None
    rate = tokens.count / timing.seconds
    return (
        f"{rate:,.0f} per second, {rate / tokens.devices:,.0f} on each device: {tokens.count:,} in"
        f" a step, by {tokens.trainer}'s batch and sequence"
    )


def _spread(seconds: Sequence[float]) -> str:
    """Return the minimum and maximum, or p10 and p90 of ten and more steps."""
    if len(seconds) < 2:
        return ""
    least, most = min(seconds), max(seconds)
    if len(seconds) < _FEW:
        return f" ({units.span(least * 1e3, most * 1e3)})"
    tenths = quantiles(seconds, n=10, method="inclusive")
    return f" (p10 to p90: {units.span(tenths[0] * 1e3, tenths[-1] * 1e3)})"


def how_timed(rank: Rank) -> str:
    """Return how a rank's steps were timed."""
    if rank.steps and rank.steps[0].seconds is not None:
        return "from times the program prints"
    return _HOW.get(rank.step_source or "", "?")


def _profile(run: Run, *, needed: bool) -> str:
    if not run.profiles:
        head = "error: no profile" if needed else "profile  none"
        return f"{head}: {run.why_no_profile}"
    size = sum(path.stat().st_size for path in run.profiles)
    count = len(run.profiles)
    files = f"{counted_noun(count, 'file')}, {units.size(size)}"
    if run.own_profile is not None:
        return f"profile  {files}, the program's own, in {_shown(str(run.own_profile), run.cwd)}"
    return f"profile  {files}{_counted(run)}{_shortened(run)}"


def _counted(run: Run) -> str:
    """Return the first step of a profile if the program did not mark where its steps begin."""
    windows = (rank.window for rank in run.ranks if rank.window and rank.window.state == "done")
    for window in windows:
        if window.counted and window.counted.startswith("executions"):
            return f", from step {window.start_step}, counted by {window.counted}"
    return ""


def _shortened(run: Run) -> str:
    """Return why a profile holds less than was requested, if it does."""
    for rank in run.ranks:
        window = rank.window
        if window is None or window.state != "done":
            continue
        if window.reason:
            return f": {window.reason}"
        wanted = requested_window(rank).get("steps")
        if window.steps is not None and isinstance(wanted, int) and window.steps < wanted:
            return f": {window.steps} of {wanted} steps"
    return ""


class RunSettingsJson(Result):
    """The settings that were asked for, without what was inherited."""

    xla_flags: Annotated[Pairs, At("xla")]
    env: dict[str, str]


class RankRead(Result):
    """A rank, with all that it left; `processes` are as the agent wrote them."""

    rank: Annotated[int, At("number")]
    host: str
    pid: int | None
    outcome: Outcome
    environment: Any
    processes: Annotated[tuple[Any, ...], At("processes.facts")]
    steps: Annotated[int, CountOf("steps")]
    compiles: dict[str, int]
    profiles: tuple[str, ...]
    hlo: tuple[str, ...]
    step_module: str | None
    flags_of_compiler: dict[str, str] | None
    flags_by_module: dict[str, dict[str, str]]
    notes: tuple[str, ...]


class RunFound(Result):
    """A run as a reader finds it."""

    schema: Literal["counterpoint.run/1"]
    version: str
    path: str
    name: str
    command: tuple[str, ...]
    cwd: str
    started: str
    ended: str | None
    state: str
    outcome: Outcome
    launcher: str
    job: str | None
    world_size: int
    settings: RunSettingsJson
    steps: Annotated[int | None, CountOf("timed.steps")]
    median_step_ms: float | None
    timed_by: str | None
    profiles: tuple[str, ...]
    no_profile: str | None
    notes: tuple[str, ...]
    ranks: tuple[RankRead, ...]


class BrokenRun(Result):
    """A directory that is no whole run."""

    path: str
    why: str


class Runs(Result, tag_field="schema", tag="counterpoint.runs/1"):
    """The runs of a directory: `counterpoint run --json` and `counterpoint runs --json`."""

    runs: tuple[RunFound, ...]
    broken: tuple[BrokenRun, ...]


def runs_json(runs: Sequence[Run], broken: Sequence[Broken] = ()) -> str:
    """Return runs as text."""
    return json_text(fill(Runs, None, runs=map(run_found, runs), broken=broken))


def run_found(run: Run) -> RunFound:
    """Return a run as data; unknown values are null."""
    timed, timing = run.timed, seen_steps(run)
    return fill(
        RunFound,
        run,
        started=run.started.isoformat(),
        ended=run.ended.isoformat() if run.ended else None,
        median_step_ms=None if isinstance(timing, Unknown) else timing.seconds * 1e3,
        timed_by=how_timed(timed) if timed else None,
        no_profile=None if run.profiles else run.why_no_profile,
        ranks=[_rank(rank) for rank in run.ranks],
    )


def _rank(rank: Rank) -> RankRead:
    return fill(
        RankRead,
        rank,
        compiles=Counter(event.kind for event in rank.compiles),
        flags_of_compiler=effective_flags(rank),
        flags_by_module=flags_by_module(rank),
    )
