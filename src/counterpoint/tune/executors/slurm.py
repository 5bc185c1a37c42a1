"""Slurm: trials as steps (`srun`) of one allocation, the job around us or one of our own.

Each srun and salloc runs under a supervisor, and so does each task on the nodes, so that no process
of a trial outlives the tuner.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from counterpoint.core import CounterpointError, UsageError
from counterpoint.core.scratch import scratch_directory
from counterpoint.runs.layout import is_run
from counterpoint.runs.outcomes import Outcome, OutcomeKind
from counterpoint.runs.reader import read_run
from counterpoint.tune.executors.executor import (
    ExecutorKind,
    GangEnd,
    GangEndKind,
    PlaceRequest,
    ProcessShape,
    StoppedWaiting,
    TrialJob,
    rank_command,
    shape_text,
)
from counterpoint.tune.executors.exit_report import Arrival, exit_report, last_words, launcher_log
from counterpoint.tune.executors.process_supervisor import (
    USUAL_TIMES,
    EndingTimes,
    start_supervised,
    supervised,
)
from counterpoint.tune.executors.slurm_control import (
    MARK_PREFIX,
    Grant,
    QueueWatch,
    SlurmOptions,
    cancel,
    dead_nodes,
    end_all,
    fault,
    job_fields,
    jobs_named,
    outside,
    read_grant,
    refuse_missing_tools,
    refuse_silence,
    steps_named,
    submit_options,
)

STEPS: Final = "slurm-steps"
JOB: Final = "slurm-job"
BATCH: Final = "slurm-batch"
_GRANTED: Final = "counterpoint: granted"
_SALLOC: Final = f'salloc "$@" && echo "{_GRANTED}" >&2 && exec sleep infinity'
"""The sleep ends with the allocation; while it runs, its supervisor watches the tuner."""
_GRANT_LOOK_S: Final = 0.2
_STEP_LOOK_S: Final = 0.5
_PORTS: Final = range(61440, 65536)
"""JAX derives its port from the job's number: the same for all steps, so we assign others."""
_ABOUT_US: Final = (
    *("SLURM_STEP", "SLURM_NTASKS", "SLURM_NPROCS", "SLURM_TASK", "SLURM_MEM_PER", "SLURM_NNODES"),
    *("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_GTIDS", "SLURM_CPUS_PER_TASK"),
    *("SLURM_NODELIST", "SLURM_JOB_NODELIST", "SLURM_JOB_NUM_NODES", "SLURM_EXPORT_ENV"),
    *("SLURM_DISTRIBUTION", "SLURM_EXACT", "SLURM_EXCLUSIVE", "SLURM_OVER", "SLURM_SRUN_"),
    *("SLURM_JOB_CPUS", "SLURM_CPUS_ON", "SLURM_LAUNCH_", "SRUN_CPUS_PER_TASK", "SLURM_RESTART"),
)
"""Prefixes of variables that describe the tuner's own task; srun takes some as its options."""
_FIRST_INTERNAL_STEP: Final = 0xFFFFFFF0
"""Steps from here on are not steps of srun: those of batch scripts, and of salloc's shell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slurm:
    """Trials as Slurm steps. `within` is the job around us; without it each `open` calls salloc.

    `options` are for salloc, in the user's words. `say` gets reports on waiting in the queue, which
    ends when `stopped` is true.
    """

    shape: ProcessShape = field(default_factory=ProcessShape)
    within: str | None = None
    options: tuple[str, ...] = ()
    say: Callable[[str], None] = lambda _: None
    stopped: Callable[[], bool] = lambda: False
    ending: EndingTimes = USUAL_TIMES

    @property
    def name(self) -> str:
        return SLURM.name

    def open(self) -> SlurmAllocation:
        mark = new_mark()
        if self.within is not None:
            grant = read_grant(self.within)
            grant.ranks_per_node(self.shape)  # refuses what has no room
            return SlurmAllocation(grant, mark, None, self.ending)
        return _allocated(mark, self)

    def sweep(self, identity: str) -> None:
        sweep(identity)

    def describe(self) -> str:
        where = f"steps of job {self.within}" if self.within else "steps of its own allocation"
        return f"{self.name}: {where}, {request_text(self.shape, self.options)}"


class SlurmAllocation:
    """A Slurm job in which our steps run; with a guard it is ours, and ends with us."""

    def __init__(
        self,
        grant: Grant,
        mark: str,
        guard: subprocess.Popen[bytes] | None,
        ending: EndingTimes,
    ) -> None:
        self._grant = grant
        self._mark = mark
        self._guard = guard
        self._ending = ending
        self._started = 0
        self._gang: StepGang | None = None

    @property
    def identity(self) -> str:
        return f"{STEPS if self._guard is None else JOB}:{self._grant.job}:{self._mark}"

    @property
    def nodes(self) -> tuple[str, ...]:
        return self._grant.nodes

    def start(self, job: TrialJob) -> StepGang:
        self._started += 1
        name = f"{self._mark}-{job.name}"
        self._gang = _start_step(job, self._grant, name, self._started, self._ending)
        return self._gang

    def close(self) -> None:
        if self._gang is not None:
            self._gang.kill()
        _end_steps(self._grant.job, self._mark, self._ending)
        if self._guard is not None:
            cancel([self._grant.job])
            self._guard.terminate()
            self._guard.wait()


class StepGang:
    """A supervised srun on this machine, and its tasks on the nodes, each supervised, too."""

    def __init__(
        self,
        srun: subprocess.Popen[bytes],
        job: TrialJob,
        grant: Grant,
        name: str,
        ending: EndingTimes,
    ) -> None:
        self._srun = srun
        self._ending = ending
        self._directory = job.directory
        self._job = grant.job
        self._nodes = grant.nodes[: job.shape.nodes]
        self._name = name
        self._looked_at = float("-inf")
        self._arrival = Arrival(job.directory, job.shape.nodes * grant.ranks_per_node(job.shape))
        self._ended: GangEnd | None = None

    @property
    def identity(self) -> str:
        return f"{STEPS}:{self._job}:{self._name}"

    def poll(self) -> GangEnd | None:
        due = time.monotonic() - self._looked_at >= _STEP_LOOK_S
        if self._ended is None and due and (code := self._srun.poll()) is not None:
            self._looked_at = time.monotonic()
            left = steps_named(self._job, self._name)
            if left:  # its srun was killed, or has stopped waiting
                _end_steps(self._job, self._name, self._ending)
            if left is not None:
                self._ended = self._judge(code)
        return self._ended

    def kill(self) -> None:
        if self._ended is not None:
            return
        _end_steps(self._job, self._name, self._ending, self._srun)
        self._ended = GangEnd(kind=GangEndKind.KILLED)

    def _judge(self, code: int) -> GangEnd | None:
        """Return how it ended; None while part of the Run is still in transit.

        srun's exit code alone proves nothing: it is also 0 if the node of a step died.
        """
        outcome = _outcome(self._directory)
        if code or outcome is None or not outcome.ok:
            fields = job_fields(self._job)
            if fields is None or fields.get("JobState") == "COMPLETING":
                return None
            if (outside := self._from_outside(fields)) is not None:
                return outside
        if not self._arrival.is_here(code):
            return None
        if code < 0:
            return GangEnd(kind=GangEndKind.LOST, detail=f"srun died of signal {-code}")
        outcome = _outcome(self._directory)
        if code == 0 and outcome and outcome.kind in (OutcomeKind.RUNNING, OutcomeKind.LOST):
            return GangEnd(
                kind=GangEndKind.LOST, detail="srun ended, but no rank wrote how it ended"
            )
        return exit_report(self._directory, code)

    def _from_outside(self, fields: Mapping[str, str]) -> GangEnd | None:
        log, ran = launcher_log(self._directory), is_run(self._directory)
        if found := fault(fields, log, ran=ran):
            return found
        if not (dead := dead_nodes(self._nodes)):
            return None
        detail = f"{', '.join(dead)} is down, or does not answer Slurm"
        return GangEnd(kind=GangEndKind.NODE_FAULT, detail=detail)


def _outcome(directory: Path) -> Outcome | None:
    try:
        return read_run(directory).outcome if is_run(directory) else None
    except (OSError, CounterpointError):
        return None  # only part of it has arrived


def new_mark() -> str:
    """Return a unique name for all that one allocation starts, by which it can be found."""
    return f"{MARK_PREFIX}{uuid.uuid4().hex[:12]}"


def sweep(identity: str) -> None:
    """End the steps, the job or the jobs of an identity; a job only if it still has the name."""
    kind, _, rest = identity.partition(":")
    job, _, name = rest.partition(":")
    if kind == BATCH and rest.startswith(MARK_PREFIX):
        cancel(jobs_named(rest))
    elif kind in (STEPS, JOB) and job.isdecimal() and name.startswith(MARK_PREFIX):
        fields = job_fields(job)
        if kind == STEPS and fields:
            _end_steps(job, name, USUAL_TIMES)
        elif fields and fields.get("JobName") == name:
            cancel([job])


def request_text(shape: ProcessShape, options: tuple[str, ...]) -> str:
    """Describe a request: `2 nodes, a process per GPU (--partition=gpu)`."""
    return shape_text(shape) + (f" ({shlex.join(options)})" if options else "")


def exclusive(options: tuple[str, ...]) -> tuple[str, ...]:
    """Request whole nodes with all memory, unless the options differ: neighbors cause noise."""
    shared = any(option.startswith(("--exclusive", "--oversubscribe", "-s")) for option in options)
    memory = any(option.startswith("--mem") for option in options)
    return (*(() if shared else ("--exclusive",)), *(() if memory else ("--mem=0",)), *options)


def step_environment(more: Mapping[str, str | None]) -> dict[str, str]:
    """Return our variables without those of our own task, and with more; None unsets one."""
    plain = {name: text for name, text in os.environ.items() if not name.startswith(_ABOUT_US)}
    both = {**plain, **more}
    return {name: text for name, text in both.items() if text is not None}


def step_options(log: Path) -> tuple[str, ...]:
    """Return options of every srun of ours: ranks die together, and inherit srun's environment.

    What ranks print is in the Run; their stderr also goes to the log, for output from before there
    is a Run. The log is opened for appending, because srun itself writes to it, too.
    """
    return (
        *("--mem=0", "--kill-on-bad-exit=1", "--export=ALL", "--input=none", "--output=none"),
        *(f"--error={file_pattern(log)}", "--open-mode=append"),
    )


def file_pattern(path: Path) -> str:
    """Return a file name for --output and --error, in which % is special."""
    return str(path.absolute()).replace("%", "%%")


def task(job: TrialJob, share: str, ending: EndingTimes) -> tuple[str, ...]:
    """Return the command of a task: a supervisor around `counterpoint run`."""
    return supervised(rank_command(job), times=ending, share=share)


def _allocated(mark: str, executor: Slurm) -> SlurmAllocation:
    shape = executor.shape
    request = ("--no-shell", f"--job-name={mark}", f"--nodes={shape.nodes}")
    salloc = ("sh", "-c", _SALLOC, "salloc", *request, *exclusive(executor.options))
    with scratch_directory("salloc") as directory:
        log = directory / "salloc.log"
        with log.open("wb") as output:
            guard = start_supervised(
                supervised(
                    salloc,
                    with_tuner=True,
                    then=("scancel", f"--name={mark}"),
                    times=executor.ending,
                ),
                outside(os.environ),
                output,
            )
        try:
            _wait_for_grant(guard, log, executor)
            (job,) = jobs_named(mark) or ("",)
            grant = read_grant(job)
            grant.ranks_per_node(shape)
        except BaseException:
            guard.terminate()
            cancel(jobs_named(mark))
            guard.wait()
            cancel(jobs_named(mark))  # it may have been queued meanwhile
            raise
    return SlurmAllocation(grant, mark, guard, executor.ending)


def _wait_for_grant(guard: subprocess.Popen[bytes], log: Path, executor: Slurm) -> None:
    what, watch = shape_text(executor.shape), None
    while True:
        over = guard.poll() is not None
        text = log.read_text(encoding="utf-8", errors="replace")
        if _GRANTED in text:
            return
        if over:
            raise UsageError(
                f"Slurm grants no allocation of {what}",
                why=last_words(log) or "salloc gives no reason",
                next="use --slurm '--partition=NAME --account=NAME --time=2:00:00'",
            )
        if executor.stopped():
            raise StoppedWaiting("stopped while waiting in Slurm's queue")
        if watch is None and (queued := re.search(r"Pending job allocation (\d+)", text)):
            watch = QueueWatch(queued.group(1), what, executor.say)
        if watch is not None:
            watch.look()
        time.sleep(_GRANT_LOOK_S)


def _start_step(
    job: TrialJob, grant: Grant, name: str, number: int, ending: EndingTimes
) -> StepGang:
    """Start a step; `number` counts the steps of the allocation."""
    job.directory.parent.mkdir(parents=True, exist_ok=True)
    log = launcher_log(job.directory)
    ranks = grant.ranks_per_node(job.shape)
    nodes = grant.nodes[: job.shape.nodes]
    command = (
        *("srun", f"--jobid={grant.job}", f"--job-name={name}", f"--nodelist={','.join(nodes)}"),
        *(f"--nodes={len(nodes)}", f"--ntasks={len(nodes) * ranks}", f"--ntasks-per-node={ranks}"),
        f"--cpus-per-task={grant.cpus // ranks}" if grant.cpus >= ranks else "--overcommit",
        *step_options(log),
        *task(job, f"{grant.gpus}/{ranks}", ending),
    )
    port = _PORTS[(int(grant.job) + 257 * number) % len(_PORTS)]
    environment = {"JAX_COORDINATOR_PORT": str(port), **step_environment(job.environment)}
    with log.open("ab") as output:
        srun = start_supervised(
            supervised(command, with_tuner=True, stop="15,15", times=ending),
            environment | {"SLURM_JOB_ID": grant.job},
            output,
        )
    return StepGang(srun, job, grant, name, ending)


def _end_steps(
    job: str, name: str, ending: EndingTimes, srun: subprocess.Popen[bytes] | None = None
) -> None:
    """End all steps of that name, and the srun that may be about to start one."""

    def srun_ended() -> bool:
        if srun is None or srun.poll() is not None:
            return True
        srun.send_signal(signal.SIGTERM)
        return False

    end_all(lambda: steps_named(job, name), ending, srun_ended)


def _refuse_job_around(job: str, shape: ProcessShape, variables: Mapping[str, str]) -> None:
    """Reject the job around us if we are a step of it, or if it is over or too small."""
    step = variables.get("SLURM_STEP_ID", "")
    if step.isdecimal() and int(step) < _FIRST_INTERNAL_STEP:
        raise UsageError(
            f"tune runs in Slurm's step {job}.{step}, which holds the resources that trials need",
            why="srun started the tuner, and a step within a step waits forever",
            next="start it from the batch script or salloc's shell, without srun",
        )
    refuse_silence(variables)
    read_grant(job, variables).ranks_per_node(shape)


def _make(request: PlaceRequest[SlurmOptions]) -> Slurm:
    within = request.environ.get("SLURM_JOB_ID")
    refuse_missing_tools(request.environ, "srun" if within else "salloc")
    if within is not None and request.options.slurm:
        raise UsageError(
            f"--slurm {request.options.slurm!r}: Slurm job {within} is already allocated",
            why="trials run as steps of it",
            next="remove it, or start outside of the allocation",
        )
    if within is not None:
        _refuse_job_around(within, request.shape, request.environ)
    return Slurm(
        shape=request.shape,
        within=within,
        options=() if within else submit_options(request),
        say=request.say,
        stopped=request.stopped,
        ending=request.ending,
    )


def _nodes_around(environ: Mapping[str, str]) -> int | None:
    """Return the number of nodes of the Slurm job around us; None if there is none."""
    count = environ.get("SLURM_JOB_NUM_NODES", "")
    return int(count) if count.isdecimal() and "SLURM_JOB_ID" in environ else None


SLURM: Final = ExecutorKind(
    name="slurm",
    summary="steps in one allocation of Slurm",
    make=_make,
    options=SlurmOptions,
    variables=("SLURM_JOB_ID",),
    holds_nodes=True,
    nodes_around=_nodes_around,
)
