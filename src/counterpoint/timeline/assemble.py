"""One Timeline from the Recordings of one or more hosts.

Programs are matched by name and order (`programs`); the k-th run of one on a device belongs with
its k-th run on every other. Clocks are brought together on collectives (`align`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import polars as pl

from counterpoint.core.basis import Basis
from counterpoint.timeline.align import Offset, find_offsets
from counterpoint.timeline.device import Host
from counterpoint.timeline.gather import Gathered, gather
from counterpoint.timeline.model import RUNS, Timeline
from counterpoint.timeline.recording import Recording
from counterpoint.timeline.steps import find_steps


def assemble(
    recordings: Sequence[Recording], inputs: Sequence[str], notes: Sequence[str] = ()
) -> Timeline:
    """Make the Timeline; `recordings` has one entry per host."""
    gathered = Gathered()
    for host, recording in enumerate(recordings):
        gather(gathered, recording, host)
    ops, spans = pl.concat(gathered.ops), pl.concat(gathered.spans)
    gathered.spans.clear()
    runs = pl.concat(gathered.runs).with_columns(
        index=pl.int_range(pl.len(), dtype=pl.UInt32).over("device", "program")
    )
    hosts = [
        Host(name=recording.host, source=recording.source, clock_offset_ps=None)
        for recording in recordings
    ]
    said = [
        *notes,
        *gathered.damaged.values(),
        *gathered.notes,
    ]
    markers, host_events = pl.concat(gathered.markers), pl.concat(gathered.host_events)
    if len(recordings) > 1:
        offsets = find_offsets(spans, ops, runs, [device.host for device in gathered.devices])
        hosts, more = _with_offsets(hosts, offsets)
        by_device = {i: hosts[d.host].clock_offset_ps or 0 for i, d in enumerate(gathered.devices)}
        spans, runs, markers = (
            _shift(frame, "device", by_device) for frame in (spans, runs, markers)
        )
        by_host = {i: host.clock_offset_ps or 0 for i, host in enumerate(hosts)}
        host_events = _shift(host_events, "host", by_host)
        said += more + _uneven(runs, gathered, hosts)
    names = [entry.name for entry in gathered.programs]
    extent = (
        spans.group_by("device")
        .agg(
            pl.col("start_ps").min(), (pl.col("start_ps") + pl.col("dur_ps")).max().alias("end_ps")
        )
        .sort("device")
    )
    found = find_steps(runs, names, markers, extent)
    return Timeline(
        basis=Basis.MEASURED,
        inputs=tuple(inputs),
        hosts=tuple(hosts),
        devices=tuple(gathered.devices),
        lines=tuple(gathered.lines),
        programs=tuple(gathered.programs),
        ops=ops,
        spans=spans.sort("device", "start_ps"),
        runs=runs.with_columns(step=found.step_of_run).select(*RUNS).cast({**RUNS}),
        steps=found.steps,
        step_rule=found.rule,
        step_program=found.program,
        host_events=host_events,
        host_names=tuple(gathered.names),
        environment=recordings[0].environment,
        notes=tuple(dict.fromkeys([*said, *found.notes])),
        truncated=any(recording.truncated for recording in recordings),
    )


def _with_offsets(hosts: list[Host], offsets: dict[int, Offset]) -> tuple[list[Host], list[str]]:
    aligned: list[Host] = []
    notes: list[str] = []
    for index, host in enumerate(hosts):
        offset = offsets.get(index)
        aligned.append(replace(host, clock_offset_ps=offset.ps if offset else None))
        if offset is None:
            notes.append(
                f"the clock of host {host.name} could not be aligned: it shares no collective of"
                " all devices with the first; waits between hosts are not known"
            )
        elif index:
            notes.append(
                f"the clock of host {host.name} was {offset.ps / 1e9:+,.3f} ms off the first's"
                f" (median of {offset.collectives:,} shared collectives, which stray by"
                f" {offset.spread_ps / 1e6:,.1f} us)"
            )
    return aligned, notes


def _shift(frame: pl.DataFrame, of: str, offsets: dict[int, int]) -> pl.DataFrame:
    """Subtract from the times of each row the clock offset of its device or host."""
    offset = pl.col(of).replace_strict(offsets, default=0, return_dtype=pl.Int64)
    times = [name for name in ("start_ps", "end_ps") if name in frame.columns]
    return frame.with_columns(pl.col(name) - offset for name in times)


def _uneven(runs: pl.DataFrame, gathered: Gathered, hosts: list[Host]) -> list[str]:
    """Say so when hosts saw a program run a different number of times."""
    counts = runs.group_by("program", "device").len()
    uneven = counts.group_by("program").agg(
        pl.col("len").min().alias("least"), pl.col("len").max().alias("most")
    )
    return [
        f"{gathered.programs[int(program)].name} ran {least} times on some devices and {most} times"
        f" on others ({len(hosts)} hosts): runs are matched from the first on"
        for program, least, most in uneven.sort("program").rows()
        if least != most
    ]
