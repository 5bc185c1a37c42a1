"""Slurm batch jobs, one per trial, for clusters that discourage long allocations."""

from __future__ import annotations

import os
import shlex
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from counterpoint.core import UsageError
from counterpoint.runs.layout import is_run
from counterpoint.tune.executors.executor import (
    ExecutorKind,
    GangEnd,
    GangEndKind,
    PlaceRequest,
    ProcessShape,
    TrialJob,
    shape_text,
)
from counterpoint.tune.executors.exit_report import Arrival, exit_report, launcher_log
from counterpoint.tune.executors.process_supervisor import (
    USUAL_TIMES,
    EndingTimes,
    start_supervised,
    supervised,
)
from counterpoint.tune.executors.slurm import (
    BATCH,
    JOB,
    exclusive,
    file_pattern,
    new_mark,
    request_text,
    step_environment,
    step_options,
    sweep,
    task,
)
from counterpoint.tune.executors.slurm_control import (
    QueueWatch,
    SlurmOptions,
    cancel,
    end_all,
    fault,
    is_over,
    job_fields,
    jobs_named,
    live_jobs,
    node_names,
    outside,
    refuse_missing_tools,
    submit_options,
)

_LOOK_S: Final = 1.0
"""Limits requests to Slurm's controller, which all users share."""
_SUBMIT_S: Final = 120.0

_SCRIPT: Final = """#!/bin/sh
gpus="${{SLURM_GPUS_ON_NODE:-0}}"
ranks={ranks}
if [ "$ranks" -lt 1 ]; then
  echo "error: a process per GPU, but the job has none; ask Slurm for --gpus-per-node=8" >&2
  exit 2
fi
each="--cpus-per-task=$((SLURM_CPUS_ON_NODE / ranks))"
[ "$SLURM_CPUS_ON_NODE" -ge "$ranks" ] || each=--overcommit
exec srun --nodes={nodes} --ntasks=$(({nodes} * ranks)) --ntasks-per-node="$ranks" "$each" \\
  {options} {words}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmBatch:
    """Trials as batch jobs. `options` are for sbatch; `say` gets reports on the queue."""

    shape: ProcessShape = field(default_factory=ProcessShape)
    options: tuple[str, ...] = ()
    say: Callable[[str], None] = lambda _: None
    ending: EndingTimes = USUAL_TIMES

    @property
    def name(self) -> str:
        return BATCH

    def open(self) -> BatchAllocation:
        """Return an allocation that holds no nodes between trials."""
        return BatchAllocation(self, new_mark())

    def sweep(self, identity: str) -> None:
        sweep(identity)

    def describe(self) -> str:
        return f"{self.name}: a job for each trial, {request_text(self.shape, self.options)}"


class BatchAllocation:
    """A name for all jobs of one session, without nodes."""

    def __init__(self, executor: SlurmBatch, mark: str) -> None:
        self._executor = executor
        self._mark = mark
        self._gang: BatchGang | None = None

    @property
    def identity(self) -> str:
        return f"{BATCH}:{self._mark}"

    @property
    def nodes(self) -> tuple[str, ...]:
        """Nodes of the last trial: the next one may get others."""
        return self._gang.nodes if self._gang else ()

    def start(self, job: TrialJob) -> BatchGang:
        name = f"{self._mark}-{job.name}"
        self._gang = BatchGang(_submit(job, name, self._executor), name, job, self._executor)
        return self._gang

    def close(self) -> None:
        if self._gang is not None:
            self._gang.kill()
        cancel(jobs_named(self._mark))


class BatchGang:
    """A batch job, with a supervisor on this machine that cancels it if the tuner dies."""

    def __init__(self, number: str, name: str, job: TrialJob, executor: SlurmBatch) -> None:
        self._number = number
        self._name = name
        self._ending = executor.ending
        self._directory = job.directory
        self._guard = start_supervised(
            supervised(("sleep", "infinity"), with_tuner=True, then=("scancel", number)),
            os.environ,
            subprocess.DEVNULL,
        )
        self._watch = QueueWatch(number, shape_text(job.shape), executor.say)
        self._arrival = Arrival(job.directory, job.shape.nodes * (job.shape.ranks_per_node or 1))
        self._looked_at = float("-inf")
        self._queued = True
        self._ended: GangEnd | None = None
        self.nodes: tuple[str, ...] = ()

    @property
    def identity(self) -> str:
        return f"{JOB}:{self._number}:{self._name}"

    def is_queued(self) -> bool:
        return self._queued and self._ended is None

    def poll(self) -> GangEnd | None:
        if self._ended is None and time.monotonic() - self._looked_at >= _LOOK_S:
            self._looked_at = time.monotonic()
            fields = job_fields(self._number)
            if fields is not None:
                self._note(fields)
                if is_over(fields) and (ended := self._judge(fields)) is not None:
                    self._end(ended)
        return self._ended

    def kill(self) -> None:
        if self._ended is not None:
            return
        if self._queued:
            cancel([self._number])
        end_all(lambda: live_jobs([self._number]), self._ending)
        self._end(GangEnd(kind=GangEndKind.KILLED))

    def _end(self, ended: GangEnd) -> None:
        self._ended = ended
        self._guard.terminate()
        self._guard.wait()

    def _note(self, fields: Mapping[str, str]) -> None:
        self._queued = fields.get("JobState") in ("PENDING", "CONFIGURING")
        self._watch.note(fields)
        if not self._queued and not self.nodes:
            self.nodes = node_names(fields.get("NodeList", ""))

    def _judge(self, fields: Mapping[str, str]) -> GangEnd | None:
        """Return how it ended; None while part of the Run is still in transit."""
        status, _, number = fields.get("ExitCode", "0:0").partition(":")
        code = int(status) or (128 + int(number) if number.isdecimal() and int(number) else 0)
        if fields.get("JobState") != "COMPLETED":
            ran = is_run(self._directory)
            ended = fault(fields, launcher_log(self._directory), ran=ran)
            if ended is not None:
                return ended
            code = code or 1
        return exit_report(self._directory, code) if self._arrival.is_here(code) else None


def _submit(job: TrialJob, name: str, executor: SlurmBatch) -> str:
    """Submit a job, and return its number."""
    job.directory.parent.mkdir(parents=True, exist_ok=True)
    words = (
        *("sbatch", "--parsable", f"--job-name={name}", f"--nodes={job.shape.nodes}"),
        *exclusive(executor.options),
        *("--no-requeue", "--export=ALL", "--input=/dev/null", f"--chdir={Path.cwd()}"),
        *(f"--output={file_pattern(launcher_log(job.directory))}", "--open-mode=append"),
    )
    try:
        done = subprocess.run(  # noqa: S603
            words,
            input=batch_script(job, executor.ending),
            env=outside(step_environment(job.environment)),
            capture_output=True,
            text=True,
            check=False,
            timeout=_SUBMIT_S,
        )
    except subprocess.TimeoutExpired:
        cancel(jobs_named(name))  # it may have been accepted nevertheless
        raise UsageError(
            f"sbatch did not answer within {_SUBMIT_S:g} s", next="scontrol ping"
        ) from None
    except OSError as failure:
        raise UsageError(f"sbatch can't be executed: {failure.strerror}") from None
    if done.returncode:
        raise UsageError(
            f"Slurm accepts no job of {shape_text(job.shape)}",
            why=done.stderr.strip().removeprefix("sbatch: error: ") or "sbatch gives no reason",
            next="use --slurm '--partition=NAME --account=NAME --time=2:00:00'",
        )
    return done.stdout.strip().partition(";")[0]


def batch_script(job: TrialJob, ending: EndingTimes) -> str:
    """Return a script that starts one step on the whole job, whose node knows its CPUs and GPUs."""
    shape = job.shape
    per_gpu = shape.ranks_per_node is None and shape.per == "gpu"
    words = shlex.join(task(job, "GPUS/RANKS", ending))
    words = words.replace("--share GPUS/RANKS", '--share "$gpus/$ranks"', 1)
    return _SCRIPT.format(
        ranks='"$gpus"' if per_gpu else shape.ranks_per_node or 1,
        nodes=shape.nodes,
        options=shlex.join(step_options(launcher_log(job.directory))),
        words=words,
    )


def _make(request: PlaceRequest[SlurmOptions]) -> SlurmBatch:
    refuse_missing_tools(request.environ, "sbatch")
    options = submit_options(request)
    return SlurmBatch(shape=request.shape, options=options, say=request.say, ending=request.ending)


SLURM_BATCH: Final = ExecutorKind(
    name=BATCH,
    summary="one job of Slurm per trial",
    make=_make,
    options=SlurmOptions,
)
