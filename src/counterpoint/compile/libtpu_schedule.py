"""The schedule that libtpu dumps before it makes machine code. Runs in the worker.

libtpu schedules a step in seconds; machine code takes it minutes, and no prediction reads it. What
it writes with the machine code is missing: its estimates of cycles, and the peak memory. A program
that does not fit into memory is refused before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event, Thread
from typing import Final

from counterpoint.compile.worker_process import CompileRefused, FailureKind
from counterpoint.core.wire import LENGTH, VARINT, Malformed, fields, varint

_SCHEDULE: Final = "*.after_optimizations_after_buffer_assignment.hlo.pb"
_MEMORY_REPORT: Final = "*.after_optimizations-memory-usage-report.pb"
_LOOK_S: Final = 0.1
_FIRST: Final = 1  # field of an HloProto: the module; of the report: one memory space
_SIZE, _SPACE = 1, 2  # fields of a memory space
_HBM: Final = 0


def dump_options(directory: Path) -> dict[str, str]:
    """Return the compile options with which libtpu writes its schedule there."""
    return {"xla_dump_to": str(directory), "xla_dump_hlo_as_proto": "True"}


def until_scheduled(directory: Path, compile_: Callable[[], object]) -> bytes:
    """Return the scheduled HloModuleProto as soon as it is whole.

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
    """Return what the buffers of the schedule take in HBM; None if libtpu does not report it."""
    for space in _messages(directory, _MEMORY_REPORT):
        numbers = {
            number: varint(space, start)[0]
            for number, wire, start, _ in fields(space, 0, len(space))
            if wire == VARINT
        }
        if numbers.get(_SPACE, 0) == _HBM:
            return numbers.get(_SIZE)
    return None


def _messages(directory: Path, pattern: str) -> Iterator[memoryview]:
    """Yield the messages in the first such file, if it is whole: libtpu may be writing it."""
    for path in sorted(directory.glob(pattern))[:1]:
        data = memoryview(path.read_bytes())
        try:
            found = [
                (start, end)
                for number, wire, start, end in fields(data, 0, len(data))
                if number == _FIRST and wire == LENGTH
            ]
        except Malformed:
            return
        yield from (data[start:end] for start, end in found)
