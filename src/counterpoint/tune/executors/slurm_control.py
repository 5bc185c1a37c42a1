"""What Slurm is asked, and told to end: by squeue, scontrol and scancel; accounting may be off."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from counterpoint.core.errors import CounterpointError, UsageError

MARK_PREFIX: Final = "cp-"
_ANSWER_S: Final = 120.0
_QUICK_S: Final = 15.0
_FIELD: Final = re.compile(r"(?:^|\s)([A-Za-z][\w/:]*)=(\S*)")
_ESCALATION: Final[tuple[tuple[float, str], ...]] = (
    (0.0, "--signal=TERM"),  # what runs there ends its ranks, and writes the Run
    (40.0, ""),  # as Slurm ends steps: SIGTERM, and SIGKILL after its KillWait
    (60.0, "--signal=KILL"),
    (120.0, "--signal=KILL"),
)
_LIMIT_S: Final = 300.0
_LOOK_S: Final = 0.2
_UNKNOWN_JOB: Final = "Invalid job id"


def asked(
    *command: str, limit_s: float = _ANSWER_S, environ: Mapping[str, str] | None = None
) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of one of Slurm's commands, by ours or that environment."""
    path = None if environ is None else environ.get("PATH")
    program = shutil.which(command[0], path=path) or command[0]
    try:
        done = subprocess.run(  # noqa: S603 - Slurm's own, found on the PATH
            (program, *command[1:]),
            capture_output=True,
            text=True,
            check=False,
            timeout=limit_s,
            stdin=subprocess.DEVNULL,
            env=environ,
        )
    except subprocess.TimeoutExpired as late:
        said = (late.stderr or b"").decode(errors="replace").strip()
        silent = f"{command[0]} did not answer for {limit_s:g} s"
        return 1, "", f"{said}\n{silent}" if said else silent
    except OSError as failure:
        raise UsageError(
            f"{command[0]} can't be executed: {failure.strerror}",
            why="trials on Slurm need srun, salloc, sbatch, squeue, scontrol and scancel",
            next="--executor local",
        ) from None
    return done.returncode, done.stdout, done.stderr


def job_fields(job: str, environ: Mapping[str, str] | None = None) -> Mapping[str, str] | None:
    """What Slurm knows of a job; empty if it knows none, None if it does not answer."""
    command = ("scontrol", "--details", "--oneliner", "show", "job", job)
    code, told, error = asked(*command, environ=environ)
    if code:
        return {} if _UNKNOWN_JOB in error else None
    found: dict[str, str] = {}
    for name, value in _FIELD.findall(told):
        found.setdefault(name, value)
    return {**found, "": told}


def refuse_silence(environ: Mapping[str, str] | None = None) -> None:
    """A UsageError where Slurm's controller can't be reached, after some seconds."""
    code, told, error = asked("scontrol", "ping", limit_s=_QUICK_S, environ=environ)
    if code or " is DOWN" in told:
        raise UsageError(
            "Slurm's controller does not answer",
            why=error.strip() or told.strip() or None,
            next="scontrol ping",
        )


def partition_fields(name: str) -> Mapping[str, str]:
    """What Slurm knows of a partition; empty if it knows none."""
    code, told, _ = asked("scontrol", "--oneliner", "show", "partition", name)
    return {} if code else dict(_FIELD.findall(told))


def dead_nodes(names: Sequence[str]) -> tuple[str, ...]:
    """Those that are down, or do not answer Slurm."""
    _, told, _ = asked("sinfo", "--noheader", "--Node", f"--nodes={','.join(names)}", "-o", "%N|%T")
    pairs = (line.strip().partition("|") for line in told.splitlines())
    dead = (name for name, _, state in pairs if state.endswith("*") or "down" in state)
    return tuple(dict.fromkeys(dead))


def node_names(expression: str, environ: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """`n[0-1],m3` in full."""
    _, told, _ = asked("scontrol", "show", "hostnames", expression, environ=environ)
    return tuple(told.split())


def steps_named(job: str, name: str) -> tuple[str, ...] | None:
    """Steps of a job that have this name, or begin with it and a dash; None for no answer."""
    code, told, error = asked("squeue", "--noheader", "--steps", f"--jobs={job}", "-o", "%i|%j")
    if code:
        return () if _UNKNOWN_JOB in error else None
    pairs = (line.strip().partition("|") for line in told.splitlines())
    return tuple(it for it, _, own in pairs if own == name or own.startswith(f"{name}-"))


def jobs_named(name: str) -> tuple[str, ...] | None:
    """Jobs that wait, run or end, as `steps_named`."""
    code, told, _ = asked("squeue", "--noheader", "--states=all", "-o", "%i|%j|%T")
    if code:
        return None
    rows = (line.strip().split("|") for line in told.splitlines())
    return tuple(
        row[0]
        for row in rows
        if len(row) == 3
        and (row[1] == name or row[1].startswith(f"{name}-"))
        and row[2] in ("PENDING", "CONFIGURING", "RUNNING", "SUSPENDED", "COMPLETING", "STOPPED")
    )


def end_all(what: Callable[[], Sequence[str] | None], then: Callable[[], bool]) -> None:
    """End the jobs or steps that `what` names, and return when there are none.

    `then` is called whenever there are none right now, and tells whether that is for good. All of
    them are asked first, then killed.
    """
    began, done = time.monotonic(), 0
    while True:
        over = time.monotonic() - began
        left = what()
        if left is not None and not left and then():
            return
        if over > _LIMIT_S:
            names = ", ".join(left) if left else "Slurm's controller"
            raise CounterpointError(
                f"{names} did not end within {_LIMIT_S:g} s" if left else f"{names} is silent",
                why="what runs there can't be killed, or its node does not answer",
                next=f"scancel --signal=KILL {' '.join(left)}" if left else "scontrol ping",
            )
        due = sum(after <= over for after, _ in _ESCALATION)
        if left and due > done:
            option = _ESCALATION[due - 1][1]
            asked("scancel", "--quiet", *([option] if option else []), *left)
            done = due
        time.sleep(_LOOK_S)


def cancel(jobs: Sequence[str]) -> None:
    """Cancel jobs, whether they wait or run, and return when they are gone."""
    if not jobs:
        return
    asked("scancel", "--quiet", *jobs)
    end_all(lambda: _live(jobs), lambda: True)


def _live(jobs: Sequence[str]) -> tuple[str, ...] | None:
    told = {job: job_fields(job) for job in jobs}
    if any(fields is None for fields in told.values()):
        return None
    return tuple(job for job, fields in told.items() if fields and not is_over(fields))


def is_over(fields: Mapping[str, str]) -> bool:
    """Whether a job has ended, and its nodes are free again."""
    return fields.get("JobState") not in (
        *("PENDING", "CONFIGURING", "RUNNING", "SUSPENDED", "COMPLETING", "STOPPED"),
        *("REQUEUED", "RESIZING", "SIGNALING", "STAGE_OUT"),
    )
