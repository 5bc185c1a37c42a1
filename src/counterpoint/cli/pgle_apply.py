"""`counterpoint pgle apply`: compile without and with a profile, and prove that it was used."""

from __future__ import annotations

import shlex
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from counterpoint.cli.output import WholeNumber
from counterpoint.cli.profiles import manual
from counterpoint.cli.program_option import refuse_function
from counterpoint.cli.progress import Progress
from counterpoint.compile.inputs import Workload, load_workload, own_target
from counterpoint.core import UsageError
from counterpoint.flags.lines import parse_settings
from counterpoint.flags.versions import PROFILE
from counterpoint.hardware import Target
from counterpoint.hardware.targets import parse_target
from counterpoint.pgle.applying import AppliedProfile, apply_profile
from counterpoint.report import print_document
from counterpoint.report.pgle import pgle_apply_document, pgle_apply_json
from counterpoint.runs import is_run

_EXAMPLE = "--target 8xH100"


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class ApplyOptions:
    """What a program is compiled for, and how.

    Args:
        target: The devices: 8xH100, or 8x8xH100 for 8 hosts; without it those of the dump.
        module: The module that is the step; else the one with the most FLOPs.
        set_: A flag to compile with, both times: xla_gpu_...=value.
        timeout: Seconds that one compile may take.
    """

    target: str | None = None
    module: str | None = None
    set_: Annotated[tuple[str, ...], Parameter(name="--set", show_default=False)] = ()
    timeout: float = 900.0


def apply(
    profile: Path,
    *,
    program: Path,
    options: ApplyOptions | None = None,
    top: WholeNumber = 10,
    json: Annotated[bool, Parameter(show_default=False)] = False,
) -> int:
    """Compile a program without and with a profile, and show that XLA used it and what it moved.

    Needs no GPU: XLA's own compiler for CUDA compiles for devices that are not there. Exit code 1
    where it is not proved that the profile was used, or where it is of another program.

    Args:
        profile: The profile: .pbtxt, .pb, or a directory of <fingerprint>.pbtxt.
        program: What was compiled: StableHLO (.mlir, .mlir.gz), a directory of JAX_DUMP_IR_TO or
            --xla_dump_to, a Run, or an nsys-jax bundle.
        options: What it is compiled for, and how.
        top: Rows in the table of what moved.
        json: Print everything as JSON, uncut.
    """
    if top < 1:
        raise UsageError(f"--top takes a number from 1 on, not {top}")
    given = options or ApplyOptions()
    if not 0 < given.timeout < float("inf"):
        raise UsageError(f"--timeout takes a number of seconds, not {given.timeout:g}")
    devices = parse_target(given.target).devices if given.target else 8
    refuse_function(program, scheduled=False, devices=devices)
    flags = _flags(given.set_)
    with Progress("reading the program") as progress:
        workload = load_workload(program, given.module)
        target = _target(workload, given.target)
        applied = apply_profile(
            workload, target, profile, flags, say=progress.say, timeout_s=given.timeout
        )
    _print(applied, top, as_json=json, next=_next(applied, program))
    return 0 if applied.fits else 1


def _flags(words: tuple[str, ...]) -> dict[str, str]:
    flags = dict(parse_settings(words).flags)
    if PROFILE in flags:
        raise UsageError(
            f"--set {PROFILE}: the profile is the argument",
            next=f"counterpoint pgle apply {shlex.quote(flags[PROFILE])} --program PROGRAM",
        )
    return flags


def _target(workload: Workload, text: str | None) -> Target:
    if text is not None:
        return parse_target(text)
    found = own_target(workload)
    if found is None:
        raise UsageError(
            f"--target is missing, and {workload.origin} does not tell its devices",
            next=_EXAMPLE,
        )
    return found


def _next(applied: AppliedProfile, program: Path) -> str:
    profile = str(applied.path)
    if applied.own is not None and applied.keyed:
        recording = str(program) if is_run(program) or zipfile.is_zipfile(program) else "logdir"
        bare = str(applied.path.with_name(f"{applied.path.stem}-bare.pbtxt"))
        words = ["pgle", "make", recording, "--bare", "--module", applied.own.name, "-o", bare]
        return f"{shlex.join(['counterpoint', *words])}   # or apply with the jaxlib of the run"
    if applied.fits:
        return manual(profile, program)
    return shlex.join(["counterpoint", "pgle", "show", profile]) + "   # what it was made of"


def _print(applied: AppliedProfile, top: int, *, as_json: bool, next: str) -> None:
    if as_json:
        sys.stdout.write(pgle_apply_json(applied, next))
    else:
        print_document(pgle_apply_document(applied, top, next), sys.stdout)
