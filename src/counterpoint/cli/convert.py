"""`counterpoint convert`: read profiles, and keep them as Parquet or as a trace for Perfetto."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from counterpoint.cli.numbers import MaybeWholeNumber
from counterpoint.cli.progress import Progress
from counterpoint.cli.timeline_output import check_timeline_output, is_trace, write_timeline
from counterpoint.core.errors import UsageError
from counterpoint.runs.read import read
from counterpoint.timeline.model import Timeline
from counterpoint.timeline.url import refuse_url


def convert(
    *paths: Annotated[str, Parameter(name="IN... OUT", negative=())],
    jobs: MaybeWholeNumber = None,
    force: Annotated[bool, Parameter(show_default=False)] = False,
) -> None:
    """Keep profiles as Parquet tables, or as a trace for ui.perfetto.dev.

    Args:
        paths: What to read, and last where to write: a directory of Parquet tables, or a trace
            that ends in .json.gz, .json or .pftrace.
        jobs: Read so many hosts at a time; by default one per core, where there is much to read.
        force: Overwrite what is there.
    """
    if len(paths) < 2:
        raise UsageError(
            f"convert takes what to read and where to write: two paths or more, not {len(paths)}",
            next="counterpoint convert IN... OUT",
        )
    *inputs, last = paths
    refuse_url(last)
    out = Path(last)
    command = f"counterpoint convert {shlex.join(inputs)}"
    check_timeline_output(out, inputs, force=force, command=command)
    with Progress("reading") as progress:
        timeline = read(*inputs, progress=progress.read, jobs=jobs)
        progress.say(f"writing {out}")
        write_timeline(timeline, out, force=force)
    _tell(timeline, out)


def _tell(timeline: Timeline, out: Path) -> None:
    parts = (
        _count(len(timeline.spans), "span"),
        _count(len(timeline.devices), "device"),
        _count(timeline.steps["step"].n_unique(), "step"),
        f"{_size(out) / 1e6:,.1f} MB",
    )
    if timeline.truncated:
        print(
            "the profile is cut short; what is known of it:",
            *timeline.notes,
            sep="\n  ",
            file=sys.stderr,
        )
    print(f"{out}: {', '.join(parts)}")
    print(
        "open it at https://ui.perfetto.dev"
        if is_trace(out)
        else f"next: counterpoint explain {shlex.quote(str(out))}"
    )


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _size(path: Path) -> int:
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files)
