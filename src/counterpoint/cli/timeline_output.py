"""Where a Timeline is kept: checked before the work, written in the form its name says."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from counterpoint.core.errors import UsageError
from counterpoint.timeline.model import Timeline
from counterpoint.timeline.perfetto import SUFFIXES as TRACES
from counterpoint.timeline.perfetto import write_perfetto
from counterpoint.timeline.url import refuse_url

_PARQUET: Final = ".parquet"
_ENDING: Final = re.compile(r"\.[A-Za-z]\w*")
"""`.txt` names a format; the `.2` of `run-1.2` is part of a name."""


def check_timeline_output(
    out: Path, inputs: Sequence[str], *, force: bool, command: str = "-o"
) -> None:
    """Refuse before the work what would be refused behind it; `command` is what names the place."""
    refuse_url(out)
    if out.suffix == _PARQUET:
        raise UsageError(
            f"can't write {out}: a Timeline is several tables, not one Parquet file",
            why="a directory takes them: spans.parquet, ops.parquet, steps.parquet, ...",
            next=f"{command} {shlex.quote(str(out.with_suffix('')))}",
        )
    if not out.name.endswith(TRACES) and _ENDING.fullmatch(out.suffix):
        raise UsageError(
            f"can't write {out}: its ending names no format here",
            why=f"{', '.join(TRACES)} is a trace; a name without ending, a directory of Parquet",
            next=f"{command} {shlex.quote(str(out.with_suffix('')))}",
        )
    if out.exists() and any(Path(name).resolve() == out.resolve() for name in inputs):
        raise UsageError(f"{out} is what is to be read", next="choose another name")
    if out.exists() and not force:
        raise UsageError(f"{out} exists", why="nothing is overwritten unasked", next="--force")
    if not out.parent.is_dir():
        parent = shlex.quote(str(out.parent))
        raise UsageError(
            f"can't write {out}: there is no directory {out.parent}", next=f"mkdir -p {parent}"
        )


def is_trace(out: Path) -> bool:
    """Whether a place is named as a trace; any other is a directory of tables."""
    return out.name.endswith(TRACES)


def write_timeline(timeline: Timeline, out: Path, *, force: bool) -> None:
    """Write it whole, or nothing."""
    if is_trace(out):
        write_perfetto(timeline, out, overwrite=force)
    else:
        timeline.to_parquet(out, overwrite=force)
