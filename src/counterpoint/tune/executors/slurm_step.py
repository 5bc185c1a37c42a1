"""A gang that is a step of Slurm's: `srun` in an allocation that is there already."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from counterpoint.core.errors import CounterpointError
from counterpoint.runs.outcome import Outcome, OutcomeKind
from counterpoint.runs.reader import is_run, read_run
from counterpoint.tune.executors.executor import Ended, EndedKind, Job
from counterpoint.tune.executors.exit_report import Arrival, exit_report, launcher_log
from counterpoint.tune.executors.process_supervisor import start_supervised, supervised
from counterpoint.tune.executors.rank_command import rank_command
from counterpoint.tune.executors.slurm_control import (
    asked,
    dead_nodes,
    end_all,
    job_fields,
    steps_named,
)
from counterpoint.tune.executors.slurm_fault import fault
from counterpoint.tune.executors.slurm_grant import Grant

STEPS: Final = "slurm-steps"
_LOOK_S: Final = 0.5
_PORTS: Final = range(61440, 65536)
"""JAX takes one of these by the job's number: the same for all steps, so we deal them out."""
_ABOUT_US: Final = (
    *("SLURM_STEP", "SLURM_NTASKS", "SLURM_NPROCS", "SLURM_TASK", "SLURM_MEM_PER", "SLURM_NNODES"),
    *("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_GTIDS", "SLURM_CPUS_PER_TASK"),
    *("SLURM_NODELIST", "SLURM_JOB_NODELIST", "SLURM_JOB_NUM_NODES", "SLURM_EXPORT_ENV"),
    *("SLURM_DISTRIBUTION", "SLURM_EXACT", "SLURM_EXCLUSIVE", "SLURM_OVER", "SLURM_SRUN_"),
    *("SLURM_JOB_CPUS", "SLURM_CPUS_ON", "SLURM_LAUNCH_", "SRUN_CPUS_PER_TASK", "SLURM_RESTART"),
)
"""Variables that begin so tell of the tuner's own place, and srun takes some for options."""


class StepGang:
    """An srun beside us, under a keeper; and its tasks on the nodes, each under a keeper, too."""

    def __init__(self, srun: subprocess.Popen[bytes], job: Job, grant: Grant, name: str) -> None:
        self._srun = srun
        self._directory = job.directory
        self._job = grant.job
        self._nodes = grant.nodes[: job.shape.nodes]
        self._name = name
        self._asked_at = float("-inf")
        self._arrival = Arrival(job.directory, job.shape.nodes * grant.ranks_per_node(job.shape))
        self._ended: Ended | None = None

    @property
    def identity(self) -> str:
        return f"{STEPS}:{self._job}:{self._name}"

    def poll(self) -> Ended | None:
        due = time.monotonic() - self._asked_at >= _LOOK_S
        if self._ended is None and due and (code := self._srun.poll()) is not None:
            self._asked_at = time.monotonic()
            left = steps_named(self._job, self._name)
            if left:  # its srun was killed, or has given up waiting
                end_steps(self._job, self._name)
            if left is not None:
                self._ended = self._told(code)
        return self._ended

    def kill(self) -> None:
        if self._ended is not None:
            return
        end_steps(self._job, self._name, self._srun)
        self._ended = Ended(kind=EndedKind.KILLED)

    def _told(self, code: int) -> Ended | None:
        """None while something is still on its way.

        srun's code alone tells nothing good: it is 0, too, where the node of a step died.
        """
        if not _ended_well(self._directory, code):
            fields = job_fields(self._job)
            if fields is None or fields.get("JobState") == "COMPLETING":
                return None
            if (outside := self._from_outside(fields)) is not None:
                return outside
        if not self._arrival.is_here(code):
            return None
        if code < 0:
            return Ended(kind=EndedKind.LOST, detail=f"srun died of signal {-code}")
        if code == 0 and _is_without_end(self._directory):
            return Ended(kind=EndedKind.LOST, detail="srun ended, but no rank could say how")
        return exit_report(self._directory, code)

    def _from_outside(self, fields: Mapping[str, str]) -> Ended | None:
        log, ran = launcher_log(self._directory), is_run(self._directory)
        if found := fault(fields, log, ran=ran):
            return found
        if not (dead := dead_nodes(self._nodes)):
            return None
        detail = f"{', '.join(dead)} is down, or does not answer Slurm"
        return Ended(kind=EndedKind.NODE_FAULT, detail=detail)


def _outcome(directory: Path) -> Outcome | None:
    try:
        return read_run(directory).outcome if is_run(directory) else None
    except (OSError, CounterpointError):
        return None  # half of it is here


def _ended_well(directory: Path, code: int) -> bool:
    outcome = _outcome(directory)
    return code == 0 and outcome is not None and outcome.ok


def _is_without_end(directory: Path) -> bool:
    outcome = _outcome(directory)
    return outcome is not None and outcome.kind in (OutcomeKind.RUNNING, OutcomeKind.LOST)


def start_step(job: Job, grant: Grant, name: str, number: int) -> StepGang:
    """Start one. `number` is how many steps there were before."""
    job.directory.parent.mkdir(parents=True, exist_ok=True)
    log = launcher_log(job.directory)
    ranks = grant.ranks_per_node(job.shape)
    nodes = grant.nodes[: job.shape.nodes]
    command = (
        *("srun", f"--jobid={grant.job}", f"--job-name={name}"),
        f"--nodelist={','.join(nodes)}",
        *(f"--nodes={len(nodes)}", f"--ntasks={len(nodes) * ranks}", f"--ntasks-per-node={ranks}"),
        f"--cpus-per-task={grant.cpus // ranks}" if grant.cpus >= ranks else "--overcommit",
        *step_options(log),
        *task(job, str(grant.gpus), str(ranks)),
    )
    environment = {"JAX_COORDINATOR_PORT": str(_port(int(grant.job), number))}
    environment |= environment_of(job.environment, os.environ)
    with log.open("ab") as output:
        supervisor = supervised(command, with_tuner=True, stop="15,15")
        srun = start_supervised(supervisor, environment | {"SLURM_JOB_ID": grant.job}, output)
    return StepGang(srun, job, grant, name)


def step_options(log: Path) -> tuple[str, ...]:
    """What every srun of ours says; ranks die together, and the environment is srun's own.

    What ranks print lies in the Run; their stderr goes to the log as well, for there is what was
    said before there was a Run. It is one that grows: srun itself writes to it, too.
    """
    return (
        *("--mem=0", "--kill-on-bad-exit=1", "--export=ALL", "--input=none", "--output=none"),
        *(f"--error={file_pattern(log)}", "--open-mode=append"),
    )


def file_pattern(path: Path) -> str:
    """A file's name for --output and --error, where % stands for something."""
    return str(path.absolute()).replace("%", "%%")


def task(job: Job, gpus: str, ranks: str) -> tuple[str, ...]:
    """What a task executes: a keeper around `counterpoint run`."""
    return supervised(rank_command(job), devices=gpus, tasks=ranks)


def environment_of(more: Mapping[str, str | None], inherited: Mapping[str, str]) -> dict[str, str]:
    """Ours without what tells of our own place, and with more variables; None unsets one."""
    plain = {name: text for name, text in inherited.items() if not name.startswith(_ABOUT_US)}
    both = {**plain, **more}
    return {name: text for name, text in both.items() if text is not None}


def end_steps(job: str, name: str, srun: subprocess.Popen[bytes] | None = None) -> None:
    """End all steps of that name, and the srun that may be about to start one."""

    def without_srun() -> bool:
        if srun is None or srun.poll() is not None:
            return True
        srun.send_signal(signal.SIGTERM)
        return False

    end_all(lambda: steps_named(job, name), without_srun)


def sweep_steps(rest: str) -> None:
    """End what an identity without its first word names."""
    job, _, name = rest.partition(":")
    if job.isdecimal() and name and asked("scontrol", "show", "job", job)[0] == 0:
        end_steps(job, name)


def _port(job: int, number: int) -> int:
    return _PORTS[(job + 257 * number) % len(_PORTS)]
