"""Where a Timeline is kept: checked before the work, written in the format its ending names."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from counterpoint.core.errors import UsageError
from counterpoint.timeline.model import Timeline
from counterpoint.timeline.perfetto import SUFFIXES as TRACES
from counterpoint.timeline.perfetto import write_perfetto
from counterpoint.timeline.url import refuse_url

PARQUET: Final = ".parquet"
ENDINGS: Final = (PARQUET, *TRACES)


def check_timeline_output(
    out: Path, inputs: Sequence[str], *, force: bool, instead: str | None = None
) -> None:
    """Refuse before the work what would be refused behind it; `instead` is a command to name."""
    refuse_url(out)
    if not out.name.endswith(ENDINGS):
        raise UsageError(
            f"can't write {out}: its ending names no format here",
            why=f"the ending says the format: {', '.join(ENDINGS)}",
            next=instead or f"-o {shlex.quote(str(out.with_suffix(PARQUET)))}",
        )
    if out.exists() and any(Path(name).resolve() == out.resolve() for name in inputs):
        raise UsageError(f"{out} is what is to be read", next="choose another name")
    if out.exists() and not force:
        raise UsageError(
            f"{out} exists", why="nothing is overwritten unasked", next="add --force, or rename"
        )
    if not out.parent.is_dir():
        parent = shlex.quote(str(out.parent))
        raise UsageError(
            f"can't write {out}: there is no directory {out.parent}", next=f"mkdir -p {parent}"
        )


def write_timeline(timeline: Timeline, out: Path, *, force: bool) -> None:
    """Write it whole, or nothing."""
    if out.suffix == PARQUET:
        timeline.to_parquet(out, overwrite=force)
    else:
        write_perfetto(timeline, out, overwrite=force)
