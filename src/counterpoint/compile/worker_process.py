"""The parent's side of a worker: its process group, timeouts, a clean environment.

A worker compiles one job after another, each in its own directory (job.py). It receives a job as a
line on its stdin and answers with a line; if it dies, its output ends.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from counterpoint.compile.interpreter import Interpreter, environment_of, python_of
from counterpoint.compile.job import LOG

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


@dataclass(frozen=True, slots=True)
class WorkerEnded:
    """A worker ended: `status` is its exit status, or None if the timeout ended it."""

    status: int | None


class Worker:
    """One worker process. Its creator must end it."""

    def __init__(
        self,
        first_job: Path,
        environment: Mapping[str, str],
        interpreter: Interpreter | None = None,
    ) -> None:
        self.served = 0
        worker, slot = "counterpoint.compile.worker", first_job.parent
        command = [python_of(interpreter), "-P", "-m", worker, str(slot)]  # no user modules
        # XLA's temporary files would outlive a killed worker: here they are removed with the slot.
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
