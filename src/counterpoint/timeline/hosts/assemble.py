"""Assembles one Timeline from the Recordings of one or more hosts.

Programs are matched by name and order (`programs`); the k-th run of one on a device corresponds to
its k-th run on every other. Clocks are aligned on collectives (`alignment`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import accumulate
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counterpoint.core import Basis, InputError
from counterpoint.core.printable import counted_noun, some
from counterpoint.core.threads import on_threads
from counterpoint.hlo.model.program import Program
from counterpoint.hlo.reader import program_hash
from counterpoint.timeline.dependents import ended_before_use
from counterpoint.timeline.hosts.alignment import Offset, find_offsets, shared_time, step_ends
from counterpoint.timeline.hosts.consistency import (
    absent_hosts,
    absent_ranks,
    copy_note,
    differing_chips,
    other_times,
    require_one_time,
    require_same_kind,
    suspect_copies,
    unrelated_hosts,
)
from counterpoint.timeline.hosts.counterparts import LAST, match_hosts
from counterpoint.timeline.model import (
    HOST_EVENTS,
    MEMORY,
    RUNS,
    SPANS,
    TRANSFERS,
    Device,
    EmbeddedProgram,
    Host,
    ProgramEntry,
    Timeline,
)
from counterpoint.timeline.ops import describe_ops, without_false_forward
from counterpoint.timeline.program_roles import ProgramRoles
from counterpoint.timeline.programs import (
    SharedOps,
    assign_programs,
    distinguish_programs,
    identify,
    program_keys,
    program_order,
)
from counterpoint.timeline.recording import (
    Recording,
    RecordingSummary,
    on_clock_of,
    summarize_recording,
    without_idle_devices,
    zero_of,
)
from counterpoint.timeline.runs import NO_PROGRAM, NO_RUN, RunsOfSpans, find_runs, number_runs
from counterpoint.timeline.steps import dominant, find_steps

_BLOCK: Final = 1 << 16
"""Spans that are put in order at a time."""


@dataclass(slots=True)
class Gathered:
    """Data of the hosts read so far; `gather` adds a host."""

    programs: list[ProgramEntry] = field(default_factory=list[ProgramEntry])
    devices: list[Device] = field(default_factory=list[Device])
    lines: list[str] = field(default_factory=list[str])
    names: dict[str, int] = field(default_factory=dict[str, int])
    ops: SharedOps = field(default_factory=SharedOps)
    spans: list[pl.DataFrame] = field(default_factory=list[pl.DataFrame])
    runs: list[pl.DataFrame] = field(default_factory=list[pl.DataFrame])
    markers: list[pl.DataFrame] = field(default_factory=list[pl.DataFrame])
    host_events: list[pl.DataFrame] = field(default_factory=list[pl.DataFrame])
    launches: list[pl.DataFrame] = field(default_factory=list[pl.DataFrame])
    transfers: list[pl.DataFrame] = field(default_factory=list[pl.DataFrame])
    memory: list[pl.DataFrame] = field(default_factory=list[pl.DataFrame])
    run_count: int = 0
    hosts: list[RecordingSummary] = field(default_factory=list[RecordingSummary])
    notes: list[str] = field(default_factory=list[str])
    hosts_of_program: dict[int, set[int]] = field(default_factory=dict[int, set[int]])
    damaged: dict[str, str] = field(default_factory=dict[str, str])
    _hlo: dict[bytes, EmbeddedProgram] = field(default_factory=dict[bytes, EmbeddedProgram])

    def hlo(self, program: int, host: int) -> Program | None:
        """Return a program as a host compiled it; an unreadable one is noted and left out."""
        entry = self.programs[program]
        if entry.name in self.damaged:
            return None
        try:
            return entry.hlo(host)
        except InputError as damage:
            self.damaged[entry.name] = f"the HLO of {entry.name} can't be read: {damage.what}"
            return None

    def build(self, program: int, host: int) -> int:
        """Return a number that is equal for hosts with the same HLO of a program, or with none."""
        if program == NO_PROGRAM:
            return 0
        return id(self.programs[program].variants.get(host))

    def shared(self, program: EmbeddedProgram) -> EmbeddedProgram:
        """Return the first program with the same HLO, so that ranks share one parsed Program."""
        stored = program.content_hash or sha256(program.load()).digest()
        known = self._hlo.get(stored)
        if known is None:
            known = self._hlo.setdefault(program_hash(program.load()), program)
            self._hlo[stored] = known
        return known


def gather(gathered: Gathered, recording: Recording, *, alone: bool = False) -> None:
    """Add a host: find its runs, describe its ops, append its tables.

    Copies of a host are skipped; `alone`: there is no other host.
    """
    summary = summarize_recording(recording, alone=alone)
    require_same_kind(gathered.hosts, summary)
    if copied := copy_note(gathered.hosts, summary):
        gathered.notes.append(copied)
        return
    host = len(gathered.hosts)
    gathered.hosts.append(summary)
    recording = on_clock_of(gathered.hosts[0], summary, without_idle_devices(recording))
    recording = distinguish_programs(recording)
    keys = program_order(recording)
    index_of = identify(gathered.programs, recording, keys, host, gathered.shared)
    for index in index_of.values():
        gathered.hosts_of_program.setdefault(index, set()).add(host)

    def programs(frame: pl.DataFrame) -> NDArray[np.int32]:
        indices = [index_of.get(key or "", NO_PROGRAM) for key in program_keys(frame)]
        return np.array(indices, np.int32)

    op_program = programs(recording.ops)
    runs = find_runs(
        recording,
        op_program,
        programs(recording.executions),
        _entry_positions(gathered, recording, op_program, host),
    )
    claimed = assign_programs(recording.ops, op_program, recording.spans["op"].to_numpy(), runs)
    owners = claimed.programs.tolist()
    rows_by_start = _rows_by_start(recording.spans)
    if all(device.kind == "cpu" for device in recording.devices):
        lasts = ended_before_use(
            recording.spans.with_columns(op=pl.Series(claimed.op_of_span)),
            runs.run_of,
            claimed.ops,
            owners,
            lambda index: gathered.hlo(index, host),
            list(rows_by_start.values()),
        )
        spans = recording.spans.with_columns(dur_ps=pl.Series(lasts))
        recording = replace(recording, spans=spans)
    row_of = gathered.ops.rows(
        claimed.ops,
        owners,
        lambda index: gathered.build(index, host),
        lambda new: describe_ops(claimed.ops, owners, lambda index: gathered.hlo(index, host), new),
    )
    _append_spans(gathered, recording, row_of, claimed.op_of_span, runs, rows_by_start)
    _append_markers(gathered, recording, host)
    _append_host(gathered, recording, host)
    _append_transfers(gathered, recording, host)
    gathered.launches.append(recording.launches.with_columns(host=pl.lit(host, pl.UInt32)))
    gathered.memory.append(
        recording.memory.with_columns(pl.col("device") + len(gathered.devices)).cast({**MEMORY})
    )
    gathered.notes += recording.notes
    gathered.devices += [replace(device, host=host) for device in recording.devices]
    gathered.lines += recording.lines
    gathered.run_count += len(runs.runs)


def _rows_by_start(spans: pl.DataFrame) -> dict[int, NDArray[np.int64]]:
    """Return the rows of each device's spans in the order of time.

    Lines follow each other, each already sorted, so the sort merges few sequences.
    """
    device, start = spans["device"].to_numpy(), spans["start_ps"].to_numpy()
    numbers: list[int] = spans["device"].unique().sort().to_list()

    def sort(number: int) -> NDArray[np.int64]:
        rows = np.flatnonzero(device == number)
        return rows[np.argsort(start[rows], kind="stable")]

    return dict(zip(numbers, on_threads(sort, numbers), strict=True))


def _append_spans(
    gathered: Gathered,
    recording: Recording,
    row_of: NDArray[np.uint32],
    op_of_span: NDArray[np.uint32],
    runs: RunsOfSpans,
    rows_by_start: Mapping[int, NDArray[np.int64]],
) -> None:
    """Append a host's spans by device and start; hosts follow each other."""
    first_device = len(gathered.devices)
    given: dict[str, NDArray[Any]] = {
        name: recording.spans[name].to_numpy() for name in SPANS if name != "run"
    }
    given |= {"op": op_of_span, "run": runs.run_of}
    ordered = {name: np.empty_like(column) for name, column in given.items()}

    def put(rows: NDArray[np.int64], first: int) -> None:
        for at in range(0, len(rows), _BLOCK):
            block = rows[at : at + _BLOCK]
            own = slice(first + at, first + at + len(block))
            for name, column in given.items():
                np.take(column, block, out=ordered[name][own], mode="clip")
            ordered["op"][own] = row_of[ordered["op"][own]]

    every = list(rows_by_start.values())
    firsts = accumulate(map(len, every), initial=0)
    on_threads(lambda part: put(*part), zip(every, firsts, strict=False))  # one more: the end
    ordered["device"] += np.uint16(first_device)
    ordered["line"] += np.uint32(len(gathered.lines))
    gathered.spans.append(_span_table(ordered, gathered.run_count))
    gathered.runs.append(runs.runs.with_columns(pl.col("device") + first_device))


def _span_table(columns: dict[str, NDArray[Any]], first_run: int) -> pl.DataFrame:
    """Return the columns as SPANS, with numbers of runs from `first_run` on."""
    outside = columns["run"] == NO_RUN
    columns["run"] += np.uint32(first_run)
    table = pl.DataFrame(columns).select(*SPANS)
    if not outside.any():
        return table
    return table.with_columns(run=pl.when(~pl.Series(outside)).then("run"))


def _append_markers(gathered: Gathered, recording: Recording, host: int) -> None:
    """Append markers; call before the host's devices are added, to number devices correctly."""
    gathered.markers.append(
        recording.markers.with_columns(
            pl.col("device") + len(gathered.devices), host=pl.lit(host, pl.UInt16)
        )
    )


def _append_host(gathered: Gathered, recording: Recording, host: int) -> None:
    renamed = [gathered.names.setdefault(n, len(gathered.names)) for n in recording.host_names]
    gathered.host_events.append(
        recording.host_events.select(
            pl.lit(host, pl.UInt16).alias("host"),
            pl.col("line").cast(pl.UInt32) + len(gathered.lines),
            pl.Series("name", renamed, pl.UInt32).gather(recording.host_events["name"]),
            "start_ps",
            "dur_ps",
        ).select(*HOST_EVENTS)
    )


def _append_transfers(gathered: Gathered, recording: Recording, host: int) -> None:
    """Append transfers; call before the host's devices and lines are added."""
    gathered.transfers.append(
        recording.transfers.with_columns(
            pl.col("device") + len(gathered.devices),
            pl.col("line").cast(pl.UInt32) + len(gathered.lines),
            host=pl.lit(host, pl.UInt16),
        )
        .select(*TRANSFERS)
        .cast({**TRANSFERS})
    )


def _entry_positions(
    gathered: Gathered, recording: Recording, programs: NDArray[np.int32], host: int
) -> NDArray[np.int32]:
    """Return each op's position in its program's entry computation; -1 if elsewhere or unknown."""
    if len(recording.executions) or recording.spans["run_key"].null_count() < len(recording.spans):
        return np.full(len(recording.ops), -1, np.int32)  # runs are known: skip parsing

    def tell(op: str | None, index: int) -> int:
        program = None if index == NO_PROGRAM else gathered.hlo(index, host)
        if program is None or op is None:
            return -1
        instruction = program.instruction(op)
        if instruction is None or instruction.computation != program.entry:
            return -1
        return instruction.index

    pairs = zip(recording.ops["op"], programs.tolist(), strict=True)
    return np.array([tell(op, index) for op, index in pairs], np.int32)


@dataclass(frozen=True, slots=True, eq=False)
class _Tables:
    """Tables of all hosts, on one clock as far as it is known."""

    ops: pl.DataFrame
    spans: pl.DataFrame
    runs: pl.DataFrame
    markers: pl.DataFrame
    host_events: pl.DataFrame
    transfers: pl.DataFrame
    memory: pl.DataFrame


def assemble(
    recordings: Iterable[Recording], inputs: Sequence[str], notes: Sequence[str] = ()
) -> Timeline:
    """Build the Timeline; `recordings` yields one per host, and none is kept."""
    gathered = Gathered()
    for recording in recordings:
        gather(gathered, recording)
    return finish(gathered, inputs, notes)


def finish(gathered: Gathered, inputs: Sequence[str], notes: Sequence[str]) -> Timeline:
    """Build the Timeline from the data of all hosts."""
    require_one_time(gathered.hosts)
    tables = _concatenate(gathered)
    hosts = _hosts(gathered.hosts)
    messages = [
        *suspect_copies(gathered.hosts),
        *unrelated_hosts(
            gathered.hosts,
            gathered.devices,
            tables.runs,
            gathered.hosts_of_program,
            gathered.ops.unlike,
        ),
        *notes,
        *gathered.damaged.values(),
        *gathered.notes,
    ]
    basis = gathered.hosts[0].basis if gathered.hosts else Basis.MEASURED
    matched_by = LAST
    if len(hosts) > 1:
        tables, matched_by = _matched(tables, gathered)
        tables, hosts, offsets = _on_one_clock(tables, hosts, gathered)
        messages += offsets
    names = [entry.name for entry in gathered.programs]
    host_of_device = [device.host for device in gathered.devices]
    messages += _host_notes(gathered, dominant(tables.runs))
    numbered = find_steps(
        tables.runs,
        names,
        tables.markers,
        tables.spans,
        host_of_device,
        predicted=basis is Basis.PREDICTED,
        roles=ProgramRoles(tables.ops, lambda program: _any_hlo(gathered, program)),
    )
    if not len(tables.runs):
        numbered = replace(numbered, steps=_in_common(numbered.steps, tables, host_of_device))
    messages += _uneven(tables.runs, names, numbered.program, matched_by)
    return Timeline(
        basis=basis,
        inputs=tuple(inputs),
        hosts=tuple(hosts),
        devices=tuple(gathered.devices),
        lines=tuple(gathered.lines),
        programs=tuple(gathered.programs),
        ops=without_false_forward(tables.ops),
        spans=tables.spans,
        runs=tables.runs.with_columns(step=numbered.step_of_run).select(*RUNS).cast({**RUNS}),
        steps=numbered.steps,
        step_rule=numbered.rule,
        step_program=numbered.program,
        host_events=tables.host_events,
        transfers=tables.transfers.sort("host", "start_ps"),
        memory=tables.memory.sort("device", "start_ps", maintain_order=True),
        host_names=tuple(gathered.names),
        environment=gathered.hosts[0].environment if gathered.hosts else {},
        notes=tuple(dict.fromkeys([*messages, *numbered.notes])),
        truncated=any(host.truncated for host in gathered.hosts),
        target=gathered.hosts[0].target if gathered.hosts else None,
        predicted_range=gathered.hosts[0].predicted_range if gathered.hosts else None,
    )


def _in_common(steps: pl.DataFrame, tables: _Tables, hosts: list[int]) -> pl.DataFrame:
    """Return the only step of each device, a whole profile, cut to what all hosts share."""
    shared = shared_time(tables.spans, tables.ops, hosts) if steps["step"].n_unique() == 1 else None
    if shared is None:
        return steps
    return steps.drop("start_ps", "end_ps").join(shared, on="device").select(steps.columns)


def _any_hlo(gathered: Gathered, program: int) -> Program | None:
    return gathered.hlo(program, min(gathered.programs[program].variants, default=0))


def _host_notes(gathered: Gathered, program: int | None) -> list[str]:
    """Return notes on missing and differing hosts; a prediction has one device for all."""
    if any(host.basis is Basis.PREDICTED for host in gathered.hosts):
        return []
    names = [host.host for host in gathered.hosts]
    hlo = None if program is None else gathered.hlo(program, 0)
    planes = [len(host.devices) for host in gathered.hosts]
    notes = [
        *absent_hosts(hlo, gathered.devices, planes, names),
        *absent_ranks([host.rank for host in gathered.hosts]),
        *differing_chips(gathered.devices),
    ]
    return notes + other_times([(host.source, host.interval_ns) for host in gathered.hosts])


def _hosts(summaries: Sequence[RecordingSummary]) -> list[Host]:
    """Return hosts by name; several processes of one machine are distinguished by number."""
    shared = Counter(summary.host for summary in summaries)
    met: Counter[str] = Counter()
    hosts: list[Host] = []
    for summary in summaries:
        name = f"{summary.host} #{met[summary.host]}" if shared[summary.host] > 1 else summary.host
        met[summary.host] += 1
        zero = zero_of(summaries[0], summary)
        told = summary.tells_host
        hosts.append(Host(name=name, source=summary.source, zero_ns=zero, is_recorded=told))
    return hosts


def _concatenate(gathered: Gathered) -> _Tables:
    hosts = [device.host for device in gathered.devices]
    tables = _Tables(
        ops=gathered.ops.frame(),
        spans=pl.concat(gathered.spans),
        runs=_with_launches(number_runs(pl.concat(gathered.runs), hosts), gathered, hosts),
        markers=pl.concat(gathered.markers),
        host_events=pl.concat(gathered.host_events),
        transfers=pl.concat(gathered.transfers),
        memory=pl.concat(gathered.memory),
    )
    gathered.spans.clear()
    return tables


def _with_launches(
    runs: pl.DataFrame, gathered: Gathered, host_of_device: Sequence[int]
) -> pl.DataFrame:
    """Return the runs with the column `launched_ps`: the end of the call with their run id.

    A call launches one module, and begins before its runs. Where these do not agree, the ids count
    something else.
    """
    launches = pl.concat(gathered.launches)
    if launches.is_empty():
        return runs.with_columns(launched_ps=pl.lit(None, pl.Int64))
    calls = launches.unique(["host", "run_key", "module"], keep="none").select(
        "host",
        "module",
        key="run_key",
        call_ps="start_ps",
        launched_ps=pl.col("start_ps") + pl.col("dur_ps"),
    )
    names = {index: entry.name for index, entry in enumerate(gathered.programs)}
    launched = pl.when(pl.col("call_ps") <= pl.col("start_ps")).then("launched_ps")
    return (
        runs.with_columns(
            host=pl.col("device").replace_strict(
                dict(enumerate(host_of_device)), default=None, return_dtype=pl.UInt32
            ),
            module=pl.col("program").replace_strict(names, default=None, return_dtype=pl.String),
        )
        .join(calls, on=["host", "module", "key"], how="left", maintain_order="left")
        .select(*runs.columns, launched_ps=launched)
    )


def _matched(tables: _Tables, gathered: Gathered) -> tuple[_Tables, str]:
    """Give corresponding runs of the step's program one number, and return how they matched."""
    program = dominant(tables.runs)
    if program is None:
        return tables, LAST
    hosts = [device.host for device in gathered.devices]
    runs, matched_by = match_hosts(
        tables.runs,
        program,
        tables.markers,
        step_ends(tables.spans, tables.ops, tables.runs, hosts, program),
        hosts,
        clocks_agree=all(host.zero_ns is not None for host in gathered.hosts),
    )
    return replace(tables, runs=runs), matched_by


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
        memory=_shift(tables.memory, "device", by_device),
    )
    return shifted, hosts, notes


def _with_offsets(hosts: list[Host], offsets: dict[int, Offset]) -> tuple[list[Host], list[str]]:
    aligned = [
        replace(
            host,
            clock_offset_ps=aligned_by.ps,
            clock_spread_ps=aligned_by.spread_ps,
            zero_ns=None if host.zero_ns is None else host.zero_ns + (aligned_by.ps or 0) // 1000,
        )
        if (aligned_by := offsets.get(index))
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
            f"clocks are aligned on the ends of at least {least:,} shared collectives, which"
            f" deviate by at most {stray:,.1f} us; before, they differed from the first host's by"
            f" {' to '.join(dict.fromkeys(f'{ms:+,.3f}' for ms in (off[0], off[-1])))} ms"
        )
    lost = [host.name for index, host in enumerate(hosts) if index not in offsets]
    if lost:
        notes.append(
            f"the clocks of {some(lost, 3)} could not be aligned: they share no collective of all"
            " devices with the first; waits between hosts are unknown"
        )
    return aligned, notes


def _shift(frame: pl.DataFrame, of: str, offsets: dict[int, int]) -> pl.DataFrame:
    """Subtract from the times of each row the clock offset of its device or host."""
    offset = pl.col(of).replace_strict(offsets, default=0, return_dtype=pl.Int64)
    times = [name for name in ("start_ps", "end_ps", "launched_ps") if name in frame.columns]
    return frame.with_columns(pl.col(name) - offset for name in times)


def _uneven(
    runs: pl.DataFrame, names: list[str], step_program: int | None, matched_by: str
) -> list[str]:
    """Return a note if devices ran a program different numbers of times."""
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
        more = counted_noun(others, "other program")
        notes.append(f"{more} ran more often on some devices than on others")
    return notes
