"""Tables of all hosts side by side, with row numbers that count over all of them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from hashlib import sha256

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counterpoint.core.errors import InputError
from counterpoint.hlo import Program
from counterpoint.timeline.claim import claim_ops
from counterpoint.timeline.device import Device
from counterpoint.timeline.idle import without_idle_devices
from counterpoint.timeline.kinship import require_same_kind, told_already
from counterpoint.timeline.model import HOST_EVENTS, SPANS, TRANSFERS, ProgramEntry
from counterpoint.timeline.operations import describe_ops
from counterpoint.timeline.origin import Origin, on_clock_of, origin_of
from counterpoint.timeline.programs import identify, program_keys, program_order
from counterpoint.timeline.recording import EmbeddedProgram, Recording
from counterpoint.timeline.runs import NO_PROGRAM, NO_RUN, FoundRuns, find_runs
from counterpoint.timeline.shared_ops import SharedOps


@dataclass(slots=True)
class Gathered:
    """What was read of the hosts so far; `gather` adds one."""

    programs: list[ProgramEntry] = field(default_factory=list[ProgramEntry])
    devices: list[Device] = field(default_factory=list[Device])
    lines: list[str] = field(default_factory=list[str])
    names: dict[str, int] = field(default_factory=dict[str, int])
    ops: SharedOps = field(default_factory=SharedOps)
    spans: list[pl.DataFrame] = field(default_factory=list[pl.DataFrame])
    runs: list[pl.DataFrame] = field(default_factory=list[pl.DataFrame])
    markers: list[pl.DataFrame] = field(default_factory=list[pl.DataFrame])
    host_events: list[pl.DataFrame] = field(default_factory=list[pl.DataFrame])
    transfers: list[pl.DataFrame] = field(default_factory=list[pl.DataFrame])
    run_count: int = 0
    hosts: list[Origin] = field(default_factory=list[Origin])
    notes: list[str] = field(default_factory=list[str])
    hosts_of_program: dict[int, set[int]] = field(default_factory=dict[int, set[int]])
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

    def build(self, program: int, host: int) -> int:
        """The same for hosts that hold the same HLO of a program, or none of them any."""
        if program == NO_PROGRAM:
            return 0
        return id(self.programs[program].variants.get(host))

    def shared(self, program: EmbeddedProgram) -> EmbeddedProgram:
        """The first program met with the same HLO, so that ranks share one parsed Program."""
        return self._hlo.setdefault(sha256(program.load()).digest(), program)


def gather(gathered: Gathered, recording: Recording) -> None:
    """Add a host: find its runs, describe its ops, append its tables; a copy of one is not."""
    origin = origin_of(recording)
    require_same_kind(gathered.hosts, origin)
    if copied := told_already(gathered.hosts, origin):
        gathered.notes.append(copied)
        return
    host = len(gathered.hosts)
    gathered.hosts.append(origin)
    recording = on_clock_of(gathered.hosts[0], origin, without_idle_devices(recording))
    keys = program_order(recording)
    index_of = identify(gathered.programs, recording, keys, host, gathered.shared)
    for index in index_of.values():
        gathered.hosts_of_program.setdefault(index, set()).add(host)

    def programs(frame: pl.DataFrame) -> NDArray[np.int32]:
        found = [index_of.get(key or "", NO_PROGRAM) for key in program_keys(frame)]
        return np.array(found, np.int32)

    op_program = programs(recording.ops)
    found = find_runs(
        recording,
        op_program,
        programs(recording.executions),
        _entry_positions(gathered, recording, op_program, host),
    )
    claimed = claim_ops(recording.ops, op_program, recording.spans["op"].to_numpy(), found)
    owners = claimed.programs.tolist()
    row_of = gathered.ops.rows(
        claimed.ops,
        owners,
        lambda index: gathered.build(index, host),
        lambda: describe_ops(claimed.ops, owners, lambda index: gathered.hlo(index, host)),
    )
    _append_spans(gathered, recording, row_of[claimed.op_of_span], found)
    _append_markers(gathered, recording, host)
    _append_host(gathered, recording, host)
    _append_transfers(gathered, recording, host)
    gathered.notes += recording.notes
    gathered.devices += [replace(device, host=host) for device in recording.devices]
    gathered.lines += recording.lines
    gathered.run_count += len(found.runs)


def _append_spans(
    gathered: Gathered, recording: Recording, op_of_span: NDArray[np.uint32], found: FoundRuns
) -> None:
    run_of = pl.Series("run", found.run_of, pl.UInt32)
    first_device = len(gathered.devices)
    run = pl.when(run_of != NO_RUN).then(run_of + gathered.run_count)
    spans = recording.spans
    gathered.spans.append(
        spans.select(
            (pl.col("device") + first_device).cast(pl.UInt16),
            pl.col("line").cast(pl.UInt32) + len(gathered.lines),
            pl.Series("op", op_of_span, pl.UInt32),
            run.cast(pl.UInt32).alias("run"),
            "start_ps",
            "dur_ps",
        ).select(*SPANS)[_by_device_and_start(spans)]
    )
    gathered.runs.append(found.runs.with_columns(pl.col("device") + first_device))


def _by_device_and_start(spans: pl.DataFrame) -> pl.Series:
    """The order of a host's spans; hosts follow each other, so all are in order then.

    Lines come one after the other, each sorted: few runs to merge.
    """
    device, start = spans["device"].to_numpy(), spans["start_ps"].to_numpy()
    parts = [np.flatnonzero(device == one) for one in np.unique(device)]
    order = [part[np.argsort(start[part], kind="stable")] for part in parts]
    return pl.Series(np.concatenate([np.empty(0, np.int64), *order]), dtype=pl.UInt32)


def _append_markers(gathered: Gathered, recording: Recording, host: int) -> None:
    """Before the host's devices are counted: markers on a device know it by number."""
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
    """Before the host's devices and lines are counted."""
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
    """Where each op stands in its program's entry computation; -1 for elsewhere, or unknown."""
    if len(recording.executions) or recording.spans["run_key"].null_count() < len(recording.spans):
        return np.full(len(recording.ops), -1, np.int32)  # runs are told otherwise: spare parsing

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
