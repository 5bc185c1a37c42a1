"""Slurm, where long allocations are no good: each trial is a batch job of its own."""

from __future__ import annotations

import os
import shlex
import subprocess
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from counterpoint.core.errors import UsageError
from counterpoint.runs.reader import is_run
from counterpoint.tune.executors.executor import Ended, EndedKind, Job, Shape
from counterpoint.tune.executors.exit_report import Arrival, exit_report, launcher_log
from counterpoint.tune.executors.process_supervisor import start_supervised, supervised
from counterpoint.tune.executors.slurm import (
    JOB,
    alone,
    outside,
    sweep,
    told_options,
    told_shape,
)
from counterpoint.tune.executors.slurm_control import (
    MARK_PREFIX,
    cancel,
    end_all,
    is_over,
    job_fields,
    jobs_named,
    node_names,
)
from counterpoint.tune.executors.slurm_fault import fault
from counterpoint.tune.executors.slurm_queue import Waiting
from counterpoint.tune.executors.slurm_step import environment_of, file_pattern, step_options, task

BATCH: Final = "slurm-batch"
_LOOK_S: Final = 1.0
"""Slurm's controller is everybody's: it is not asked more often."""

_SUBMIT_S: Final = 120.0

_SCRIPT: Final = """#!/bin/sh
gpus="${{SLURM_GPUS_ON_NODE:-0}}"
ranks={ranks}
if [ "$ranks" -lt 1 ]; then
  echo "error: a process per GPU, but the job has none: --slurm '--gpus-per-node=8'" >&2
  exit 2
fi
each="--cpus-per-task=$((SLURM_CPUS_ON_NODE / ranks))"
[ "$SLURM_CPUS_ON_NODE" -ge "$ranks" ] || each=--overcommit
exec srun --nodes={nodes} --ntasks=$(({nodes} * ranks)) --ntasks-per-node="$ranks" "$each" \\
  {options} {words}
"""


def _silent(what: str) -> None:
    del what


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmBatch:
    """`options` are for sbatch, in the user's words. `say` hears of waiting in the queue."""

    shape: Shape = field(default_factory=Shape)
    options: tuple[str, ...] = ()
    say: Callable[[str], None] = _silent

    @property
    def name(self) -> str:
        return BATCH

    def open(self) -> BatchAllocation:
        """Nothing is held between trials."""
        return BatchAllocation(self, f"{MARK_PREFIX}{uuid.uuid4().hex[:12]}")

    def sweep(self, identity: str) -> None:
        """End the job of a gang, or all of an allocation's."""
        kind, _, mark = identity.partition(":")
        if kind != BATCH:
            sweep(identity)
        elif mark.startswith(MARK_PREFIX):
            cancel(jobs_named(mark) or ())

    def describe(self) -> str:
        options = told_options(self.options)
        return f"{self.name}: a job for each trial, {told_shape(self.shape)}{options}"


class BatchAllocation:
    """No nodes, but a name for all jobs of one sitting."""

    def __init__(self, executor: SlurmBatch, mark: str) -> None:
        self._executor = executor
        self._mark = mark
        self._gang: BatchGang | None = None

    @property
    def identity(self) -> str:
        return f"{BATCH}:{self._mark}"

    @property
    def nodes(self) -> tuple[str, ...]:
        """Those of the last trial: the next one may get others."""
        return self._gang.nodes if self._gang else ()

    def start(self, job: Job) -> BatchGang:
        self._gang = _submitted(job, f"{self._mark}-{job.name}", self._executor)
        return self._gang

    def close(self) -> None:
        if self._gang is not None:
            self._gang.kill()
        cancel(jobs_named(self._mark) or ())


class BatchGang:
    """A batch job; beside us waits a keeper that cancels it should we die."""

    def __init__(
        self,
        number: str,
        name: str,
        job: Job,
        guard: subprocess.Popen[bytes],
        say: Callable[[str], None],
    ) -> None:
        self._waiting = Waiting(number, told_shape(job.shape), say)
        self._number = number
        self._name = name
        self._directory = job.directory
        self._guard = guard
        self._arrival: Arrival | None = None
        self._shape = job.shape
        self._asked_at = float("-inf")
        self._queued = True
        self._ended: Ended | None = None
        self.nodes: tuple[str, ...] = ()

    @property
    def identity(self) -> str:
        return f"{JOB}:{self._number}:{self._name}"

    def is_queued(self) -> bool:
        return self._queued and self._ended is None

    def poll(self) -> Ended | None:
        if self._ended is None and time.monotonic() - self._asked_at >= _LOOK_S:
            self._asked_at = time.monotonic()
            fields = job_fields(self._number)
            if fields is not None:
                self._note(fields)
                self._ended = self._told(fields) if is_over(fields) else None
            if self._ended is not None:
                self._let_go()
        return self._ended

    def kill(self) -> None:
        if self._ended is not None:
            return
        if self.is_queued():
            cancel([self._number])
        end_all(self._live, lambda: True)
        self._ended = Ended(kind=EndedKind.KILLED)
        self._let_go()

    def _live(self) -> tuple[str, ...] | None:
        fields = job_fields(self._number)
        if fields is None:
            return None
        return () if not fields or is_over(fields) else (self._number,)

    def _let_go(self) -> None:
        self._guard.terminate()
        self._guard.wait()

    def _note(self, fields: Mapping[str, str]) -> None:
        self._queued = fields.get("JobState") in ("PENDING", "CONFIGURING")
        self._waiting.note(fields)
        if not self._queued and not self.nodes:
            self.nodes = node_names(fields.get("NodeList", ""))

    def _told(self, fields: Mapping[str, str]) -> Ended | None:
        """None while something is still on its way. A job is forgotten some minutes after it."""
        log = launcher_log(self._directory)
        status, _, number = fields.get("ExitCode", "0:0").partition(":")
        code = int(status) or (128 + int(number) if number.isdecimal() and int(number) else 0)
        if fields.get("JobState") != "COMPLETED":
            outside_ = fault(fields, log, ran=is_run(self._directory))
            if outside_ is not None:
                return outside_
            code = code or 1
        if self._arrival is None:
            per_node = self._shape.ranks_per_node or 1
            self._arrival = Arrival(self._directory, self._shape.nodes * per_node)
        return exit_report(self._directory, code) if self._arrival.is_here(code) else None


def _submitted(job: Job, name: str, executor: SlurmBatch) -> BatchGang:
    job.directory.parent.mkdir(parents=True, exist_ok=True)
    log = launcher_log(job.directory)
    words = (
        *("sbatch", "--parsable", f"--job-name={name}", f"--nodes={job.shape.nodes}"),
        *alone(executor.options),
        *("--no-requeue", "--export=ALL", "--input=/dev/null", f"--chdir={Path.cwd()}"),
        *(f"--output={file_pattern(log)}", "--open-mode=append"),
    )
    environment = outside(environment_of(job.environment, os.environ))
    try:
        done = subprocess.run(  # noqa: S603
            words,
            input=batch_script(job),
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=_SUBMIT_S,
        )
    except subprocess.TimeoutExpired:
        cancel(jobs_named(name) or ())  # it may have been taken all the same
        raise UsageError(
            f"sbatch did not answer for {_SUBMIT_S:g} s", next="scontrol ping"
        ) from None
    except OSError as failure:
        raise UsageError(f"sbatch can't be executed: {failure.strerror}") from None
    if done.returncode:
        raise UsageError(
            "Slurm takes no job of " + told_shape(job.shape),
            why=done.stderr.strip().removeprefix("sbatch: error: ") or "sbatch does not say why",
            next="--slurm '--partition=NAME --account=NAME --time=2:00:00'",
        )
    number = done.stdout.strip().partition(";")[0]
    guard = start_supervised(
        supervised(("sleep", "infinity"), with_tuner=True, then=("scancel", number)),
        os.environ,
        subprocess.DEVNULL,
    )
    return BatchGang(number, name, job, guard, executor.say)


def batch_script(job: Job) -> str:
    """A step as large as the job; how many CPUs and GPUs a node has shows only there."""
    shape = job.shape
    per_gpu = shape.ranks_per_node is None and shape.per == "gpu"
    words = shlex.join(task(job, "GPUS", "RANKS"))
    words = words.replace("--devices GPUS --tasks RANKS", '--devices "$gpus" --tasks "$ranks"', 1)
    return _SCRIPT.format(
        ranks='"$gpus"' if per_gpu else shape.ranks_per_node or 1,
        nodes=shape.nodes,
        options=shlex.join(step_options(launcher_log(job.directory))),
        words=words,
    )
