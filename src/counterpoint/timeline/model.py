"""The Timeline: spans on lanes of devices over steps, measured or predicted.

Its consumers (metrics, findings, views) do not depend on its origin, except that every number
carries its `basis`. Its tables are narrow and joined by row numbers:

    spans ──op──► ops ──program──► programs
       └────run──► runs ──step──► steps

so an event of a profile with millions of them takes a few integers. `frame()` joins them into one
wide table for interactive use. Docs: docs/concepts/timeline.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import Final

import polars as pl

from counterpoint.core import Basis, Range, as_html, shorten_names
from counterpoint.hlo.model.program import Program
from counterpoint.hlo.reader import read_program

Schema = dict[str, type[pl.DataType]]


class Lane(StrEnum):
    """A group of spans that may overlap others. Control spans contain others and do no work."""

    COMPUTE = "compute"
    COLLECTIVE = "collective"
    COPY = "copy"
    CONTROL = "control"


SPANS: Final[Schema] = {
    "device": pl.UInt16,
    "line": pl.UInt32,
    "op": pl.UInt32,
    "run": pl.UInt32,  # null: in no run
    "start_ps": pl.Int64,
    "dur_ps": pl.Int64,
}

OPS: Final[Schema] = {
    "name": pl.String,  # as the profiler names it
    "op": pl.String,  # HLO instruction
    "program": pl.UInt16,
    "opcode": pl.String,
    "category": pl.String,
    "lane": pl.String,
    "async_window": pl.Boolean,
    "pair": pl.String,  # of an async op: the instruction that started it
    "collective": pl.String,  # kind
    "bytes": pl.Int64,  # of a collective, as nccl-tests counts them
    "group_size": pl.UInt32,
    "bus_factor": pl.Float64,  # bus bandwidth = algorithm bandwidth x this
    "scope": pl.String,
    "source": pl.String,
    "phase": pl.String,
    "flops": pl.Float64,
    "bytes_accessed": pl.Float64,
    "computation": pl.String,  # that holds the instruction in the schedule ...
    "position": pl.UInt32,  # ... and its index there
    "done_position": pl.UInt32,  # of the instruction that waits for this one
}

PRICED: Final[Schema] = {
    "priced_how": pl.String,  # in a few words: "Ring Simple, 2 x 8 ranks, 8 x 47 GB/s NICs"
    "priced_link": pl.String,  # the links that decide it: "NVLink 4", "NIC"
    "priced_bound": pl.String,  # latency or bandwidth
}
"""Additional columns of `ops` in a prediction: how the cost model priced collectives."""

RUNS: Final[Schema] = {
    "device": pl.UInt16,
    "program": pl.UInt16,
    "index": pl.UInt32,  # execution number of the program on the device
    "step": pl.Int32,  # null: in no step
    "start_ps": pl.Int64,
    "end_ps": pl.Int64,
    "launched_ps": pl.Int64,  # when the call that launched it had returned; null: not recorded
}

STEPS: Final[Schema] = {
    "step": pl.Int32,
    "device": pl.UInt16,
    "start_ps": pl.Int64,
    "end_ps": pl.Int64,
    "whole": pl.Boolean,  # its start and end were recorded; else it ends with its last run
    "steady": pl.Boolean,  # counts in the statistics; false for warm-up, and if not whole
}

HOST_EVENTS: Final[Schema] = {
    "host": pl.UInt16,
    "line": pl.UInt32,
    "name": pl.UInt32,  # index into Timeline.host_names
    "start_ps": pl.Int64,
    "dur_ps": pl.Int64,
}


TRANSFERS: Final[Schema] = {
    "host": pl.UInt16,
    "device": pl.UInt16,  # null: the host itself
    "line": pl.UInt32,
    "action": pl.String,  # of Action
    "name": pl.String,  # the collective or rendezvous it serves, or the runtime's name for it
    "start_ps": pl.Int64,
    "dur_ps": pl.Int64,
    "bytes": pl.Int64,
    "latency_ps": pl.Int64,  # of the transport alone, where the runtime records it
    "peer": pl.String,  # the other end, as the runtime names it
}
"""Transfers of a runtime between hosts or slices, separate from the ops that wait for them."""

MEMORY: Final[Schema] = {
    "device": pl.UInt16,
    "start_ps": pl.Int64,  # when the host's allocator changed it
    "used_bytes": pl.Int64,  # given out from then on
    "limit_bytes": pl.Int64,  # that may be given out; null if unknown
    "peak_bytes": pl.Int64,  # most that was given out since the program began; null if unknown
}
"""What a device's allocator has given out, after each allocation and release."""


class Action(StrEnum):
    """Kinds of transfers: the stages of Megascale's, and their causes of delay."""

    DEVICE_TO_HOST = "device-to-host"
    SEND = "network-send"
    RECEIVE = "network-receive"
    HOST_TO_DEVICE = "host-to-device"
    MEMORY_COPY = "memory-copy"
    MAP_BUFFER = "map-dma-buffer"


@dataclass(frozen=True, slots=True, eq=False)
class EmbeddedProgram:
    """A compiled module in the profile; `load` returns its HLO, proto or text.

    A `content_hash` spares loading modules that are stored alike: equal ones have equal HLO.
    `parsed` is what its bytes say, if that is known.
    """

    name: str
    load: Callable[[], bytes]
    fingerprint: str | None = None
    content_hash: bytes | None = None
    parsed: Program | None = None


@dataclass(frozen=True, slots=True, eq=False)
class ProgramEntry:
    """A compiled module that ran, with its HLO if the profile contains it.

    Hosts may hold different builds of one program, with different fingerprints; then each host has
    its own variant.
    """

    name: str
    fingerprints: tuple[str, ...] = ()
    variants: Mapping[int, EmbeddedProgram] = field(default_factory=dict[int, EmbeddedProgram])

    def hlo(self, host: int | None = None) -> Program | None:
        """Return the Program as one host compiled it; of any host if none is named."""
        if host is None:
            host = min(self.variants, default=-1)
        variant = self.variants.get(host)
        return None if variant is None else _parse(variant)


@lru_cache(maxsize=64)
def _parse(variant: EmbeddedProgram) -> Program:
    return variant.parsed or read_program(variant.load())


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenSteps:
    """The steps to which a Timeline was narrowed, and how many whole ones were recorded."""

    first: int
    last: int
    count: int
    recorded: int
    before: int  # recorded before the first


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Timeline:
    """The spans of one workload. Rows of `spans` are sorted by device and start.

    A prediction has a `target`, as `counterpoint.hardware` parses it, which its one device
    represents, and a `predicted_range` of the step time in seconds. `chosen` tells to which steps a
    Timeline was narrowed; None: it has all.
    """

    basis: Basis
    inputs: tuple[str, ...]
    hosts: tuple[Host, ...]
    devices: tuple[Device, ...]
    lines: tuple[str, ...]
    programs: tuple[ProgramEntry, ...]
    ops: pl.DataFrame
    spans: pl.DataFrame
    runs: pl.DataFrame
    steps: pl.DataFrame
    step_rule: str
    step_program: int | None
    host_events: pl.DataFrame
    host_names: tuple[str, ...]
    environment: Mapping[str, str]
    notes: tuple[str, ...]
    truncated: bool
    target: str | None = None
    predicted_range: Range | None = None
    chosen: ChosenSteps | None = None
    transfers: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=TRANSFERS))
    memory: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=MEMORY))

    def __repr__(self) -> str:
        counts = {"device": len(self.devices), "step": self.steps["step"].n_unique()}
        parts = [f"{count} {name}{'s' * (count != 1)}" for name, count in counts.items()]
        return (
            f"<Timeline of {shorten_names(self.inputs)}: {self.basis}, {len(self.spans):,} spans on"
            f" {', '.join(parts)}>"
        )

    def _repr_html_(self) -> str | None:
        return as_html(self)

    def frame(self) -> pl.LazyFrame:
        """Return one row per span with all its attributes; filter before collecting."""
        ops = self.ops.lazy().with_row_index("op_row").rename({"op": "hlo_op"})
        runs = self.runs.lazy().with_row_index("run").select("run", "step")
        return (
            self.spans.lazy()
            .with_row_index("span")
            .join(ops, left_on="op", right_on="op_row", how="left")
            .join(runs, on="run", how="left")
            .with_columns(
                host=pl.col("device").replace_strict(
                    {index: device.host for index, device in enumerate(self.devices)},
                    return_dtype=pl.UInt16,
                )
            )
            .drop("op")
            .rename({"hlo_op": "op"})
        )


_PROCESS: Final = re.compile(r"( \(process \d+\))?( #\d+)?$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One accelerator (or one virtual CPU device), as the profile describes it."""

    ordinal: int  # number on its host
    kind: str  # "gpu", "tpu", "cpu"
    host: int = 0
    chip: str | None = None
    peak_flops: float | None = None  # FLOP/s of the widest matrix type, if the profile has it
    peak_bytes: float | None = None  # bytes/s of device memory, if the profile has it


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """One machine (or one process) that wrote a profile.

    `clock_offset_ps` was subtracted from its times; None if there was nothing to align on.
    `clock_spread_ps` is the median deviation of single collectives from it: times of this host and
    the first host cannot be compared more precisely than that. `zero_ns` is what the host's own
    clock showed at time 0, in nanoseconds since 1970; None if its profile does not say.
    """

    name: str
    source: str
    clock_offset_ps: int | None = None
    clock_spread_ps: int | None = None
    zero_ns: int | None = None
    is_recorded: bool = True  # false: its name is the file's, and the machine is unknown

    @property
    def target(self) -> str | None:
        """The target in the name: earlier versions stored that of a prediction only there."""
        _, _, target = self.name.removeprefix("one device stands for ").partition(" of ")
        return target or None

    @property
    def machine(self) -> str:
        """The name without the number that distinguishes processes of one machine."""
        return _PROCESS.sub("", self.name)


def machines(hosts: Iterable[Host]) -> int | None:
    """Return on how many machines the profiles were recorded; None if some do not say where."""
    hosts = tuple(hosts)
    if not all(host.is_recorded for host in hosts):
        return None
    return len({host.machine for host in hosts})
