"""Choosing an executor: the one named, or the one that the environment suggests.

What an executor would reject later is rejected here: missing tools, options of another executor,
options that contradict the tuner's own, and requests that Slurm itself would reject.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from itertools import zip_longest
from types import MappingProxyType
from typing import Final

from counterpoint.core import UsageError
from counterpoint.tune.executors.executor import Executor, ProcessShape
from counterpoint.tune.executors.local import Local, read_cpus, read_gpus, refuse_nodes
from counterpoint.tune.executors.slurm import Slurm, outside
from counterpoint.tune.executors.slurm_batch import SlurmBatch
from counterpoint.tune.executors.slurm_control import QUICK_S, read_grant, refuse_silence, slurm

NAMES: Final = ("local", "slurm", "slurm-batch", "ray")
_OPTIONS: Final = {"gpus": "local", "cpus": "local", "slurm": "slurm", "ray-address": "ray"}
"""Options that describe the place, by the executor that takes them."""
_TOOLS: Final = ("scontrol", "squeue", "scancel", "srun")
_STEPS_OF_SLURM_S_OWN: Final = 0xFFFFFFF0
"""Steps from here on are not steps of srun: those of batch scripts, and of salloc's shell."""
_RESERVED: Final[Mapping[str, str]] = {
    **dict.fromkeys(("--job-name", "-J"), "the tuner finds its jobs by their names"),
    **dict.fromkeys(("--array", "-a"), "each trial is one job"),
    **dict.fromkeys(("--wait", "-W"), "the tuner itself waits"),
    **dict.fromkeys(("--wrap", "--test-only"), "the jobs run the trials"),
}
_NODES: Final = re.compile(r"(?:--nodes(?:=|$)|-N)(.*)")
_REFUSED: Final = re.compile(
    r"^.*\b[Ii]nvalid (?:partition|account|qos|feature|generic|-|.* specification).*$"
    r"|^.*\b(?:unrecognized|ambiguous|invalid) option.*$|^.* requires an argument.*$",
    re.MULTILINE,
)
"""Permanent refusals. Unavailable nodes are not among them: they may only be down."""


def choose_executor(
    name: str | None,
    shape: ProcessShape,
    options: Mapping[str, str] = MappingProxyType({}),
    *,
    environ: Mapping[str, str] | None = None,
    say: Callable[[str], None] = lambda _: None,
    stopped: Callable[[], bool] = lambda: False,
) -> Executor:
    """Return the executor of that name; for None, Slurm inside a Slurm job, Ray if set, else local.

    Options are gpus, cpus, slurm and ray-address, in the user's words. While the executor waits for
    nodes, it reports through `say`, and stops when `stopped` is true.
    """
    variables = os.environ if environ is None else environ
    chosen = name or _usual(variables, options)
    if chosen not in NAMES:
        raise UsageError(f"unknown executor {chosen!r}", why=f"executors are {', '.join(NAMES)}")
    _refuse_others(chosen, options)
    match chosen:
        case "slurm" | "slurm-batch":
            return _slurm(chosen, shape, options, variables, say, stopped)
        case "ray":
            return _ray(shape, options, say, stopped)
        case _:
            return _local(shape, options, variables)


def nodes_around(environ: Mapping[str, str] | None = None) -> int | None:
    """Return the number of nodes of the Slurm job around us; None if there is none."""
    variables = os.environ if environ is None else environ
    count = variables.get("SLURM_JOB_NUM_NODES", "")
    return int(count) if count.isdecimal() and "SLURM_JOB_ID" in variables else None


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
                f"--{option} applies to the executor {executor}, not to {chosen}",
                next=f"remove --{option}",
            )


def _local(
    shape: ProcessShape, options: Mapping[str, str], variables: Mapping[str, str]
) -> Executor:
    refuse_nodes(shape)
    gpus = read_gpus(options["gpus"], variables) if "gpus" in options else None
    cpus = read_cpus(options["cpus"]) if "cpus" in options else None
    return Local(shape=shape, gpus=gpus, cpus=cpus)


def _ray(
    shape: ProcessShape,
    options: Mapping[str, str],
    say: Callable[[str], None],
    stopped: Callable[[], bool],
) -> Executor:
    if find_spec("ray") is None:
        raise UsageError(
            "--executor ray: Ray is not installed here",
            why="Ray itself places trials on its clusters",
            next="pip install 'counterpoint[ray]'",
        )
    from counterpoint.tune.executors.ray import Ray

    return Ray(shape=shape, address=options.get("ray-address"), say=say, stopped=stopped)


def _slurm(
    chosen: str,
    shape: ProcessShape,
    options: Mapping[str, str],
    variables: Mapping[str, str],
    say: Callable[[str], None],
    stopped: Callable[[], bool],
) -> Executor:
    batch = chosen == "slurm-batch"
    within = None if batch else variables.get("SLURM_JOB_ID")
    for tool in (*_TOOLS, *(("sbatch",) if batch else () if within else ("salloc",))):
        if shutil.which(tool, path=variables.get("PATH")) is None:
            raise UsageError(
                f"--executor slurm: {tool} is not on the PATH",
                why="trials on Slurm are started by its own commands",
                next="--executor local",
            )
    text = options.get("slurm", "")
    if text and within is not None:
        raise UsageError(
            f"--slurm {text!r}: Slurm job {within} is already allocated",
            why="trials run as steps of it",
            next="remove it, or start outside of the allocation",
        )
    try:
        words = tuple(shlex.split(text))
    except ValueError as damage:
        raise UsageError(f"--slurm {text!r} can't be split into words: {damage}") from None
    if within is not None:
        _refuse_job(within, shape, variables)
    else:
        _refuse_options(words, shape)
        _refuse_rejected(words, shape, outside(variables))
    if batch:
        return SlurmBatch(shape=shape, options=words, say=say)
    return Slurm(shape=shape, within=within, options=words, say=say, stopped=stopped)


def _refuse_job(job: str, shape: ProcessShape, variables: Mapping[str, str]) -> None:
    """Reject the job around us if we are a step of it, or if it is over or too small."""
    step = variables.get("SLURM_STEP_ID", "")
    if step.isdecimal() and int(step) < _STEPS_OF_SLURM_S_OWN:
        raise UsageError(
            f"tune runs in Slurm's step {job}.{step}, which holds the resources that trials need",
            why="srun started the tuner, and a step within a step waits forever",
            next="start it from the batch script or salloc's shell, without srun",
        )
    refuse_silence(variables)
    read_grant(job, variables).refuse_more(shape.nodes)


def _refuse_options(words: tuple[str, ...], shape: ProcessShape) -> None:
    """Reject options that contradict the tuner's own."""
    for word, after in zip_longest(words, words[1:], fillvalue=""):
        name = word.partition("=")[0] if word.startswith("--") else word[:2]
        if name in _RESERVED:
            raise UsageError(f"--slurm {word}: {_RESERVED[name]}", next="remove it")
        found = _NODES.fullmatch(word)
        nodes = (found.group(1).removeprefix("=") or after) if found else str(shape.nodes)
        if nodes != str(shape.nodes):
            raise UsageError(
                f"--slurm requests {nodes} nodes, but trials take {shape.nodes}",
                why="--nodes sets how many nodes a trial takes",
                next=f"remove {word} from --slurm",
            )


def _refuse_rejected(
    words: tuple[str, ...], shape: ProcessShape, environ: Mapping[str, str]
) -> None:
    """Reject a partition or an account that does not exist: `--test-only` submits no job."""
    refuse_silence(environ)
    if shutil.which("sbatch", path=environ.get("PATH")) is None:
        return  # salloc will report it
    command = ("sbatch", "--test-only", f"--nodes={shape.nodes}", *words, "--wrap=true")
    _, _, errors = slurm(*command, limit_s=QUICK_S, environ=environ)
    if found := _REFUSED.search(errors):
        raise UsageError(
            f"Slurm accepts no job with {shlex.join(words) or 'its default options'}",
            why=re.sub(r"^(?:sbatch: (?:error: )?|allocation failure: )", "", found.group()),
            next="--slurm '--partition=NAME --account=NAME'",
        )
