"""Which executor is meant: as named, else as the environment suggests."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from counterpoint.core.errors import UsageError
from counterpoint.tune.executors.executor import Executor, Shape

NAMES: Final = ("local", "slurm", "slurm-batch", "ray")
_OPTIONS: Final = {"gpus": "local", "cpus": "local", "slurm": "slurm", "ray-address": "ray"}
"""What the user may say of the place, by the executor that it is for."""
_TOOLS: Final = ("scontrol", "squeue", "scancel", "srun")
_STEPS_OF_SLURM_S_OWN: Final = 0xFFFFFFF0
"""Steps from here on are no steps of srun: those of batch scripts, and of salloc's shell."""


def _silent(what: str) -> None:
    del what


def _never() -> bool:
    return False


def choose_executor(
    name: str | None,
    shape: Shape,
    options: Mapping[str, str] = MappingProxyType({}),
    *,
    environ: Mapping[str, str] | None = None,
    say: Callable[[str], None] = _silent,
    stopped: Callable[[], bool] = _never,
) -> Executor:
    """The executor of that name; None for Slurm within a job of it, Ray where it is, else here.

    Options are gpus, cpus, slurm and ray-address, in the user's words. While nodes are waited for,
    `say` hears of it, and `stopped` is asked. Slurm is asked here already what it would refuse.
    """
    variables = os.environ if environ is None else environ
    chosen = name or _usual(variables, options)
    if chosen not in NAMES:
        raise UsageError(f"there is no executor {chosen!r}", why=f"there are {', '.join(NAMES)}")
    _refuse_others(chosen, options)
    match chosen:
        case "slurm" | "slurm-batch":
            return _slurm(chosen, shape, options, variables, say, stopped)
        case "ray":
            return _ray(shape, options, say, stopped)
        case _:
            return _local(shape, options, variables)


def nodes_around(environ: Mapping[str, str] | None = None) -> int | None:
    """How many nodes the job of Slurm around us has; None where there is none."""
    variables = os.environ if environ is None else environ
    told = variables.get("SLURM_JOB_NUM_NODES", "")
    return int(told) if told.isdecimal() and "SLURM_JOB_ID" in variables else None


def _usual(variables: Mapping[str, str], options: Mapping[str, str]) -> str:
    if "slurm" in options or "SLURM_JOB_ID" in variables:
        return "slurm"
    if "ray-address" in options or "RAY_ADDRESS" in variables:
        return "ray"
    return "local"


def _refuse_others(chosen: str, options: Mapping[str, str]) -> None:
    for option in options:
        executor = _OPTIONS[option]
        if chosen.partition("-")[0] != executor:
            raise UsageError(
                f"--{option} is for the executor {executor}, not for {chosen}",
                next=f"leave --{option} out",
            )


def _local(shape: Shape, options: Mapping[str, str], variables: Mapping[str, str]) -> Executor:
    from counterpoint.tune.executors.local import Local, read_cpus, read_gpus, refuse_nodes

    refuse_nodes(shape)
    gpus = read_gpus(options["gpus"], variables) if "gpus" in options else None
    cpus = read_cpus(options["cpus"]) if "cpus" in options else None
    return Local(shape=shape, gpus=gpus, cpus=cpus)


def _slurm(
    chosen: str,
    shape: Shape,
    options: Mapping[str, str],
    variables: Mapping[str, str],
    say: Callable[[str], None],
    stopped: Callable[[], bool],
) -> Executor:
    from counterpoint.tune.executors.slurm import Slurm, outside
    from counterpoint.tune.executors.slurm_batch import SlurmBatch
    from counterpoint.tune.executors.slurm_request import (
        refuse_job,
        refuse_options,
        refuse_refused,
    )

    batch = chosen == "slurm-batch"
    within = None if batch else variables.get("SLURM_JOB_ID")
    asks = ("sbatch",) if batch else () if within else ("salloc",)
    _refuse_missing((*_TOOLS, *asks), variables)
    if "slurm" in options and within is not None:
        raise UsageError(
            f"--slurm {options['slurm']!r}: there is an allocation already, job {within}",
            why="trials run as steps of it",
            next="leave it out, or start outside of the allocation",
        )
    _refuse_step(within, variables)
    words = _words(options.get("slurm", ""))
    refuse_options(words, shape)
    if within is not None:
        refuse_job(within, shape, variables)
    else:
        refuse_refused(words, shape, outside(variables))
    if batch:
        return SlurmBatch(shape=shape, options=words, say=say)
    return Slurm(shape=shape, within=within, options=words, say=say, stopped=stopped)


def _words(text: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(text))
    except ValueError as damage:
        raise UsageError(f"--slurm {text!r} can't be split into words: {damage}") from None


def _refuse_missing(tools: tuple[str, ...], variables: Mapping[str, str]) -> None:
    for tool in tools:
        if shutil.which(tool, path=variables.get("PATH")) is None:
            raise UsageError(
                f"--executor slurm: there is no {tool} on the PATH",
                why="trials on Slurm are started by its own commands",
                next="--executor local",
            )


def _refuse_step(within: str | None, variables: Mapping[str, str]) -> None:
    step = variables.get("SLURM_STEP_ID", "")
    if within and step.isdecimal() and int(step) < _STEPS_OF_SLURM_S_OWN:
        raise UsageError(
            f"this is step {within}.{step} of Slurm's, which holds what trials need",
            why="srun has started the tuner itself, and a step within a step waits for ever",
            next="start it from the batch script or salloc's shell, without srun",
        )


def _ray(
    shape: Shape,
    options: Mapping[str, str],
    say: Callable[[str], None],
    stopped: Callable[[], bool],
) -> Executor:
    from importlib.util import find_spec

    if find_spec("ray") is None:
        raise UsageError(
            "--executor ray: Ray is not installed here",
            why="trials on a cluster of Ray are placed by Ray itself",
            next="pip install 'counterpoint[ray]'",
        )
    from counterpoint.tune.executors.ray import Ray

    return Ray(shape=shape, address=options.get("ray-address"), say=say, stopped=stopped)
