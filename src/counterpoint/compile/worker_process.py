"""The parent's side of a worker: its process group, timeouts, a clean environment.

A worker compiles one job after another, each in its own directory. It receives a job as a line on
its stdin and answers with a line; if it dies, its output ends.

A job is a directory, because a worker may die at any moment:

    JOB/job.json      what to compile, and how
    JOB/program       the module, as it was given
    JOB/log           output of the compiler
    JOB/outcome.json  the Outcome, written last
    JOB/module.hlo.pb the scheduled module

This module and what it imports use only the standard library, since a worker reads and writes jobs
before JAX is imported.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from counterpoint.compile.interpreter import Interpreter, environment_of, python_of
from counterpoint.core.frozen import frozen

JOB: Final = "job.json"
PROGRAM: Final = "program"
LOG: Final = "log"
OUTCOME: Final = "outcome.json"
MODULE: Final = "module.hlo.pb"


class ProgramForm(StrEnum):
    """The form in which a program is stored."""

    MLIR = "mlir"  # StableHLO with shardings, text or bytecode
    HLO_PROTO = "hlo proto"
    HLO_TEXT = "hlo text"


class FailureKind(StrEnum):
    """The reason why a worker could not compile."""

    NO_JAX = "no jax"
    NO_PLUGIN = "no plugin"
    NO_LIBTPU = "no libtpu"
    NO_OPTION = "no option"
    BAD_VALUE = "bad value"
    UNREADABLE = "unreadable program"
    DEVICES = "devices"
    TARGET = "target"
    COMPILER = "compiler"


@frozen(kw_only=True)
class CompileJob:
    """One compile for a worker."""

    form: ProgramForm
    config: str
    hosts: int
    gpus_per_host: int
    options: dict[str, str]
    # For an HLO proto, which has them where a reader of StableHLO does not look.
    replicas: int | None = None
    partitions: int | None = None
    device_memory: int | None = None  # bytes to plan with; None: XLA's own assumption
    topology: str = ""  # of TPUs, as libtpu names it; then `config` and hosts do not count
    schedule_only: bool = False  # libtpu is stopped when it has scheduled: no machine code
    scheduler_view: bool = False  # the module as libtpu's scheduler saw it
    topology_options: dict[str, Any] = field(default_factory=dict[str, Any])


@frozen(kw_only=True)
class CompileOutcome:
    """The result: either a module lies beside it, or `failure` says what happened."""

    failure: FailureKind | None = None
    detail: str = ""
    option: str | None = None
    seconds: float = 0.0
    devices: int = 0
    memory: dict[str, int] = field(default_factory=dict[str, int])
    versions: dict[str, str] = field(default_factory=dict[str, str])
    notes: list[str] = field(default_factory=list[str])
    resident_kib: int = 0  # the worker's peak memory so far


def write_job(directory: Path, job: CompileJob) -> None:
    (directory / JOB).write_text(json.dumps(asdict(job)), encoding="utf-8")


def read_job(directory: Path) -> CompileJob:
    fields: dict[str, Any] = json.loads((directory / JOB).read_text(encoding="utf-8"))
    form = ProgramForm(fields.pop("form"))
    return CompileJob(form=form, **fields)


def write_outcome(directory: Path, outcome: CompileOutcome) -> None:
    part = directory / f"{OUTCOME}.part"
    part.write_text(json.dumps(asdict(outcome)), encoding="utf-8")
    part.replace(directory / OUTCOME)


def read_outcome(directory: Path) -> CompileOutcome | None:
    """Return the outcome; None if the worker died before it wrote one."""
    try:
        fields: dict[str, Any] = json.loads((directory / OUTCOME).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return outcome_of(fields)


def outcome_of(fields: dict[str, Any]) -> CompileOutcome:
    """Return the Outcome that was stored as these fields."""
    failure = fields.pop("failure")
    return CompileOutcome(failure=failure and FailureKind(failure), **fields)


# Variables that would change a compile unnoticed. JAX_PLATFORMS and the like are set below.
_NOT_INHERITED: Final = ("JAX_", "XLA_", "TF_", "LIBTPU_", "CUDA_VISIBLE_DEVICES", "TPU_")
# Otherwise JAX would look for devices, and report missing libraries that no compile needs.
_COMPILE_ONLY: Final = {
    "JAX_PLATFORMS": "cpu",
    "JAX_SKIP_CUDA_CONSTRAINTS_CHECK": "1",  # jax 0.8 looks for them anyway
    "CUDA_VISIBLE_DEVICES": "",
    # libtpu would ask the cloud's metadata server for this machine's TPUs, and lock them.
    "TPU_SKIP_MDS_QUERY": "1",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
}


class CompileRefused(Exception):
    """Raised if the program, the options or the machine don't allow it."""

    def __init__(self, failure: FailureKind, detail: str, option: str | None = None) -> None:
        super().__init__(detail)
        self.failure = failure
        self.detail = detail
        self.option = option


@frozen
class WorkerEnded:
    """A worker that has ended: with its exit status, or by the timeout (None)."""

    status: int | None


class Worker:
    """One process. Its creator must end it."""

    def __init__(
        self,
        first_job: Path,
        environment: Mapping[str, str],
        interpreter: Interpreter | None = None,
    ) -> None:
        self.served = 0
        worker, slot = "counterpoint.compile.worker", first_job.parent
        command = [python_of(interpreter), "-P", "-m", worker, str(slot)]  # no user modules
        # XLA's temporary files would outlive a killed worker: there they are removed with the
        # slot.
        scratch = slot / "tmp"
        scratch.mkdir(exist_ok=True)
        theirs_in, self._sent = os.pipe()
        self._answers, theirs_out = os.pipe()
        try:
            with (first_job / LOG).open("wb") as log:  # of the start; later it opens its jobs' own
                self._process = subprocess.Popen(  # noqa: S603  our own module and interpreter
                    [*command, str(os.getpid())],
                    stdin=theirs_in,
                    stdout=theirs_out,
                    stderr=log,
                    env={**_environment(environment, interpreter), "TMPDIR": str(scratch)},
                    start_new_session=True,
                )
        except BaseException:
            os.close(self._sent)
            os.close(self._answers)
            raise
        finally:
            os.close(theirs_in)
            os.close(theirs_out)

    def compile(self, job: Path, timeout_s: float) -> WorkerEnded | None:
        """Compile the job in that directory; return None when there is an answer."""
        self.served += 1
        with contextlib.suppress(BrokenPipeError):  # it died before: its output has ended, too
            os.write(self._sent, f"{job}\n".encode())
        waiting = select.poll()
        waiting.register(self._answers, select.POLLIN)
        if not waiting.poll(1000 * timeout_s):
            self.kill()
            return WorkerEnded(None)
        if os.read(self._answers, 1):
            return None
        return WorkerEnded(self._process.wait())

    def kill(self) -> None:
        """Kill it and its children. Any thread may call it."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def end(self) -> None:
        """Kill it, and release its resources."""
        self.kill()
        self._process.wait()
        os.close(self._sent)
        os.close(self._answers)


def _environment(variables: Mapping[str, str], interpreter: Interpreter | None) -> dict[str, str]:
    inherited = {
        name: value
        for name, value in environment_of(interpreter, os.environ).items()
        if not name.startswith(_NOT_INHERITED)
    }
    return {**inherited, **_COMPILE_ONLY, **variables}
