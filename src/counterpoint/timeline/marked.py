"""The parts of a large profile that are known at once: its marked steps and programs.

Reading a capture of gigabytes takes a while. `marked_steps` looks for the marks alone, so that a
page can show them meanwhile. They are a preview: `read` decides which runs belong to which step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import polars as pl

from counterpoint.core import Basis, InputError
from counterpoint.core.wire import Malformed
from counterpoint.timeline.model import (
    HOST_EVENTS,
    OPS,
    RUNS,
    SPANS,
    STEPS,
    Host,
    ProgramEntry,
    Schema,
    Timeline,
)
from counterpoint.timeline.parallel_reading import size_of
from counterpoint.timeline.recording import Recording
from counterpoint.timeline.source import ProfileSource, find_sources
from counterpoint.timeline.step_markers import most_frequent, numbered
from counterpoint.timeline.steps import find_steps
from counterpoint.timeline.storage.parquet import is_timeline
from counterpoint.timeline.xplane.marks import read_marks
from counterpoint.timeline.xplane.planes import LARGE
from counterpoint.timeline.xplane.reader import is_xplane

__all__ = ["HOST_MARKS", "is_large", "marked_steps"]

HOST_MARKS: Final = "as the host marked them"
"""The rule of steps whose times on devices are not known yet."""


_HEAD: Final = 64
_TRIED: Final = 3
"""Hosts that are asked for marks: one may have profiled nothing, but hardly several."""


def is_large(paths: Sequence[str]) -> bool:
    """Return whether reading these profiles takes long enough to show something meanwhile."""
    try:
        sources = [
            source
            for path in paths
            if not is_timeline(Path(path))
            for source in find_sources(path)[0]
        ]
        return sum(size_of(source) for source in sources) >= LARGE
    except (InputError, OSError):
        return False  # `read` will tell


def marked_steps(paths: Sequence[str]) -> Timeline | None:
    """Return a Timeline without spans, with the steps and programs that large XPlanes mark.

    Of several hosts, it has the devices of the first that marks any: the clocks of the others are
    not aligned yet. None: the profiles are of another format, compressed, small or damaged, or mark
    none. A compressed one would have to be unpacked twice.
    """
    if not is_large(paths):
        return None
    try:
        sources = [source for path in paths for source in find_sources(path)[0]]
        for number, source in enumerate(sources[:_TRIED]):
            if (marks := _marks(source)) and (timeline := _timeline(marks, paths)):
                return timeline if len(sources) == 1 else _of_one(timeline, number, sources)
    except (InputError, OSError):
        pass  # `read` will tell
    return None


def _marks(source: ProfileSource) -> Recording | None:
    if not source.is_file:
        return None
    with source.opened() as (data, _):
        if not is_xplane(bytes(data[:_HEAD])):
            return None
        try:
            return read_marks(data, source.name)
        except Malformed:
            return None


def _of_one(timeline: Timeline, number: int, sources: Sequence[ProfileSource]) -> Timeline:
    """Return the Timeline of one host, which comes first among the others."""
    hosts = [
        Host(name=source.path.name.partition(".xplane.")[0], source=source.name)
        for source in sources
    ]
    return replace(timeline, hosts=(hosts.pop(number), *hosts))


def _timeline(marks: Recording, inputs: Sequence[str]) -> Timeline | None:
    names: list[str] = marks.executions["module"].unique(maintain_order=True).to_list()
    runs = _runs(marks.executions, names)
    markers = marks.markers.with_columns(host=pl.lit(0, pl.UInt16))
    if len(runs):
        hosts = [0 for _ in marks.devices]
        numbered = find_steps(runs, names, markers, _empty(SPANS), hosts)
        steps, rule, program = numbered.steps, numbered.rule, numbered.program
    elif len(markers):
        steps, rule, program = _of_host(markers), HOST_MARKS, None
    else:
        return None
    return Timeline(
        basis=Basis.MEASURED,
        inputs=tuple(inputs),
        hosts=(Host(name=marks.host, source=marks.source),),
        devices=marks.devices,
        lines=(),
        programs=tuple(ProgramEntry(name=name) for name in names),
        ops=_empty(OPS),
        spans=_empty(SPANS),
        runs=runs,
        steps=steps,
        step_rule=rule,
        step_program=program,
        host_events=_empty(HOST_EVENTS),
        host_names=(),
        environment={},
        notes=(),
        truncated=False,
    )


def _empty(schema: Schema) -> pl.DataFrame:
    return pl.DataFrame(schema={**schema})


def _of_host(markers: pl.DataFrame) -> pl.DataFrame:
    """Return the host's steps; devices may run them later."""
    name = most_frequent(markers)
    rows, _ = numbered(markers.filter(pl.col("name") == name), name)
    known = rows.with_columns(device=pl.lit(0), whole=pl.lit(value=True), steady=pl.lit(value=True))
    return known.select(*STEPS).cast({**STEPS})


def _runs(executions: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    """Return the runs of programs; which step each is in is not known."""
    runs = executions.select(
        "device",
        program=pl.col("module").replace_strict({name: at for at, name in enumerate(names)})
        if names
        else pl.lit(0),
        index=pl.int_range(pl.len()).over("device", "module"),
        step=pl.lit(None),
        start_ps="start_ps",
        end_ps=pl.col("start_ps") + pl.col("dur_ps"),
        launched_ps=pl.lit(None),
    )
    return runs.select(*RUNS).cast({**RUNS})
