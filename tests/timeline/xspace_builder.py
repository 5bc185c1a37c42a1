"""XSpaces for tests, with the planes, lines and stats that XLA's profilers write.

Encoded by hand, so that a test decides on every byte: XLA writes fields in order of their number
and writes zeros of a oneof, and a test may want neither. What goes where is in
docs/formats/xplane.md; a kernel that CUPTI saw is one call:

    gpu = nvidia(0)
    step = ("jit_step", 7)
    kernel(gpu, "Stream #20(Compute)", "fusion_3", 5 * US, 2 * US, op="fusion.3", module=step)
    data = xspace(gpu, metadata({step: hlo_proto("jit_step", {"fusion.3": "fusion"})}))
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

_F32: Final = 11

NS: Final = 1_000
US: Final = 1_000_000
MS: Final = 1_000_000_000


class Ref(str):
    """A stat's text that lies among the plane's stat names, where the stat only points."""

    __slots__ = ()


class Unsigned(int):
    """An integer that is written as uint64, not as int64."""

    __slots__ = ()


Value = int | float | str | bytes
Module = tuple[str, int]
"""A module's name and its program id."""


_SHORT = [bytes([value]) for value in range(0x80)]


def varint(value: int) -> bytes:
    """A number as protobuf writes it; negative ones take ten bytes."""
    if 0 <= value < len(_SHORT):
        return _SHORT[value]
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def field_bytes(number: int, value: Value) -> bytes:
    """One field of a message."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, float):
        return varint(number << 3 | 1) + struct.pack("<d", value)
    raw = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(raw)) + raw


def message(*fields: tuple[int, Value]) -> bytes:
    """A message of these fields, in this order."""
    return b"".join(field_bytes(number, value) for number, value in fields)


@dataclass
class Line:
    """A line of a plane: a stream, a thread, or one kind of TPU record."""

    name: str
    timestamp_ns: int = 0
    id: int = 0
    events: list[bytes] = field(default_factory=list[bytes])

    def encode(self) -> bytes:
        head = message((1, self.id), (2, self.name), (3, self.timestamp_ns))
        return head + b"".join(field_bytes(4, event) for event in self.events)


class Plane:
    """A plane and its names; lines and names come into being when they are first used."""

    def __init__(self, name: str, **stats: Value) -> None:
        self.name = name
        self.lines: dict[str, Line] = {}
        self._events: dict[str, int] = {}
        self._described: dict[str, tuple[str, bytes]] = {}
        self._stat_names: dict[str, int] = {}
        self._stats = self.stats(stats)

    def line(self, name: str, timestamp_ns: int = 0) -> Line:
        """The line of that name."""
        new = Line(name, timestamp_ns, id=len(self.lines) + 1)
        return self.lines.setdefault(name, new)

    def add(
        self, line: str, name: str, start_ps: int, dur_ps: int, stats: Mapping[str, Value] = {}
    ) -> None:
        """An event; times count from the line's own start."""
        self.line(line).events.append(
            message((1, self.event_id(name)), (2, start_ps), (3, dur_ps))
            + self.stats(stats, number=4)
        )

    def describe(
        self, name: str, stats: Mapping[str, Value], display: str = "", id: int | None = None
    ) -> None:
        """What all events of that name share."""
        if id is not None:
            self._events[name] = id
        self.event_id(name)
        self._described[name] = (display, self.stats(stats, number=5))

    def event_id(self, name: str) -> int:
        """The id of an event's name."""
        return self._events.setdefault(name, len(self._events) + 1)

    def stat_id(self, name: str) -> int:
        """The id of a stat's name, or of a text that a stat points to."""
        return self._stat_names.setdefault(name, len(self._stat_names) + 1)

    def stats(self, stats: Mapping[str, Value], number: int = 6) -> bytes:
        """These stats, as field `number` of the message that carries them."""
        return b"".join(
            field_bytes(number, self._stat(name, value)) for name, value in stats.items()
        )

    def encode(self) -> bytes:
        names = (
            message((1, key), (2, message((1, key), (2, name)) + self._description(name)))
            for name, key in self._events.items()
        )
        stat_names = (
            message((1, key), (2, message((1, key), (2, name))))
            for name, key in self._stat_names.items()
        )
        return (
            message((2, self.name))
            + b"".join(field_bytes(3, line.encode()) for line in self.lines.values())
            + b"".join(field_bytes(4, entry) for entry in names)
            + b"".join(field_bytes(5, entry) for entry in stat_names)
            + self._stats
        )

    def _description(self, name: str) -> bytes:
        display, stats = self._described.get(name, ("", b""))
        return (field_bytes(4, display) if display else b"") + stats

    def _stat(self, name: str, value: Value) -> bytes:
        key = self.stat_id(name)
        if isinstance(value, Ref):
            return message((1, key), (7, self.stat_id(value)))
        number = {Unsigned: 3, int: 4, float: 2, str: 5, bytes: 6}[type(value)]
        return message((1, key), (number, value))


def xspace(
    *planes: Plane,
    errors: Iterable[str] = (),
    warnings: Iterable[str] = (),
    hostnames: Iterable[str] = ("host-0",),
) -> bytes:
    """A whole file."""
    texts = {2: errors, 3: warnings, 4: hostnames}
    return b"".join(field_bytes(1, plane.encode()) for plane in planes) + b"".join(
        field_bytes(number, text) for number, group in texts.items() for text in group
    )


def nvidia(ordinal: int, chip: str = "NVIDIA H100 80GB HBM3") -> Plane:
    """A GPU as CUPTI's collector describes it: an H100."""
    return Plane(
        f"/device:GPU:{ordinal}",
        device_vendor="Nvidia",
        gpu_device_name=chip,
        clock_rate=1_980_000,
        core_count=132,
        memory_bandwidth=Unsigned(3_352_320_000_000),
        memory_size=Unsigned(85_028_765_696),
        compute_cap_major=9,
        compute_cap_minor=0,
    )


def amd(ordinal: int) -> Plane:
    """A GPU as the ROCm collector describes it: an MI300X."""
    return Plane(
        f"/device:GPU:{ordinal}",
        device_vendor="AMD",
        clock_rate=2_100_000,
        core_count=304,
        memory_bandwidth=Unsigned(2_662_400_000_000),
        memory_size=Unsigned(206_141_652_992),
        compute_cap_major=9,
        compute_cap_minor=4,
    )


def kernel(
    gpu: Plane,
    stream: str,
    name: str,
    start_ps: int,
    dur_ps: int,
    *,
    op: str | None = None,
    module: Module | None = None,
    scope: str | None = None,
    stats: Mapping[str, Value] = {},
) -> None:
    """A kernel, with the annotations of the thunk that launched it when it had any."""
    annotated: dict[str, Value] = {}
    if op or module:
        annotated["tf_op"] = Ref("XlaModule:")
    if scope:
        annotated["name"] = Ref(scope)
    if op:
        annotated["hlo_op"] = Ref(op)
    if module:
        annotated |= {"hlo_module": Ref(module[0]), "program_id": module[1]}
    launch: dict[str, Value] = {
        "correlation_id": Unsigned(len(gpu.line(stream).events) + 1),
        "context_id": "$$1",
        **stats,
        "theoretical_occupancy_pct": 50.0,
        "occupancy_min_grid_size": 132,
        "kernel_details": Ref("regs:32 static_shared:0 dynamic_shared:0 grid:132,1,1 occ_pct:50"),
    }
    gpu.add(stream, name, start_ps, dur_ps, launch | annotated)


def memcpy(
    gpu: Plane, stream: str, kind: str, start_ps: int, dur_ps: int, size: int, **stats: Value
) -> None:
    """A copy; `kind` is H2D, D2H, D2D or P2P."""
    details = f"kind_src:device kind_dst:pinned size:{size} dest:0 async:1"
    launch = {"correlation_id": Unsigned(7), "context_id": "$$1", "memcpy_details": Ref(details)}
    gpu.add(stream, f"Memcpy{kind}", start_ps, dur_ps, launch | stats)


def tpu(ordinal: int, chip: str = "TPU v6 Lite") -> Plane:
    """A TensorCore's plane."""
    return Plane(
        f"/device:TPU:{ordinal}",
        device_type_string=chip,
        peak_teraflops_per_second=918.0,
        peak_hbm_bw_gigabytes_per_second=1638.0,
    )


def tpu_op(
    core: Plane,
    text: str,
    start_ps: int,
    dur_ps: int,
    *,
    line: str = "XLA Ops",
    stats: Mapping[str, Value] = {},
    **description: Value,
) -> None:
    """An op of a TPU: the event's name is its HLO text, and what is known lies with the name."""
    core.describe(text, description)
    core.add(line, text, start_ps, dur_ps, stats)


def host() -> Plane:
    """Host threads; the CPU backend's ops lie there, too."""
    return Plane("/host:CPU")


def cpu_op(
    threads: Plane,
    thread: str,
    op: str,
    start_ps: int,
    dur_ps: int,
    *,
    module: Module,
    run: int,
    device: int,
) -> None:
    """A thunk of the CPU backend, on the thread that ran it, and the mark of its end."""
    told: dict[str, Value] = {
        "hlo_op": Ref(op),
        "hlo_module": Ref(module[0]),
        "program_id": module[1],
        "run_id": run,
        "device_ordinal": device,
    }
    threads.add(thread, op, start_ps, dur_ps, told)
    threads.add(thread, f"end: {op}", start_ps + dur_ps, 100 * NS)


def step_marker(threads: Plane, thread: str, step: int, start_ps: int, dur_ps: int) -> None:
    """What `jax.profiler.StepTraceAnnotation("train", step_num=step)` leaves."""
    threads.add(thread, "train", start_ps, dur_ps, {"_r": 1, "step_num": step})


def metadata(programs: Mapping[Module, bytes], **versions: str) -> Plane:
    """The HLO of compiled modules, by name and program id."""
    plane = Plane("/host:metadata", **versions)
    for (name, program), proto in programs.items():
        plane.describe(f"{name}({program})", {"Hlo Proto": proto}, id=program)
    return plane


def task_environment(start_ns: int, stop_ns: int) -> Plane:
    """When the profile was taken, since 1970."""
    return Plane(
        "Task Environment",
        profile_start_time=Unsigned(start_ns),
        profile_stop_time=Unsigned(stop_ns),
    )


def hlo_proto(module: str, ops: Mapping[str, str], scopes: Mapping[str, str] = {}) -> bytes:
    """The HloProto of a scheduled module whose entry computation runs these ops, name to opcode.

    Each takes the one before it and gives 1024 floats; `scopes` holds op_names.
    """
    shape = message((2, _F32), (3, 1024), (5, b""))
    instructions = b"".join(
        field_bytes(
            2,
            message((1, name), (2, opcode), (3, shape), (7, message((2, scopes.get(name, "")))))
            + message((35, key), *(((36, key - 1),) if key > 1 else ())),
        )
        for key, (name, opcode) in enumerate(ops.items(), start=1)
    )
    entry = message((1, "main"), (5, 1), (6, len(ops))) + instructions
    order = b"".join(varint(key) for key in range(1, len(ops) + 1))
    schedule = message((1, message((1, 1), (2, message((1, order))))))
    return field_bytes(
        1, message((1, module), (2, "main"), (3, entry), (5, 1), (6, 1), (7, schedule))
    )
