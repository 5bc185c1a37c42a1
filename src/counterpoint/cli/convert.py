"""`counterpoint convert`: read profiles, and keep them as Parquet or as a trace for Perfetto."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from counterpoint.cli.progress import Progress
from counterpoint.core.errors import UsageError
from counterpoint.runs.read import read
from counterpoint.timeline.model import Timeline
from counterpoint.timeline.perfetto import SUFFIXES as TRACES
from counterpoint.timeline.perfetto import write_perfetto
from counterpoint.timeline.url import refuse_url

PARQUET = ".parquet"
ENDINGS = (PARQUET, *TRACES)


def convert(
    *paths: Annotated[str, Parameter(name="IN... OUT", negative=())],
    force: Annotated[bool, Parameter(show_default=False)] = False,
) -> None:
    """Keep profiles as Parquet tables, or as a trace for ui.perfetto.dev.

    Args:
        paths: What to read, and last where to write: .parquet, .json.gz, .json or .pftrace.
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
    _check(inputs, out, force=force)
    with Progress("reading") as progress:

        def say(what: str, done: int, total: int) -> None:
            progress.say(f"reading {what.rpartition('/')[2]}, {done / max(total, 1):.0%}")

        timeline = read(*inputs, progress=say)
        progress.say(f"writing {out}")
        if out.suffix == PARQUET:
            timeline.to_parquet(out, overwrite=force)
        else:
            write_perfetto(timeline, out, overwrite=force)
    _tell(timeline, out)


def _check(inputs: list[str], out: Path, *, force: bool) -> None:
    """Refuse before the work what would be refused behind it."""
    if not out.name.endswith(ENDINGS):
        raise UsageError(
            f"can't write {out}: its ending names no format here",
            why=f"the ending says the format: {', '.join(ENDINGS)}",
            next=f"counterpoint convert {shlex.join([*inputs, f'{out}{PARQUET}'])}",
        )
    if out.exists() and any(Path(name).resolve() == out.resolve() for name in inputs):
        raise UsageError(f"{out} is what is to be read", next="choose another name")
    if out.exists() and not force:
        raise UsageError(
            f"{out} exists", why="nothing is overwritten unasked", next="add --force, or rename"
        )
    if not out.parent.is_dir():
        raise UsageError(f"can't write {out}: there is no directory {out.parent}")


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
        f"next: counterpoint explain {shlex.quote(str(out))}"
        if out.suffix == PARQUET
        else f"next: open https://ui.perfetto.dev and drop {out} on it"
    )


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _size(path: Path) -> int:
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files)
