"""The child process that compiles: `python -m counterpoint.compile.worker SCRATCH PARENT`.

Each line on its stdin is the directory of a job (job.py), each line on its stdout the end of one.
The compiler may kill it at any point (a failed CHECK, no memory), so all its results go to the
job's directory, and the compiler's output to the log there.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Final

from counterpoint.compile.job import (
    LOG,
    MODULE,
    PROGRAM,
    CompileOutcome,
    CompileRefused,
    FailureKind,
    read_job,
    write_outcome,
)

_PARENT_DEATH_SIGNAL: Final = 1  # PR_SET_PDEATHSIG of Linux
_STDOUT, _STDERR = 1, 2


def main(parent: int) -> None:
    """Compile one job after another, until stdin ends."""
    _die_with(parent)
    answers = os.dup(_STDOUT)
    for line in sys.stdin:
        directory = Path(line.rstrip("\n"))
        _print_to(directory / LOG)
        _compile(directory)
        sys.stdout.flush()
        sys.stderr.flush()
        os.write(answers, b"\n")
    # The machine code is that of a stand-in assembler: skip all destructors.
    os._exit(0)


def _print_to(log: Path) -> None:
    """Redirect the output of this process and its compiler to that file."""
    opened = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(opened, _STDOUT)
    os.dup2(opened, _STDERR)
    os.close(opened)


def _compile(directory: Path) -> None:
    """Compile the job in this directory, and write the outcome."""
    job = read_job(directory)
    program = (directory / PROGRAM).read_bytes()
    try:
        from counterpoint.compile.xla_session import compile_program

        module, outcome = compile_program(job, program, directory / LOG)
    except CompileRefused as refusal:
        module = None
        outcome = CompileOutcome(
            failure=refusal.failure, detail=refusal.detail, option=refusal.option
        )
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in ("jax", "jaxlib"):
            raise
        module, outcome = None, CompileOutcome(failure=FailureKind.NO_JAX, detail=str(missing))
    if module is not None:
        (directory / MODULE).write_bytes(module)
    write_outcome(directory, replace(outcome, resident_kib=_resident_kib()))


def _resident_kib() -> int:
    """Return the peak memory of this process."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most >> 10 if sys.platform == "darwin" else most


def _die_with(parent: int) -> None:
    """End this process when its parent ends in any way: nobody waits for the compile then."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[2]))
