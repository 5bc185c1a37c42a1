"""Runs as a table, and one run as the few lines that stand at its end."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from statistics import quantiles
from typing import Final

from counterpoint.core.basis import Unknown
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
from counterpoint.report.run_next import asked, next_commands
from counterpoint.runs import Rank, Run
from counterpoint.runs.bursts import BURSTS
from counterpoint.runs.score import seen_steps

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
