"""A slot: a temporary directory and a worker, where compiles are done one after another.

The worker is reused: Python and JAX take longer to start than a small step to compile. It is
replaced when the next compile needs another environment, when its memory has grown, and after a
compile that affects later ones. A crash is an error of the current compile, unless a fresh worker
succeeds with it.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from threading import Lock
from typing import Final, Self

from counterpoint.compile.interpreter import Interpreter, version_in
from counterpoint.compile.worker_process import (
    LOG,
    MODULE,
    PROGRAM,
    CompileJob,
    CompileOutcome,
    Worker,
    WorkerEnded,
    read_outcome,
    write_job,
)
from counterpoint.core import UsageError
from counterpoint.core.frozen import frozen
from counterpoint.core.scratch import ScratchDirectory
from counterpoint.core.threads import cores

_MOST_COMPILES: Final = 64
_MOST_KIB: Final = 3 << 20


@frozen
class CompileAttempt:
    """The result of one try.

    Without an outcome the worker died, with `status` or by the timeout.
    """

    outcome: CompileOutcome | None
    status: int | None
    log: str
    module: bytes = b""


class SlotStopped(Exception):
    """Raised if the slot was stopped: nothing waits for this compile."""


class WorkerSlot:
    """Use it in one thread; only `stop` may be called from another.

    Args:
        shares_kernels: Whether compiles use the machine code of earlier ones here. Programs that
            differ in few computations take a third of the time; a single one gains nothing.
    """

    def __init__(self, *, shares_kernels: bool = False) -> None:
        self._shares_kernels = shares_kernels
        self.directory = Path()
        self._scratch: ScratchDirectory | None = None
        self._numbers = count()
        self._lock = Lock()
        self._stopped = False
        self._worker: Worker | None = None
        self._variables: Mapping[str, str] = {}
        self._interpreter: Interpreter | None = None

    @property
    def toolkit(self) -> Path:
        """A stand-in for the CUDA toolkit."""
        return self.directory / "cuda"

    def kernels(self, interpreter: Interpreter | None) -> Path | None:
        """Return the file of kernels that one XLA compiled here; None if they are not shared."""
        if not self._shares_kernels:
            return None
        return self.directory / f"kernels-{version_in(interpreter, 'jaxlib')}"

    def __enter__(self) -> Self:
        self._scratch = ScratchDirectory("compile")
        self.directory = self._scratch.path
        try:
            write_toolkit(self.toolkit)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def attempt(
        self,
        job: CompileJob,
        program: bytes,
        variables: Mapping[str, str],
        timeout_s: float,
        *,
        alone: bool = False,
        interpreter: Interpreter | None = None,
    ) -> CompileAttempt:
        """Try a job with these variables; `alone` means in a worker of its own."""
        while True:
            if alone:
                self._end_worker()
            place = self._place(job, program)
            worker = self._ready(place, variables, interpreter)
            ended = worker.compile(place, timeout_s)
            if self._stopped:
                raise SlotStopped
            result = _read(place, ended)
            shutil.rmtree(place, ignore_errors=True)
            if ended or alone or _is_worn(worker, result.outcome):
                self._end_worker()
            # A reused worker may have died from effects of its earlier jobs.
            if result.outcome is not None or worker.served == 1 or result.status is None:
                return result

    def stop(self) -> None:
        """Make the thread that uses this slot stop. Any thread may call it."""
        with self._lock:
            self._stopped = True
            if self._worker is not None:
                self._worker.kill()

    def close(self) -> None:
        """End the worker and remove its files."""
        self._end_worker()
        if self._scratch is not None:
            self._scratch.close()

    def _place(self, job: CompileJob, program: bytes) -> Path:
        place = self.directory / f"job{next(self._numbers)}"
        place.mkdir()
        (place / PROGRAM).write_bytes(program)
        write_job(place, job)
        return place

    def _ready(
        self, place: Path, variables: Mapping[str, str], interpreter: Interpreter | None
    ) -> Worker:
        """Return a worker of this Python with these variables: the current one, or a new one."""
        same = self._variables == variables and self._interpreter == interpreter
        if self._worker is not None and same:
            return self._worker
        self._end_worker()
        with self._lock:
            if self._stopped:
                raise SlotStopped
            self._worker = Worker(place, variables, interpreter)
            self._variables, self._interpreter = dict(variables), interpreter
            return self._worker

    def _end_worker(self) -> None:
        with self._lock:
            if self._worker is not None:
                self._worker.end()
            self._worker = None


def _is_worn(worker: Worker, outcome: CompileOutcome | None) -> bool:
    grown = outcome is not None and outcome.resident_kib > _MOST_KIB
    return grown or worker.served >= _MOST_COMPILES


def _read(place: Path, ended: WorkerEnded | None) -> CompileAttempt:
    try:
        log = (place / LOG).read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:  # the worker died before it received the job
        log = ""
    outcome = None if ended else read_outcome(place)
    module = b""
    if outcome is not None and outcome.failure is None:
        module = (place / MODULE).read_bytes()
    return CompileAttempt(outcome, ended.status if ended else None, log, module)


_ONE_COMPILE: Final = 1.5 * 2**30
"""Bytes. The largest of 23 programs of 8 to 2,048 devices took 1.2 GB."""

_FREE: Final = re.compile(r"MemAvailable:\s+(\d+) kB")
_GROUP: Final = Path("/sys/fs/cgroup")
_LIMITS: Final = (
    ("memory.max", "memory.current"),  # cgroups 2, 1
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
)


_ONE_FOR_TPUS: Final = 3.0 * 2**30
"""Bytes. A 16B took 1.5 GB, Llama-3.1-8B with offloading and windowed einsums 2.9 GB."""


def usual_jobs(*, tpus: bool = False) -> int:
    """Return the number of concurrent compiles; at least 1."""
    memory = min(_free_memory(), _free_in_group())
    each = _ONE_FOR_TPUS if tpus else _ONE_COMPILE
    return max(1, min(cores(), int(memory / each)))


def _free_memory() -> float:
    try:
        found = _FREE.search(Path("/proc/meminfo").read_text())
    except OSError:
        found = None
    return 1024.0 * int(found[1]) if found else float("inf")


def _free_in_group() -> float:
    """Return the control group's free memory; batch systems and containers limit it further."""
    for limit, used in _LIMITS:
        try:
            return float((_GROUP / limit).read_text()) - float((_GROUP / used).read_text())
        except (OSError, ValueError):  # missing, or "max"
            continue
    return float("inf")


_ASSEMBLER: Final = """\
#!/bin/sh
[ "$1" = --version ] && echo 'Cuda compilation tools, release 13.0, V13.0.88' && exit
while [ $# -gt 0 ]; do
  case $1 in -o) printf x >"$2"; exit ;; esac
  shift
done
"""

# LLVM bitcode of an empty module: the magic, and a module block (8) with the one record that a
# reader requires, its version (1).
_EMPTY_BITCODE: Final = bytes.fromhex("4243c0de 210c0000 01000000 0b820000")


def write_toolkit(directory: Path) -> Path:
    """Write the stand-in toolkit, for `xla_gpu_cuda_data_dir`."""
    tools = directory / "bin"
    tools.mkdir(parents=True)
    for name in ("ptxas", "nvlink"):
        tool = tools / name
        tool.write_text(_ASSEMBLER)
        tool.chmod(0o755)
        if not os.access(tool, os.X_OK):  # then XLA would look for a real toolkit, and mix the two
            raise UsageError(
                f"programs cannot be executed in {directory}",
                why="its file system is mounted with noexec, and XLA calls an assembler",
                next="TMPDIR=/a/directory/where/programs/run counterpoint ...",
            )
    device = directory / "nvvm" / "libdevice"
    device.mkdir(parents=True)
    (device / "libdevice.10.bc").write_bytes(_EMPTY_BITCODE)
    return directory
