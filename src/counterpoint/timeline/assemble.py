"""One Timeline from the Recordings of one or more hosts.

Programs are matched by name and order (`programs`); the k-th run of one on a device belongs with
its k-th run on every other. Clocks are brought together on collectives (`align`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import polars as pl

from counterpoint.core.basis import Basis
from counterpoint.timeline.align import Offset, find_offsets, step_ends
from counterpoint.timeline.attendance import absent_hosts, differing_chips, other_times
from counterpoint.timeline.counterparts import LAST, match_hosts
from counterpoint.timeline.device import Host
from counterpoint.timeline.gather import Gathered, gather
from counterpoint.timeline.kinship import strangers, suspect_copies
from counterpoint.timeline.model import RUNS, Timeline
from counterpoint.timeline.origin import Origin
from counterpoint.timeline.recording import Recording
from counterpoint.timeline.steps import dominant, find_steps
from counterpoint.timeline.turns import number_runs


@dataclass(frozen=True, slots=True, eq=False)
class _Tables:
    """Tables of all hosts, on one clock as far as that is known."""

    ops: pl.DataFrame
    spans: pl.DataFrame
    runs: pl.DataFrame
    markers: pl.DataFrame
    host_events: pl.DataFrame
    transfers: pl.DataFrame


def assemble(
    recordings: Iterable[Recording], inputs: Sequence[str], notes: Sequence[str] = ()
) -> Timeline:
    """Make the Timeline; `recordings` gives one per host, and none is kept."""
    gathered = Gathered()
    for recording in recordings:
        gather(gathered, recording)
    return finish(gathered, inputs, notes)


def finish(gathered: Gathered, inputs: Sequence[str], notes: Sequence[str]) -> Timeline:
    """Make the Timeline of what was gathered of all hosts."""
    tables = _concatenate(gathered)
    hosts = _hosts(gathered.hosts)
    said = [
        *suspect_copies(gathered.hosts),
        *strangers(gathered.devices, gathered.hosts_of_program),
        *notes,
        *gathered.damaged.values(),
        *gathered.notes,
    ]
    basis = gathered.hosts[0].basis if gathered.hosts else Basis.MEASURED
    matched_by = LAST
    if len(hosts) > 1:
        tables, matched_by = _matched(tables, gathered)
        tables, hosts, offsets = _on_one_clock(tables, hosts, gathered)
        said += offsets
    names = [entry.name for entry in gathered.programs]
    said += _attendance(gathered, dominant(tables.runs))
    found = find_steps(
        tables.runs,
        names,
        tables.markers,
        tables.spans,
        [device.host for device in gathered.devices],
        predicted=basis is Basis.PREDICTED,
    )
    said += _uneven(tables.runs, names, found.program, matched_by)
    return Timeline(
        basis=basis,
        inputs=tuple(inputs),
        hosts=tuple(hosts),
        devices=tuple(gathered.devices),
        lines=tuple(gathered.lines),
        programs=tuple(gathered.programs),
        ops=_without_false_forward(tables.ops),
        spans=tables.spans,
        runs=tables.runs.with_columns(step=found.step_of_run).select(*RUNS).cast({**RUNS}),
        steps=found.steps,
        step_rule=found.rule,
        step_program=found.program,
        host_events=tables.host_events,
        transfers=tables.transfers.sort("host", "start_ps"),
        host_names=tuple(gathered.names),
        environment=gathered.hosts[0].environment if gathered.hosts else {},
        notes=tuple(dict.fromkeys([*said, *found.notes])),
        truncated=any(host.truncated for host in gathered.hosts),
    )


def _attendance(gathered: Gathered, program: int | None) -> list[str]:
    """What is said of who is there and who is not; a prediction has one device for all."""
    if any(host.basis is Basis.PREDICTED for host in gathered.hosts):
        return []
    names = [host.host for host in gathered.hosts]
    hlo = None if program is None else gathered.hlo(program, 0)
    notes = [*absent_hosts(hlo, gathered.devices, names), *differing_chips(gathered.devices)]
    return notes + (other_times(gathered.hosts) if len(gathered.hosts) > 1 else [])


def _without_false_forward(ops: pl.DataFrame) -> pl.DataFrame:
    """Programs without a backward part beside one that has it: an update, an evaluation.

    Alone they would be inference, all forward; here nobody can tell.
    """
    trains = ops.filter(pl.col("phase") == "backward")["program"].unique().to_list()
    if not trains:
        return ops
    elsewhere = ~pl.col("program").is_in(trains) & (pl.col("phase") == "forward")
    return ops.with_columns(phase=pl.when(elsewhere).then(pl.lit("other")).otherwise("phase"))


def _hosts(origins: Sequence[Origin]) -> list[Host]:
    """Hosts by name; several processes of one machine are told apart by number."""
    shared = Counter(origin.host for origin in origins)
    met: Counter[str] = Counter()
    hosts: list[Host] = []
    for origin in origins:
        name = f"{origin.host} #{met[origin.host]}" if shared[origin.host] > 1 else origin.host
        met[origin.host] += 1
        hosts.append(Host(name=name, source=origin.source))
    return hosts


def _concatenate(gathered: Gathered) -> _Tables:
    tables = _Tables(
        ops=gathered.ops.frame(),
        spans=pl.concat(gathered.spans),
        runs=number_runs(pl.concat(gathered.runs), [d.host for d in gathered.devices]),
        markers=pl.concat(gathered.markers),
        host_events=pl.concat(gathered.host_events),
        transfers=pl.concat(gathered.transfers),
    )
    gathered.spans.clear()
    return tables


def _matched(tables: _Tables, gathered: Gathered) -> tuple[_Tables, str]:
    """Give runs of the step's program the same number on all hosts, and say what told it."""
    program = dominant(tables.runs)
    if program is None:
        return tables, LAST
    hosts = [device.host for device in gathered.devices]
    runs, told_by = match_hosts(
        tables.runs,
        program,
        tables.markers,
        step_ends(tables.spans, tables.ops, tables.runs, hosts, program),
        hosts,
        one_origin=all(host.zero_ns is not None for host in gathered.hosts),
    )
    return replace(tables, runs=runs), told_by


def _on_one_clock(
    tables: _Tables, hosts: list[Host], gathered: Gathered
) -> tuple[_Tables, list[Host], list[str]]:
    devices = gathered.devices
    offsets = find_offsets(tables.spans, tables.ops, tables.runs, [d.host for d in devices])
    hosts, notes = _with_offsets(hosts, offsets)
    by_device = {i: hosts[device.host].clock_offset_ps or 0 for i, device in enumerate(devices)}
    by_host = {i: host.clock_offset_ps or 0 for i, host in enumerate(hosts)}
    shifted = replace(
        tables,
        spans=_shift(tables.spans, "device", by_device),
        runs=_shift(tables.runs, "device", by_device),
        markers=_shift(tables.markers, "host", by_host),
        host_events=_shift(tables.host_events, "host", by_host),
        transfers=_shift(tables.transfers, "host", by_host),
    )
    return shifted, hosts, notes


def _with_offsets(hosts: list[Host], offsets: dict[int, Offset]) -> tuple[list[Host], list[str]]:
    aligned = [
        replace(host, clock_offset_ps=found.ps, clock_spread_ps=found.spread_ps)
        if (found := offsets.get(index))
        else host
        for index, host in enumerate(hosts)
    ]
    notes: list[str] = []
    others = [offsets[index] for index in sorted(offsets) if index]
    if others:
        off = sorted(offset.ps / 1e9 for offset in others)
        least = min(offset.collectives for offset in others)
        stray = max(offset.spread_ps for offset in others) / 1e6
        notes.append(
            f"clocks are aligned on the ends of {least:,} shared collectives or more, straying"
            f" by {stray:,.1f} us or less; before, they were {off[0]:+,.3f} to {off[-1]:+,.3f} ms"
            " off the first host's"
        )
    lost = [host.name for index, host in enumerate(hosts) if index not in offsets]
    if lost:
        notes.append(
            f"the clocks of {len(lost)} hosts ({', '.join(lost[:3])}{', ...' if lost[3:] else ''})"
            " could not be aligned: they share no collective of all devices with the first; waits"
            " between hosts are not known"
        )
    return aligned, notes


def _shift(frame: pl.DataFrame, of: str, offsets: dict[int, int]) -> pl.DataFrame:
    """Subtract from the times of each row the clock offset of its device or host."""
    offset = pl.col(of).replace_strict(offsets, default=0, return_dtype=pl.Int64)
    times = [name for name in ("start_ps", "end_ps") if name in frame.columns]
    return frame.with_columns(pl.col(name) - offset for name in times)


def _uneven(
    runs: pl.DataFrame, names: list[str], step_program: int | None, matched_by: str
) -> list[str]:
    """Say so when devices saw a program run a different number of times."""
    counts = runs.group_by("program", "device").len()
    uneven = (
        counts.group_by("program")
        .agg(pl.col("len").min().alias("least"), pl.col("len").max().alias("most"))
        .filter(pl.col("least") != pl.col("most"))
        .sort("program")
    )
    notes = [
        f"{names[int(program)]} ran {least} times on some devices and {most} times on others: runs"
        f" are matched {matched_by if matched_by == LAST else f'by {matched_by}'}"
        for program, least, most in uneven.rows()
        if program == step_program
    ]
    others = len(uneven) - len(notes)
    if others:
        notes.append(f"{others} other program(s) ran more often on some devices than on others")
    return notes
