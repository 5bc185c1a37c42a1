"""The schedule that libtpu dumps before it makes machine code. Runs in the worker.

libtpu schedules a step in seconds; machine code takes it minutes, and no prediction reads it. A
compile that stops at the schedule lacks what libtpu writes with the machine code: its estimates of
cycles, and the peak memory. libtpu still refuses a program that does not fit into memory.

Its scheduler's own dump has the names by which it looks up a profile, and the time that it gave
each instruction; later passes rename and fuse instructions. `scheduler_module` makes a scheduled
module of the dump, which any reader of HLO takes; `scheduler_clock` reads the times back.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import Final

from counterpoint.compile.job import CompileRefused, FailureKind
from counterpoint.core.wire import (
    FIXED64,
    LENGTH,
    VARINT,
    Malformed,
    fields,
    message_field,
    varint,
    varint_field,
)

_SCHEDULE: Final = "*.after_optimizations_after_buffer_assignment.hlo.pb"
_PLANNED: Final = "*.after_optimizations.hlo.pb"
_MEMORY_REPORT: Final = "*.after_optimizations-memory-usage-report.pb"
_LOOK_S: Final = 0.1
_SCHEDULER: Final = "*.schedule.pb"
_FIRST: Final = 1  # field of an HloProto: the module; of the report: one memory space
_ASSIGNMENT: Final = 3  # field of an HloProto
_SIZE, _SPACE = 1, 2  # fields of a memory space
_HBM: Final = 0
# Numbers of fields: of libtpu's ScheduleProto, of an instruction in it, of HloModuleProto, and of
# HloScheduleProto.
_COMPUTATION_SCHEDULE, _INSTRUCTION, _CLOCK = 2, 2, 4
_START, _END = 2, 3
_COMPUTATIONS, _MODULE_SCHEDULE, _COMPUTATION_INSTRUCTIONS, _NAME, _ID = 3, 7, 2, 1, 35
_SEQUENCE, _KEY, _VALUE, _IDS = 1, 1, 2, 1
_TIMES: Final = 900
"""A field that HloModuleProto does not have, so that readers of HLO skip it."""


def dump_options(directory: Path, *, scheduler: bool) -> dict[str, str]:
    """Return the compile options with which libtpu writes its schedule to the directory.

    With `scheduler` it also writes what its scheduler saw.
    """
    options = {"xla_dump_to": str(directory), "xla_dump_hlo_as_proto": "True"}
    return options | ({"xla_dump_latency_hiding_schedule": "True"} if scheduler else {})


def until_scheduled(directory: Path, compile_: Callable[[], object]) -> bytes:
    """Start the compile, and return the scheduled HloModuleProto as soon as it is whole.

    The compile goes on in a thread: the caller has to end the process.
    """
    ended = Event()
    errors: list[BaseException] = []

    def run() -> None:
        try:
            compile_()
        except BaseException as error:  # noqa: BLE001  raised in the thread that waits
            errors.append(error)
        ended.set()

    Thread(target=run, daemon=True).start()
    while True:
        last = ended.wait(_LOOK_S)
        for module in _messages(directory, _SCHEDULE):
            return bytes(module)
        if last:
            missing = CompileRefused(FailureKind.COMPILER, "this libtpu dumps no schedule")
            raise errors[0] if errors else missing


def buffer_bytes(directory: Path) -> int | None:
    """Return the bytes of HBM that the schedule's buffers take; None if libtpu reports none."""
    for space in _messages(directory, _MEMORY_REPORT):
        if _number(space, _SPACE) == _HBM:
            return _number(space, _SIZE) or None
    return None


def planned_buffers(directory: Path) -> bytes | None:
    """Return the BufferAssignmentProto that libtpu dumped; None if it did not, or not yet whole."""
    for path in sorted(directory.glob(_PLANNED))[:1]:
        with suppress(Malformed):
            for part in _parts(memoryview(path.read_bytes()), _ASSIGNMENT):
                return bytes(part)
    return None


def _messages(directory: Path, pattern: str) -> Iterator[memoryview]:
    """Yield the messages in the first such file, if it is whole: libtpu may be writing it."""
    for path in sorted(directory.glob(pattern))[:1]:
        data = memoryview(path.read_bytes())
        try:
            messages = list(_parts(data, _FIRST))
        except Malformed:
            return
        yield from messages


def scheduler_module(directory: Path) -> bytes | None:
    """Return the module with the scheduler's names, order and times (in the field `_TIMES`).

    It is None if the scheduler did not run, as in a program without asynchronous collectives.
    """
    path = next(iter(sorted(directory.glob(_SCHEDULER))), None)
    if path is None:
        return None
    data = memoryview(path.read_bytes())
    module, times, sequences = b"", b"", b""
    for part in _parts(data, _FIRST):
        module = bytes(part)
    for part in _parts(data, _COMPUTATION_SCHEDULE):
        times += message_field(_TIMES, bytes(part))
        ids = b"".join(varint_field(_IDS, _number(one, 1)) for one in _parts(part, _INSTRUCTION))
        entry = varint_field(_KEY, _number(part, 1)) + message_field(_VALUE, ids)
        sequences += message_field(_SEQUENCE, entry)
    return module + message_field(_MODULE_SCHEDULE, sequences) + times


@dataclass(frozen=True, slots=True)
class SchedulerClock:
    """When each instruction starts and ends in its computation, by the scheduler's estimate."""

    us: dict[str, tuple[float, float]]
    mhz: int  # cycles per microsecond


def scheduler_clock(module: bytes) -> SchedulerClock:
    """Return the times in what `scheduler_module` made."""
    data = memoryview(module)
    names = {
        _number(instruction, _ID): bytes(next(_parts(instruction, _NAME))).decode()
        for computation in _parts(data, _COMPUTATIONS)
        for instruction in _parts(computation, _COMPUTATION_INSTRUCTIONS)
    }
    us: dict[str, tuple[float, float]] = {}
    mhz = 1
    for part in _parts(data, _TIMES):
        mhz = _number(part, _CLOCK)
        for one in _parts(part, _INSTRUCTION):
            start, end = (_double(one, field) / mhz for field in (_START, _END))
            us[names[_number(one, 1)]] = start, end
    return SchedulerClock(us, mhz)


def _parts(data: memoryview, wanted: int) -> Iterator[memoryview]:
    for number, wire, start, end in fields(data, 0, len(data)):
        if number == wanted and wire == LENGTH:
            yield data[start:end]


def _number(data: memoryview, wanted: int) -> int:
    for number, wire, start, _ in fields(data, 0, len(data)):
        if number == wanted and wire == VARINT:
            return varint(data, start)[0]
    return 0


def _double(data: memoryview, wanted: int) -> float:
    for number, wire, start, end in fields(data, 0, len(data)):
        if number == wanted and wire == FIXED64:
            value: float = struct.unpack("<d", data[start:end])[0]
            return value
    return 0.0
