"""Run a worker: its own process group, a time limit, and an environment without surprises."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from counterpoint.compile.job import LOG

# What would change a compile behind the caller's back. JAX_PLATFORMS and the like are set anew.
_NOT_INHERITED: Final = ("JAX_", "XLA_", "TF_", "LIBTPU_", "CUDA_VISIBLE_DEVICES", "TPU_")
# Else JAX would look for devices, and complain about libraries that no compile needs.
_COMPILE_ONLY: Final = {
    "JAX_PLATFORMS": "cpu",
    "JAX_SKIP_CUDA_CONSTRAINTS_CHECK": "1",  # jax 0.8 looks for them all the same
    "CUDA_VISIBLE_DEVICES": "",
}


def run_worker(directory: Path, environment: Mapping[str, str], timeout_s: float) -> int | None:
    """Compile the job in that directory; the exit status, None if it took too long."""
    command = [sys.executable, "-m", "counterpoint.compile.worker", str(directory)]
    with (directory / LOG).open("wb") as log:
        worker = subprocess.Popen(  # noqa: S603  our own module in our own interpreter
            [*command, str(os.getpid())],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=_environment(environment),
            start_new_session=True,
        )
        try:
            return worker.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None
        finally:
            _end(worker)


def _environment(asked: Mapping[str, str]) -> dict[str, str]:
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith(_NOT_INHERITED)
    }
    return {**inherited, **_COMPILE_ONLY, **asked}


def _end(worker: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(worker.pid, signal.SIGKILL)
    worker.wait()
