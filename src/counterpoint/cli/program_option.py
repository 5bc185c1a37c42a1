"""The option --program: a compiled program, wherever it is stored."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Final

from counterpoint.cli.progress import Progress
from counterpoint.compile.inputs.function_process import names_function
from counterpoint.core import InputError, UsageError
from counterpoint.pgle.applying.subject import LocatedProgram, is_lowered, locate_program

_DUMPED: Final = "run it with XLA_FLAGS='--xla_dump_to=DIR --xla_dump_hlo_as_proto', and name DIR"
_WRITE: Final = (
    "from {module} import {name} as make; step, arguments = make({devices});"
    " lowered = step.trace(*arguments).lower(lowering_platforms=('cuda',));"
    " open('step.mlir', 'w').write(lowered.as_text(debug_info=True))"
)


def refuse_function(path: Path, *, scheduled: bool, devices: int = 8) -> None:
    """Refuse `file.py:make_step`, which only `predict` calls.

    `scheduled`: the option expects XLA's output for the step, not the step itself.
    """
    if not names_function(str(path)):
        return
    raise UsageError(
        f"--program {path}: this is a function, but --program takes files and directories",
        why="only `counterpoint predict` calls functions",
        next=_DUMPED if scheduled else _written(path, devices),
    )


def _written(path: Path, devices: int) -> str:
    """Return a command that writes StableHLO; it runs in the directory of the file or package."""
    home, _, name = path.name.partition(":")
    code = _WRITE.format(module=home.removesuffix(".py"), name=name, devices=devices)
    cd = f"cd {shlex.quote(str(path.parent))} && " if path.parent != Path() else ""
    return (
        f"{cd}JAX_PLATFORMS=cpu XLA_FLAGS=--xla_force_host_platform_device_count={devices}"
        f" python -c {shlex.quote(code)}; then --program step.mlir"
    )


def finished_program(path: Path, module: str | None) -> LocatedProgram:
    """Return the program; refuse one that XLA has not optimized, or not for a GPU."""
    refuse_function(path, scheduled=True)
    if path.is_file() and path.stat().st_size == 0:
        raise InputError(f"{path}: the file is empty, so there is no program in it", next=_DUMPED)
    if path.exists() and is_lowered(path):
        raise InputError(
            f"{path} is StableHLO, so XLA has not placed its collectives yet",
            why="XLA's output is needed: HLO after optimization (.hlo.pb or text), a"
            " directory of XLA's dumps, a Run, or a profile that embeds its HLO",
            next="run with XLA_FLAGS='--xla_dump_to=DIR --xla_dump_hlo_as_proto', and name DIR",
        )
    with Progress("reading") as progress:
        progress.say(f"reading {path.name}")
        subject = locate_program(path, module)
    if subject.platform in ("cpu", "tpu"):
        raise InputError(
            f"{subject.where}: {subject.program.name} was compiled for"
            f" {subject.platform.upper()}, but these flags belong to XLA's GPU compiler",
            why="XLA places other collectives there and merges them by other rules. Virtual devices"
            " (xla_force_host_platform_device_count) are CPUs, too: a Run or"
            " a dump of GPUs is needed",
            next="counterpoint run -- python train.py",
        )
    return subject
