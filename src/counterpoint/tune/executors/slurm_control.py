"""Slurm's controller: the state of jobs, steps and nodes, and how to end them.

Everything is read by squeue, sinfo and scontrol and ended by scancel, since accounting may be off.

    job_fields ──► Grant        the nodes of a job, with their CPUs and GPUs
               ──► QueueWatch   the reason why a job is pending
               ──► fault        what ended a job from outside
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Final

from counterpoint.core import CounterpointError, UsageError
from counterpoint.tune.executors.executor import (
    GangEnd,
    GangEndKind,
    PlaceRequest,
    ProcessShape,
    ranks_on_node,
)
from counterpoint.tune.executors.exit_report import tail
from counterpoint.tune.executors.process_supervisor import USUAL_TIMES, EndingTimes

MARK_PREFIX: Final = "cp-"
_QUICK_S: Final = 15.0
_ANSWER_S: Final = 120.0
_LOOK_S: Final = 0.2
_QUEUE_LOOK_S: Final = 1.0
"""Limits queries of the queue: all users share the controller."""
_BUSY: Final = 1.5
"""Supervisors on busy nodes may need so many times as long as they should."""
_END_LIMIT_S: Final = 300.0
_FIELD: Final = re.compile(r"(?:^|\s)([A-Za-z][\w/:]*)=(\S*)")
_UNKNOWN_JOB: Final = "Invalid job id"
_ACTIVE: Final = ("PENDING", "CONFIGURING", "RUNNING", "SUSPENDED", "COMPLETING", "STOPPED")
_CHANGING: Final = ("REQUEUED", "RESIZING", "SIGNALING", "STAGE_OUT")


def slurm(
    *command: str, limit_s: float = _ANSWER_S, environ: Mapping[str, str] | None = None
) -> tuple[int, str, str]:
    """Run a Slurm command; return exit code, stdout and stderr. No answer in time is code 1."""
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
        errors = (late.stderr or b"").decode(errors="replace")
        return 1, "", f"{errors}\n{command[0]} did not answer within {limit_s:g} s".strip()
    except OSError as failure:
        raise UsageError(
            f"{command[0]} can't be executed: {failure.strerror}",
            why="trials on Slurm need srun, salloc, sbatch, squeue, scontrol and scancel",
            next="use --executor local",
        ) from None
    return done.returncode, done.stdout, done.stderr


def refuse_silence(environ: Mapping[str, str]) -> None:
    """Raise a UsageError if Slurm's controller can't be reached within seconds."""
    code, output, errors = slurm("scontrol", "ping", limit_s=_QUICK_S, environ=environ)
    if code or " is DOWN" in output:
        raise UsageError(
            "Slurm's controller does not answer",
            why=errors.strip() or output.strip() or None,
            next="scontrol ping",
        )


def job_fields(job: str, environ: Mapping[str, str] | None = None) -> Mapping[str, str] | None:
    """Return the fields of `scontrol show job`, with the whole text under "".

    Empty if Slurm has no such job, None if it does not answer.
    """
    command = ("scontrol", "--details", "--oneliner", "show", "job", job)
    code, output, errors = slurm(*command, environ=environ)
    if code:
        return {} if _UNKNOWN_JOB in errors else None
    return {
        **dict(reversed(_FIELD.findall(output))),
        "": output,
    }  # the first occurrence of a name counts


def is_over(fields: Mapping[str, str]) -> bool:
    """Return True if a job has ended, and its nodes are free again."""
    return fields.get("JobState") not in (*_ACTIVE, *_CHANGING)


def node_names(expression: str, environ: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """Expand `n[0-1],m3` into the names of the nodes."""
    return tuple(slurm("scontrol", "show", "hostnames", expression, environ=environ)[1].split())


def dead_nodes(names: Sequence[str]) -> tuple[str, ...]:
    """Return the nodes that are down, or do not answer Slurm."""
    command = ("sinfo", "--noheader", "--Node", f"--nodes={','.join(names)}", "-o", "%N|%T")
    dead = (row[0] for row in _rows(*command) or () if row[1].endswith("*") or "down" in row[1])
    return tuple(dict.fromkeys(dead))


def steps_named(job: str, name: str) -> tuple[str, ...] | None:
    """Return a job's steps of this name, or with it and a dash as a prefix; None for no answer."""
    rows = _rows("squeue", "--noheader", "--steps", f"--jobs={job}", "-o", "%i|%j")
    return None if rows is None else tuple(row[0] for row in rows if _is_named(row[1], name))


def jobs_named(name: str) -> tuple[str, ...] | None:
    """Return jobs that are pending, running or ending, by name as in `steps_named`."""
    rows = _rows("squeue", "--noheader", "--states=all", "-o", "%i|%j|%T")
    if rows is None:
        return None
    return tuple(row[0] for row in rows if _is_named(row[1], name) and row[-1] in _ACTIVE)


def _rows(*command: str) -> list[list[str]] | None:
    code, output, errors = slurm(*command)
    if code:
        return [] if _UNKNOWN_JOB in errors else None
    return [line.strip().split("|") for line in output.splitlines() if "|" in line]


def _is_named(own: str, name: str) -> bool:
    return own == name or own.startswith(f"{name}-")


def end_all(
    remaining: Callable[[], Sequence[str] | None],
    ending: EndingTimes,
    no_more: Callable[[], bool] = lambda: True,
) -> None:
    """End the jobs or steps that `remaining` returns, and return when there are none.

    `no_more` returns True if no more can start. They are first asked to end, then killed.
    """
    patience_s = _BUSY * ending.total_s()
    escalation = (
        (0.0, "--signal=TERM"),  # what runs there ends its ranks, and writes the Run
        (patience_s, ""),  # as Slurm ends steps: SIGTERM, and SIGKILL after its KillWait
        (patience_s + 20.0, "--signal=KILL"),
        (patience_s + 80.0, "--signal=KILL"),
    )
    began, sent = time.monotonic(), 0
    while True:
        elapsed_s = time.monotonic() - began
        left = remaining()
        if left is not None and not left and no_more():
            return
        if elapsed_s > _END_LIMIT_S:
            if not left:
                raise CounterpointError("Slurm's controller does not answer", next="scontrol ping")
            raise CounterpointError(
                f"{', '.join(left)} did not end within {_END_LIMIT_S:g} s",
                why="what runs there can't be killed, or its node does not answer",
                next=f"scancel --signal=KILL {' '.join(left)}",
            )
        due = sum(after <= elapsed_s for after, _ in escalation)
        if left and due > sent:
            slurm("scancel", "--quiet", *filter(None, [escalation[due - 1][1]]), *left)
            sent = due
        time.sleep(_LOOK_S)


def cancel(jobs: Sequence[str] | None) -> None:
    """Cancel jobs, whether pending or running, and return when they are gone."""
    if jobs:
        slurm("scancel", "--quiet", *jobs)
        end_all(lambda: live_jobs(jobs), USUAL_TIMES)


def live_jobs(jobs: Sequence[str]) -> tuple[str, ...] | None:
    """Return those of the jobs that have not ended; None for no answer."""
    known = {job: job_fields(job) for job in jobs}
    if any(fields is None for fields in known.values()):
        return None
    return tuple(job for job, fields in known.items() if fields and not is_over(fields))


@dataclass(frozen=True, slots=True)
class Grant:
    """An allocation's job, its nodes in order, and the smallest CPU and GPU count of any node."""

    job: str
    nodes: tuple[str, ...]
    cpus: int
    gpus: int

    def ranks_per_node(self, shape: ProcessShape) -> int:
        """Return the number of processes on a node; raise a UsageError if there is no room."""
        return ranks_on_node(shape, len(self.nodes), self.gpus, f"Slurm job {self.job}")


def read_grant(job: str, environ: Mapping[str, str] | None = None) -> Grant:
    """Return the grant of a running job."""
    fields = job_fields(job, environ)
    if not fields or fields.get("JobState") != "RUNNING":
        state = "unknown to Slurm" if not fields else fields.get("JobState", "?").lower()
        raise UsageError(
            f"Slurm's job {job} is {state}", next="make a new allocation, or start outside of one"
        )
    return grant_of(job, fields, node_names(fields["NodeList"], environ))


def grant_of(job: str, fields: Mapping[str, str], nodes: tuple[str, ...]) -> Grant:
    """Make a grant from the fields of a job, which list CPUs and GPUs by groups of like nodes."""
    cpus = [_count(ids) for ids in re.findall(r"\bCPU_IDs=(\S+)", fields[""])]
    counts = re.findall(r"\bGRES=\S*?gpu(?::[^:,(\s]+)?:(\d+)", fields[""])
    gpus = min(map(int, counts), default=0) if len(counts) >= len(cpus) else 0
    return Grant(job, nodes, min(cpus, default=1), gpus)


def _count(ids: str) -> int:
    """Count the CPUs in a list: five in `0-3,8`."""
    ends = (part.partition("-") for part in ids.split(","))
    return sum(int(last or first) - int(first) + 1 for first, _, last in ends)


_NEVER: Final = re.compile(
    r"BadConstraints|PartitionTimeLimit|InvalidAccount|InvalidQOS|AccountNotAllowed|QOSNotAllowed"
    r"|DependencyNeverSatisfied|(?:Assoc|QOS)\w+PerJob(?:Limit)?|QOSMin\w+"
)
"""Reasons that no wait removes, only other options.

Others are temporary: nodes that are down are repaired, jobs of others end.
"""
_TOO_MANY: Final = ("PartitionNodeLimit", "PartitionConfig")
"""Given for more nodes than a partition has, and also for nodes that are down."""
_NO_REASON: Final = ("", "None")
_PATIENCE: Final = 3
"""The number of polls after which a pending job is reported even if Slurm gives no reason."""


class QueueWatch:
    """Reports each reason why a job is pending once; raises a UsageError for a permanent one."""

    def __init__(self, job: str, what: str, say: Callable[[str], None]) -> None:
        self._job = job
        self._what = what
        self._say = say
        self._looked_at = float("-inf")
        self._looks = 0
        self._reported: set[str] = set()

    def look(self) -> None:
        """Query Slurm, unless it was queried a moment ago."""
        if time.monotonic() - self._looked_at < _QUEUE_LOOK_S:
            return
        self._looked_at = time.monotonic()
        fields = job_fields(self._job)
        if fields:
            self.note(fields)

    def note(self, fields: Mapping[str, str]) -> None:
        """Report why the job waits, according to its fields."""
        if fields.get("JobState") != "PENDING":
            return
        self._looks += 1
        reason = fields.get("Reason", "")
        if reason in _NO_REASON and (self._reported or self._looks < _PATIENCE):
            return
        why = "" if reason in _NO_REASON else f": {reason.replace('_', ' ')}"
        if why not in self._reported:
            self._reported.add(why)
            self._say(f"job {self._job} is pending in Slurm's queue for {self._what}{why}")
        if never := _never(reason, fields):
            raise UsageError(
                f"Slurm will never start job {self._job} of {self._what}: {reason}",
                why=never,
                next="request what this site allows; this job was canceled",
            )


def _never(reason: str, fields: Mapping[str, str]) -> str:
    """Return why waiting is futile; an empty string if it may not be."""
    if _NEVER.fullmatch(reason):
        return "only other options change that, not time"
    if reason not in _TOO_MANY:
        return ""
    name, wanted = fields.get("Partition", ""), fields.get("NumNodes", "").partition("-")[0]
    partition = dict(_FIELD.findall(slurm("scontrol", "--oneliner", "show", "partition", name)[1]))
    for limit, verb in (("TotalNodes", "has"), ("MaxNodes", "gives a job at most")):
        most = partition.get(limit, "")
        if most.isdecimal() and wanted.isdecimal() and int(wanted) > int(most):
            return f"the partition {name} {verb} {most} nodes"
    return ""


_OF_STATE: Final[Mapping[str, tuple[GangEndKind, str]]] = {
    "PREEMPTED": (GangEndKind.PREEMPTED, "Slurm gave the nodes to another job"),
    "TIMEOUT": (GangEndKind.PREEMPTED, "the allocation's time limit was reached"),
    "DEADLINE": (GangEndKind.PREEMPTED, "the allocation's deadline was reached"),
    "CANCELLED": (GangEndKind.PREEMPTED, "somebody canceled Slurm's job"),
    "REVOKED": (GangEndKind.PREEMPTED, "Slurm revoked the job"),
    "NODE_FAIL": (GangEndKind.NODE_FAULT, "a node of the allocation failed"),
    "BOOT_FAIL": (GangEndKind.NODE_FAULT, "a node of the allocation did not boot"),
}
_IN_LOG: Final[tuple[tuple[str, GangEndKind], ...]] = (
    (r"^srun: error: Node failure on .*", GangEndKind.NODE_FAULT),
    (r"^slurmstepd\S*: error: .* CANCELLED AT .* DUE TO NODE FAILURE.*", GangEndKind.NODE_FAULT),
    (
        r"^slurmstepd\S*: error: .* CANCELLED AT .* DUE TO (?:PREEMPTION|TIME LIMIT).*",
        GangEndKind.PREEMPTED,
    ),
)
_NOT_LAUNCHED: Final = (
    r"^srun: error: .*(?:launch failed|Unable to contact|timed out|onnection (?:failure|refused)"
    r"|Zero Bytes|Prolog|credential|Slurm controller|Invalid node).*"
)
_MUCH: Final = 1 << 18


def fault(fields: Mapping[str, str], log: Path, *, ran: bool) -> GangEnd | None:
    """Return what ended a step or job from outside, by the job's fields and srun's log; else None.

    `ran`: a rank has left output. If none has, srun's complaints about nodes count.
    """
    if not fields:
        return GangEnd(kind=GangEndKind.LOST, detail="Slurm does not know the job any more")
    if of_state := _OF_STATE.get(fields.get("JobState", "")):
        kind, detail = of_state
        reason = fields.get("Reason", "None")
        more = "" if reason in _NO_REASON else f" ({reason})"
        return GangEnd(kind=kind, detail=detail + more)
    if fields.get("PreemptTime", "None") != "None":  # set some time before the state changes
        return GangEnd(kind=GangEndKind.PREEMPTED, detail=_OF_STATE["PREEMPTED"][1])
    text = tail(log, _MUCH)
    for pattern, kind in (*_IN_LOG, *(() if ran else ((_NOT_LAUNCHED, GangEndKind.NODE_FAULT),))):
        if found := re.search(pattern, text, re.MULTILINE):
            return GangEnd(kind=kind, detail=found.group())
    return None


_OF_THE_CLUSTER: Final = ("SLURM_CONF", "SLURM_CLUSTERS", "SLURM_TIME_FORMAT")
_TOOLS: Final = ("scontrol", "squeue", "scancel", "srun")
_RESERVED: Final[Mapping[str, str]] = {
    **dict.fromkeys(("--job-name", "-J"), "the tuner finds its jobs by their names"),
    **dict.fromkeys(("--array", "-a"), "each trial is one job"),
    **dict.fromkeys(("--wait", "-W"), "the tuner itself waits"),
    **dict.fromkeys(("--wrap", "--test-only"), "the jobs run the trials"),
}
_NODES: Final = re.compile(r"-(?:-nodes(?:=|$)|N)(.*)")
_REFUSED: Final = re.compile(
    r"^.*\b[Ii]nvalid (?:partition|account|qos|feature|generic|-|.* specification).*$"
    r"|^.*\b(?:unrecognized|ambiguous|invalid) option.*$|^.* requires an argument.*$",
    re.MULTILINE,
)
"""Permanent refusals. Unavailable nodes are not among them: they may only be down."""


def outside(variables: Mapping[str, str]) -> dict[str, str]:
    """Return variables without those of the job around us, for a request of another job."""
    return {
        name: text
        for name, text in variables.items()
        if not name.startswith("SLURM_") or name in _OF_THE_CLUSTER
    }


@dataclass(frozen=True)
class SlurmOptions:
    """What Slurm is asked for.

    Args:
        slurm: Options for salloc or sbatch, in quotes: '--partition=h100 --time=4:00:00'.
    """

    slurm: str | None = None


def submit_options(request: PlaceRequest[SlurmOptions]) -> tuple[str, ...]:
    """Split --slurm into options for salloc or sbatch; raise a UsageError if Slurm rejects them."""
    text = request.options.slurm or ""
    try:
        words = tuple(shlex.split(text))
    except ValueError as damage:
        raise UsageError(f"--slurm {text!r} can't be split into words: {damage}") from None
    _refuse_options(words, request.shape)
    _refuse_rejected(words, request.shape, outside(request.environ))
    return words


def refuse_missing_tools(environ: Mapping[str, str], starter: str = "srun") -> None:
    """Raise a UsageError if a command of Slurm's is not on the PATH."""
    for tool in (*_TOOLS, starter):
        if shutil.which(tool, path=environ.get("PATH")) is None:
            raise UsageError(
                f"--executor slurm: {tool} is not on the PATH",
                why="trials on Slurm are started by its own commands",
                next="use --executor local",
            )


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
    _, _, errors = slurm(*command, limit_s=_QUICK_S, environ=environ)
    if found := _REFUSED.search(errors):
        raise UsageError(
            f"Slurm accepts no job with {shlex.join(words) or 'its default options'}",
            why=re.sub(r"^(?:sbatch: (?:error: )?|allocation failure: )", "", found.group()),
            next="use --slurm '--partition=NAME --account=NAME'",
        )
