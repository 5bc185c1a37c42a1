"""One Timeline from the Recordings of one or more hosts.

A program is the same on two hosts when it has the same name and came as the same-numbered program
of that name; fingerprints differ between ranks and file ids between processes. Its k-th run on one
device belongs with the k-th run on every other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counterpoint.core.basis import Basis
from counterpoint.core.errors import InputError
from counterpoint.program import Program
from counterpoint.timeline.align import Offset, find_offsets
from counterpoint.timeline.claim import claim_ops
from counterpoint.timeline.device import Device, Host
from counterpoint.timeline.model import HOST_EVENTS, OPS, RUNS, SPANS, ProgramEntry, Timeline
from counterpoint.timeline.operations import describe_ops
from counterpoint.timeline.recording import EmbeddedProgram, Recording
from counterpoint.timeline.runs import NO_PROGRAM, NO_RUN, find_runs
from counterpoint.timeline.steps import find_steps


@dataclass(slots=True)
class _Gathered:
    """Tables of all hosts, with row numbers that count over all of them."""

    programs: list[ProgramEntry] = field(default_factory=list[ProgramEntry])
    devices: list[Device] = field(default_factory=list[Device])
    lines: list[str] = field(default_factory=list[str])
    names: dict[str, int] = field(default_factory=dict[str, int])
    ops: list[pl.DataFrame] = field(default_factory=list[pl.DataFrame])
    spans: list[pl.DataFrame] = field(default_factory=list[pl.DataFrame])
    runs: list[pl.DataFrame] = field(default_factory=list[pl.DataFrame])
    markers: list[pl.DataFrame] = field(default_factory=list[pl.DataFrame])
    host_events: list[pl.DataFrame] = field(default_factory=list[pl.DataFrame])
    op_count: int = 0
    run_count: int = 0
    damaged: dict[str, str] = field(default_factory=dict[str, str])
    _hlo: dict[bytes, EmbeddedProgram] = field(default_factory=dict[bytes, EmbeddedProgram])

    def hlo(self, program: int, host: int) -> Program | None:
        """A program as a host compiled it; one that can't be read is noted and left out."""
        entry = self.programs[program]
        if entry.name in self.damaged:
            return None
        try:
            return entry.hlo(host)
        except InputError as damage:
            self.damaged[entry.name] = f"the HLO of {entry.name} can't be read: {damage.what}"
            return None

    def shared(self, program: EmbeddedProgram) -> EmbeddedProgram:
        """The first program met with the same HLO, so that ranks share one parsed Program."""
        return self._hlo.setdefault(sha256(program.load()).digest(), program)


def assemble(
    recordings: Sequence[Recording], inputs: Sequence[str], notes: Sequence[str] = ()
) -> Timeline:
    """Make the Timeline; `recordings` has one entry per host."""
    gathered = _Gathered()
    for host, recording in enumerate(recordings):
        _add(gathered, recording, host)
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
        *(note for recording in recordings for note in recording.notes),
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


def _add(gathered: _Gathered, recording: Recording, host: int) -> None:
    keys = _program_order(recording)
    index_of = _identify(gathered, recording, keys, host)

    def programs(frame: pl.DataFrame) -> NDArray[np.int32]:
        found = [index_of.get(key or "", NO_PROGRAM) for key in _keys(frame)]
        return np.array(found, np.int32)

    op_program = programs(recording.ops)
    found = find_runs(
        recording,
        op_program,
        programs(recording.executions),
        _in_entry(gathered, recording, op_program, host),
    )
    claimed = claim_ops(recording.ops, op_program, recording.spans["op"].to_numpy(), found)
    ops = describe_ops(
        claimed.ops,
        claimed.programs.tolist(),
        lambda index: gathered.hlo(index, host),
    )
    run_of = pl.Series("run", found.run_of, pl.UInt32)
    first_device, first_line = len(gathered.devices), len(gathered.lines)
    run = pl.when(run_of != NO_RUN).then(run_of + gathered.run_count)
    gathered.spans.append(
        recording.spans.select(
            (pl.col("device") + first_device).cast(pl.UInt16),
            pl.col("line").cast(pl.UInt32) + first_line,
            pl.Series("op", claimed.op_of_span, pl.UInt32) + gathered.op_count,
            run.cast(pl.UInt32).alias("run"),
            "start_ps",
            "dur_ps",
        ).select(*SPANS)
    )
    gathered.runs.append(found.runs.with_columns(pl.col("device") + first_device))
    gathered.markers.append(recording.markers.with_columns(pl.col("device") + first_device))
    renamed = [gathered.names.setdefault(n, len(gathered.names)) for n in recording.host_names]
    gathered.host_events.append(
        recording.host_events.select(
            pl.lit(host, pl.UInt16).alias("host"),
            pl.col("line").cast(pl.UInt32) + first_line,
            pl.Series("name", renamed, pl.UInt32).gather(recording.host_events["name"]),
            "start_ps",
            "dur_ps",
        ).select(*HOST_EVENTS)
    )
    gathered.devices += [replace(device, host=host) for device in recording.devices]
    gathered.lines += recording.lines
    gathered.ops.append(ops.select(*OPS))
    gathered.op_count += len(ops)
    gathered.run_count += len(found.runs)


def _keys(frame: pl.DataFrame) -> list[str | None]:
    """What a host calls each row's program: its key, or its name where it has no key."""
    return frame.select(pl.coalesce("program_key", "module")).to_series().to_list()


def _in_entry(
    gathered: _Gathered, recording: Recording, programs: NDArray[np.int32], host: int
) -> NDArray[np.bool_]:
    """Which ops lie in their program's entry computation, as far as the HLO is there."""
    if len(recording.executions) or recording.spans["run_key"].null_count() < len(recording.spans):
        return np.zeros(len(recording.ops), bool)  # runs are told otherwise: spare the parsing

    def tell(op: str | None, index: int) -> bool:
        program = None if index == NO_PROGRAM else gathered.hlo(index, host)
        instruction = program.instruction(op) if program is not None and op is not None else None
        return instruction is not None and instruction.computation == program.entry

    pairs = zip(recording.ops["op"], programs.tolist(), strict=True)
    return np.array([tell(op, index) for op, index in pairs], bool)


def _program_order(recording: Recording) -> dict[str, str]:
    """Programs of a host in the order in which they first ran, with their names."""
    first = recording.spans.group_by("op").agg(pl.col("start_ps").min()).sort("start_ps")
    keys, modules = _keys(recording.ops), recording.ops["module"].to_list()
    order: dict[str, str] = {}
    executions = recording.executions.sort("start_ps")
    seen = [*zip(_keys(executions), executions["module"].to_list(), strict=True)]
    seen += [(keys[op], modules[op]) for op in first["op"].to_list()]
    for key, module in seen:
        if key is not None and order.get(key) in (None, key):
            embedded = recording.programs.get(key)
            order[key] = module or (embedded.name if embedded else key)
    return order


def _identify(
    gathered: _Gathered, recording: Recording, keys: dict[str, str], host: int
) -> dict[str, int]:
    """The index of each of a host's programs, adding those not met on an earlier host."""
    index_of: dict[str, int] = {}
    taken: set[int] = set()
    for key, name in keys.items():
        index = next(
            (
                i
                for i, entry in enumerate(gathered.programs)
                if entry.name == name and i not in taken
            ),
            len(gathered.programs),
        )
        if index == len(gathered.programs):
            gathered.programs.append(ProgramEntry(name))
        taken.add(index)
        index_of[key] = index
        embedded = recording.programs.get(key) or recording.programs.get(name)
        if embedded is not None:
            embedded = gathered.shared(embedded)
        gathered.programs[index] = _with_variant(gathered.programs[index], key, embedded, host)
    return index_of


def _with_variant(
    entry: ProgramEntry, key: str, embedded: EmbeddedProgram | None, host: int
) -> ProgramEntry:
    fingerprint = embedded.fingerprint if embedded is not None else None
    variants = {**entry.variants, host: embedded} if embedded is not None else entry.variants
    known = (*entry.fingerprints, fingerprint or key)
    return replace(entry, variants=variants, fingerprints=tuple(dict.fromkeys(known)))


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


def _uneven(runs: pl.DataFrame, gathered: _Gathered, hosts: list[Host]) -> list[str]:
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
