"""A slot: a temporary directory and a worker, where compiles are done one after another.

The worker is reused: Python and JAX take longer to start than a small step to compile. It is
replaced when the next compile needs another environment, when its memory has grown, and after a
compile that affects later ones. If a reused worker crashes, the compile is tried again in a fresh
one.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from threading import Lock
from typing import Final, Self

from counterpoint.compile.interpreter import Interpreter, version_in
from counterpoint.compile.job import (
    LOG,
    MODULE,
    PROGRAM,
    CompileJob,
    CompileOutcome,
    read_outcome,
    write_job,
)
from counterpoint.compile.toolkit import write_toolkit
from counterpoint.compile.worker_process import Worker, WorkerEnded
from counterpoint.core.scratch import ScratchDirectory

_MOST_COMPILES: Final = 64
_MOST_KIB: Final = 3 << 20


@dataclass(frozen=True, slots=True)
class CompileAttempt:
    """The result of one attempt.

    Without an outcome the worker died: with this exit status, or by the timeout (None).
    """

    outcome: CompileOutcome | None
    status: int | None
    log: str
    module: bytes = b""


class SlotStopped(Exception):
    """Raised in the thread of a slot that was stopped: nobody waits for its compile."""


class WorkerSlot:
    """A place for compiles. Use it in one thread; only `stop` may be called from another.

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
        """Return the file of kernels that this XLA compiled here; None if they are not shared."""
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
        """Compile a program in a worker with these variables; `alone`: in a worker of its own."""
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
