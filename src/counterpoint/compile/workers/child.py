"""A worker seen from outside: its own process group, time limits, a clean environment.

A worker compiles one job after another, each in a directory of its own. It is told of a job by a
line on its stdin and answers with a line; one that dies answers by the end of its output.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from counterpoint.compile.workers.job import LOG

# What would change a compile behind the caller's back. JAX_PLATFORMS and the like are set anew.
_NOT_INHERITED: Final = ("JAX_", "XLA_", "TF_", "LIBTPU_", "CUDA_VISIBLE_DEVICES", "TPU_")
# Else JAX would look for devices, and complain about libraries that no compile needs.
_COMPILE_ONLY: Final = {
    "JAX_PLATFORMS": "cpu",
    "JAX_SKIP_CUDA_CONSTRAINTS_CHECK": "1",  # jax 0.8 looks for them all the same
    "CUDA_VISIBLE_DEVICES": "",
}


@dataclass(frozen=True, slots=True)
class Ended:
    """A worker that is no more: by its own exit status, or by the clock (None)."""

    status: int | None


class Worker:
    """One process. Whoever makes it ends it."""

    def __init__(self, first_job: Path, environment: Mapping[str, str]) -> None:
        self.served = 0
        worker, bench = "counterpoint.compile.workers.worker", first_job.parent
        command = [sys.executable, "-P", "-m", worker, str(bench)]  # no module of the user's
        # What XLA writes there for itself would outlive a killed worker: it goes with the bench.
        scratch = bench / "tmp"
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
                    env={**_environment(environment), "TMPDIR": str(scratch)},
                    start_new_session=True,
                )
        except BaseException:
            os.close(self._sent)
            os.close(self._answers)
            raise
        finally:
            os.close(theirs_in)
            os.close(theirs_out)

    def compile(self, job: Path, timeout_s: float) -> Ended | None:
        """Compile the job in that directory; None when there is an answer."""
        self.served += 1
        with contextlib.suppress(BrokenPipeError):  # it died before: its output has ended, too
            os.write(self._sent, f"{job}\n".encode())
        waiting = select.poll()
        waiting.register(self._answers, select.POLLIN)
        if not waiting.poll(1000 * timeout_s):
            self.kill()
            return Ended(None)
        if os.read(self._answers, 1):
            return None
        return Ended(self._process.wait())

    def kill(self) -> None:
        """Kill it and whatever it started. Any thread may."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def end(self) -> None:
        """Kill it, and be rid of it."""
        self.kill()
        self._process.wait()
        os.close(self._sent)
        os.close(self._answers)


def _environment(asked: Mapping[str, str]) -> dict[str, str]:
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith(_NOT_INHERITED)
    }
    return {**inherited, **_COMPILE_ONLY, **asked}
