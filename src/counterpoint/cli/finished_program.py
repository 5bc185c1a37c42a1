"""The program behind --program: what XLA's GPU compiler made, wherever it is kept."""

from __future__ import annotations

from pathlib import Path

from counterpoint.cli.function_program import refuse_function
from counterpoint.cli.progress import Progress
from counterpoint.core.errors import InputError
from counterpoint.pgle.subject import Subject, find_subject, is_lowered


def finished_program(path: Path, module: str | None) -> Subject:
    """The program, refused where XLA has not optimised it or did so for another machine."""
    refuse_function(path, scheduled=True)
    if path.exists() and is_lowered(path):
        raise InputError(
            f"{path} is StableHLO, in which XLA has placed no collectives yet",
            why="wanted is what XLA made of it: HLO after optimisation (.hlo.pb or text), a"
            " directory of XLA's dumps, a Run, or a profile that embeds its HLO",
            next="run with XLA_FLAGS='--xla_dump_to=DIR --xla_dump_hlo_as_proto', and name DIR",
        )
    with Progress("reading") as progress:
        progress.say(f"reading {path.name}")
        subject = find_subject(path, module)
    if subject.platform in ("cpu", "tpu"):
        raise InputError(
            f"{subject.where}: {subject.program.name} was compiled for"
            f" {subject.platform.upper()}, and these flags are of XLA's GPU compiler",
            why="XLA places other collectives there, and merges them by other rules; devices that"
            " are only pretended (xla_force_host_platform_device_count) are CPUs, too: a Run or"
            " a dump of GPUs is needed",
            next="counterpoint run -- python train.py",
        )
    return subject
