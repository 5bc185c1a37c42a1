"""Slurm: trials as steps of one allocation, the one around us or one of our own."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from counterpoint.core.errors import UsageError
from counterpoint.tune.executors.executor import Job, Shape, StoppedWaiting
from counterpoint.tune.executors.exit_report import last_words
from counterpoint.tune.executors.process_supervisor import start_supervised, supervised
from counterpoint.tune.executors.slurm_control import MARK_PREFIX, cancel, job_fields, jobs_named
from counterpoint.tune.executors.slurm_grant import Grant, read_grant
from counterpoint.tune.executors.slurm_queue import Waiting
from counterpoint.tune.executors.slurm_step import (
    STEPS,
    StepGang,
    end_steps,
    environment_of,
    start_step,
    sweep_steps,
)

JOB: Final = "slurm-job"
_GRANTED: Final = "counterpoint: granted"
_LOOK_S: Final = 0.2
_SALLOC: Final = f'salloc "$@" && echo "{_GRANTED}" >&2 && exec sleep infinity'
"""What sleeps is ended with the allocation; while it is there, a keeper watches over the tuner."""


def _silent(what: str) -> None:
    del what


@dataclass(frozen=True, slots=True, kw_only=True)
class Slurm:
    """`within` is the job around us; without one each `open` is an allocation by salloc.

    `options` are for salloc, in the user's words. `say` hears of waiting in the queue, which ends
    once `stopped` says so.
    """

    shape: Shape = field(default_factory=Shape)
    within: str | None = None
    options: tuple[str, ...] = ()
    say: Callable[[str], None] = _silent
    stopped: Callable[[], bool] = lambda: False

    @property
    def name(self) -> str:
        return "slurm"

    def open(self) -> SlurmAllocation:
        mark = f"{MARK_PREFIX}{uuid.uuid4().hex[:12]}"
        if self.within is not None:
            grant = read_grant(self.within)
            grant.refuse_more(self.shape.nodes)
            return SlurmAllocation(grant, mark, None)
        return _allocated(mark, self)

    def sweep(self, identity: str) -> None:
        sweep(identity)

    def describe(self) -> str:
        where = f"steps in job {self.within}" if self.within else "steps in an allocation of ours"
        return f"{self.name}: {where}, {told_shape(self.shape)}{told_options(self.options)}"


class SlurmAllocation:
    """A job of Slurm's, in which our steps run; with a guard it is ours, and ends with us."""

    def __init__(self, grant: Grant, mark: str, guard: subprocess.Popen[bytes] | None) -> None:
        self._grant = grant
        self._mark = mark
        self._guard = guard
        self._started = 0
        self._gang: StepGang | None = None

    @property
    def identity(self) -> str:
        return f"{STEPS if self._guard is None else JOB}:{self._grant.job}:{self._mark}"

    @property
    def nodes(self) -> tuple[str, ...]:
        return self._grant.nodes

    def start(self, job: Job) -> StepGang:
        self._grant.refuse_more(job.shape.nodes)
        self._started += 1
        name = f"{self._mark}-{job.name}"
        self._gang = start_step(job, self._grant, name, self._started)
        return self._gang

    def close(self) -> None:
        if self._gang is not None:
            self._gang.kill()
        end_steps(self._grant.job, self._mark)
        if self._guard is not None:
            cancel([self._grant.job])
            self._guard.terminate()
            self._guard.wait()


def sweep(identity: str) -> None:
    """End the steps or the job of that identity; a job only if it still has the name."""
    kind, _, rest = identity.partition(":")
    if kind == STEPS:
        sweep_steps(rest)
    elif kind == JOB:
        job, _, name = rest.partition(":")
        fields = job_fields(job) if job.isdecimal() and name.startswith(MARK_PREFIX) else None
        if fields and fields.get("JobName") == name:
            cancel([job])


def told_shape(shape: Shape) -> str:
    """`2 nodes, a process per GPU`."""
    nodes = f"{shape.nodes} node{'' if shape.nodes == 1 else 's'}"
    count = shape.ranks_per_node
    if count is not None:
        return f"{nodes}, {count} process{'' if count == 1 else 'es'} on each"
    return f"{nodes}, a process per {'GPU' if shape.per == 'gpu' else 'node'}"


def told_options(options: tuple[str, ...]) -> str:
    return f" ({shlex.join(options)})" if options else ""


def alone(options: tuple[str, ...]) -> tuple[str, ...]:
    """Whole nodes with all their memory, unless the user says otherwise: neighbours make noise."""
    shared = any(it.startswith(("--exclusive", "--oversubscribe", "-s")) for it in options)
    memory = any(it.startswith("--mem") for it in options)
    return (
        *(() if shared else ("--exclusive",)),
        *(() if memory else ("--mem=0",)),
        *options,
    )


def _allocated(mark: str, executor: Slurm) -> SlurmAllocation:
    shape = executor.shape
    words = (
        *("--no-shell", f"--job-name={mark}", f"--nodes={shape.nodes}"),
        *alone(executor.options),
    )
    with TemporaryDirectory(prefix="counterpoint-") as directory:
        log = Path(directory) / "salloc.log"
        with log.open("wb") as output:
            guard = start_supervised(
                supervised(
                    ("sh", "-c", _SALLOC, "salloc", *words),
                    with_tuner=True,
                    then=("scancel", f"--name={mark}"),
                ),
                outside(environment_of({}, os.environ)),
                output,
            )
        try:
            _wait_for_grant(guard, log, executor)
            (job,) = jobs_named(mark) or ("",)
            grant = read_grant(job)
            grant.refuse_more(shape.nodes)
        except BaseException:
            guard.terminate()
            cancel(jobs_named(mark) or ())
            guard.wait()
            cancel(jobs_named(mark) or ())  # it may have been queued meanwhile
            raise
    return SlurmAllocation(grant, mark, guard)


def _wait_for_grant(guard: subprocess.Popen[bytes], log: Path, executor: Slurm) -> None:
    what, waiting = told_shape(executor.shape), None
    while True:
        over = guard.poll() is not None
        text = log.read_text(encoding="utf-8", errors="replace")
        if _GRANTED in text:
            return
        if over:
            raise UsageError(
                f"Slurm gives no allocation of {what}",
                why=last_words(log) or "salloc does not say why",
                next="--slurm '--partition=NAME --account=NAME --time=2:00:00'",
            )
        if executor.stopped():
            raise StoppedWaiting("stopped while it waited in Slurm's queue")
        if waiting is None and (queued := re.search(r"Pending job allocation (\d+)", text)):
            waiting = Waiting(queued.group(1), what, executor.say)
        if waiting is not None:
            waiting.look()
        time.sleep(_LOOK_S)


def outside(variables: Mapping[str, str]) -> dict[str, str]:
    """Without the job around us: what is asked for is another one."""
    keep = ("SLURM_CONF", "SLURM_CLUSTERS", "SLURM_TIME_FORMAT")
    return {k: v for k, v in variables.items() if not k.startswith("SLURM_") or k in keep}
