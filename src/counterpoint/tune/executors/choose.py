"""Which executor is meant: as named, else as the environment suggests."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from counterpoint.core.errors import UsageError
from counterpoint.tune.executors.executor import Executor, Shape

NAMES: Final = ("local", "slurm", "slurm-batch", "ray")
_TOOLS: Final = ("scontrol", "squeue", "scancel", "srun")
_STEPS_OF_SLURM_S_OWN: Final = 0xFFFFFFF0
"""Steps from here on are no steps of srun: those of batch scripts, and of salloc's shell."""


def _silent(what: str) -> None:
    del what


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the user says of the place; each is for one executor, and refused with another."""

    gpus: str | None = None
    cpus: str | None = None
    slurm: str | None = None
    ray_address: str | None = None


def choose_executor(
    name: str | None,
    shape: Shape,
    options: Options | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    say: Callable[[str], None] = _silent,
) -> Executor:
    """The executor of that name; None for Slurm within a job of it, Ray where it is, else here."""
    options = options or Options()
    variables = os.environ if environ is None else environ
    chosen = name or _usual(variables, options)
    if chosen not in NAMES:
        raise UsageError(f"there is no executor {chosen!r}", why=f"there are {', '.join(NAMES)}")
    _refuse_others(chosen, options)
    match chosen:
        case "slurm" | "slurm-batch":
            return _slurm(chosen, shape, options, variables, say)
        case "ray":
            return _ray(shape, options)
        case _:
            return _local(shape, options, variables)


def nodes_around(environ: Mapping[str, str] | None = None) -> int | None:
    """How many nodes the job of Slurm around us has; None where there is none."""
    variables = os.environ if environ is None else environ
    told = variables.get("SLURM_JOB_NUM_NODES", "")
    return int(told) if told.isdecimal() and "SLURM_JOB_ID" in variables else None


def _usual(variables: Mapping[str, str], options: Options) -> str:
    if options.slurm is not None or "SLURM_JOB_ID" in variables:
        return "slurm"
    if options.ray_address is not None or "RAY_ADDRESS" in variables:
        return "ray"
    return "local"


def _refuse_others(chosen: str, options: Options) -> None:
    of = {"gpus": "local", "cpus": "local", "slurm": "slurm", "ray_address": "ray"}
    for option, executor in of.items():
        if getattr(options, option) is not None and chosen.partition("-")[0] != executor:
            raise UsageError(
                f"--{option.replace('_', '-')} is for the executor {executor}, not for {chosen}",
                next=f"--executor {executor}, or leave it out",
            )


def _local(shape: Shape, options: Options, variables: Mapping[str, str]) -> Executor:
    from counterpoint.tune.executors.local import Local
    from counterpoint.tune.executors.pins import read_cpus, read_gpus

    gpus = None if options.gpus is None else read_gpus(options.gpus, variables)
    cpus = None if options.cpus is None else read_cpus(options.cpus)
    return Local(shape=shape, gpus=gpus, cpus=cpus)


def _slurm(
    chosen: str,
    shape: Shape,
    options: Options,
    variables: Mapping[str, str],
    say: Callable[[str], None],
) -> Executor:
    from counterpoint.tune.executors.slurm import Slurm
    from counterpoint.tune.executors.slurm_batch import SlurmBatch

    batch = chosen == "slurm-batch"
    within = None if batch else variables.get("SLURM_JOB_ID")
    _refuse_missing((*_TOOLS, "sbatch") if batch else (*_TOOLS, "salloc"), variables)
    if options.slurm is not None and within is not None:
        raise UsageError(
            f"--slurm {options.slurm!r}: there is an allocation already, job {within}",
            why="trials run as steps of it",
            next="leave it out, or start outside of the allocation",
        )
    _refuse_step(within, variables)
    words = _words(options.slurm)
    if batch:
        return SlurmBatch(shape=shape, options=words, say=say)
    return Slurm(shape=shape, within=within, options=words, say=say)


def _words(text: str | None) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(text or ""))
    except ValueError as damage:
        raise UsageError(f"--slurm {text!r} can't be split into words: {damage}") from None


def _refuse_missing(tools: tuple[str, ...], variables: Mapping[str, str]) -> None:
    for tool in tools:
        if shutil.which(tool, path=variables.get("PATH")) is None:
            raise UsageError(
                f"--executor slurm: there is no {tool} on the PATH",
                why="trials on Slurm are started by its own commands",
                next="start on a login node or in a job of Slurm, or --executor local",
            )


def _refuse_step(within: str | None, variables: Mapping[str, str]) -> None:
    step = variables.get("SLURM_STEP_ID", "")
    if within and step.isdecimal() and int(step) < _STEPS_OF_SLURM_S_OWN:
        raise UsageError(
            f"this is step {within}.{step} of Slurm's, which holds what trials need",
            why="srun has started the tuner itself, and a step within a step waits for ever",
            next="start it from the batch script or salloc's shell, without srun",
        )


def _ray(shape: Shape, options: Options) -> Executor:
    from importlib.util import find_spec

    if find_spec("ray") is None:
        raise UsageError(
            "--executor ray: Ray is not installed here",
            why="trials on a cluster of Ray are placed by Ray itself",
            next="pip install 'counterpoint[ray]'",
        )
    from counterpoint.tune.executors.ray import Ray

    return Ray(shape=shape, address=options.ray_address)
