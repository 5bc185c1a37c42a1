"""The child process that compiles one program: `python -m counterpoint.compile.worker JOB`.

It may be killed by the compiler at any line (a failed CHECK, no memory), so everything it knows
goes to the job's directory, and what the compiler prints to its stderr.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from pathlib import Path
from typing import Final

from counterpoint.compile.job import (
    LOG,
    MODULE,
    PROGRAM,
    Failure,
    Outcome,
    read_job,
    write_outcome,
)
from counterpoint.compile.refusal import Refusal

_PARENT_DEATH_SIGNAL: Final = 1  # PR_SET_PDEATHSIG of Linux


def main(directory: Path, parent: int) -> None:
    """Compile, and write down how it went."""
    _die_with(parent)
    job = read_job(directory)
    program = (directory / PROGRAM).read_bytes()
    try:
        from counterpoint.compile.session import compile_program

        module, outcome = compile_program(job, program, directory / LOG)
    except Refusal as refusal:
        module = None
        outcome = Outcome(failure=refusal.failure, detail=refusal.detail, option=refusal.option)
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in ("jax", "jaxlib"):
            raise
        module, outcome = None, Outcome(failure=Failure.NO_JAX, detail=str(missing))
    if module is not None:
        (directory / MODULE).write_bytes(module)
    write_outcome(directory, outcome)
    sys.stderr.flush()
    # The machine code is a stand-in's: no destructor may have ideas about it.
    os._exit(0)


def _die_with(parent: int) -> None:
    """End when the parent ends, however it does: a compile that nobody waits for helps nobody."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
