"""Runs as a table, and one run as the few lines that stand at its end."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
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

Broken = tuple[Path, str]
"""A Run directory that can't be read, and why."""

_COLUMNS: Final = (
    Column("name", Kind.NAME),
    Column("started", Kind.WORD, 2),
    Column("outcome", Kind.WORD),
    Column("ranks", Kind.NUMBER, 4),
    Column("steps", Kind.NUMBER, 3),
    Column("median ms", Kind.NUMBER, 1),
    Column("profile", Kind.WORD, 5),
    Column("path", Kind.PLACE),
)
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
        legend="median: of step times, the first step left out; ?: not known",
        next=f"counterpoint explain {shlex.quote(str(known[-1].path))}"
        if known
        else "counterpoint run -- python train.py",
    )


def _row(run: Run) -> tuple[str, ...]:
    steps = run.timed.steps if run.timed else ()
    median = run.median_step_s
    return (
        run.name,
        f"{run.started.astimezone():%Y-%m-%d %H:%M:%S}",
        run.outcome.kind.replace("_", " "),
        str(run.world_size),
        str(len(steps)) if steps else "?",
        units.UNKNOWN if isinstance(median, Unknown) else units.column([median * 1e3])[0],
        "yes" if run.profiles else "no",
        str(run.path),
    )


def run_lines(run: Run, path: Path, *, needs_profile: bool = False) -> list[str]:
    """What is to be said when a run has ended: outcome, steps, profile, and what to do next."""
    lines = [
        f"outcome  {run.outcome}",
        f"steps    {steps_line(run)}",
        _profile(run, needed=needs_profile),
        *(f"note     {note}" for note in (*run.notes, *(n for r in run.ranks for n in r.notes))),
        *(f"next: {command}" for command in next_commands(run, path)),
    ]
    return [printable(line) for line in lines]


def steps_line(run: Run) -> str:
    """How many steps were seen, and what the median one took."""
    rank = run.timed
    if rank is None or isinstance(run.median_step_s, Unknown):
        seen = max((len(rank.steps) for rank in run.ranks), default=0)
        why = f": {BURSTS}" if any(rank.steps_in_bursts for rank in run.ranks) else ""
        return f"{seen} seen, no time known{why}" if seen else "none were seen"
    return (
        f"{len(rank.steps)} seen, median {units.milliseconds(run.median_step_s * 1e3)},"
        f" {how_timed(rank)}" + (f", of rank {rank.number}" if run.world_size > 1 else "")
    )


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
    return f"profile  {count} file{'s' * (count != 1)}, {units.size(size)}{_shortened(run)}"


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
