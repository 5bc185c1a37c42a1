"""Trials on Kubernetes: the executor, and gangs that are the pods of one JobSet each."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from counterpoint.core import CounterpointError, UsageError
from counterpoint.runs.layout import is_run
from counterpoint.tune.executors.executor import (
    GangEnd,
    GangEndKind,
    ProcessShape,
    TrialJob,
    shape_text,
)
from counterpoint.tune.executors.exit_report import Arrival, exit_report, launcher_log
from counterpoint.tune.executors.kubernetes_cluster import Cluster, Refused, labels_of
from counterpoint.tune.executors.kubernetes_template import MARK, JobTemplate
from counterpoint.tune.executors.process_supervisor import start_supervised, supervised

_LOOK_S: Final = 1.0
"""Limits requests to the API server, which all users share."""
_SAY_AFTER_S: Final = 5.0
"""Pods usually start sooner, and then there is nothing to report."""
_GONE_S: Final = 120.0
"""Time limit for pods to disappear, after the time that they themselves ask for."""
_SWEEP: Final = (
    "import sys; from counterpoint.tune.executors.kubernetes_gang import sweep; sweep(sys.argv[1])"
)
_NEVER: Final = (
    *("ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "ImageInspectError"),
    *("CreateContainerConfigError", "CreateContainerError", "RunContainerError"),
)
"""Reasons of a waiting container that only another template changes, not time."""
_DISRUPTIONS: Final[Mapping[str, tuple[GangEndKind, str]]] = {
    "PreemptionByScheduler": (GangEndKind.PREEMPTED, "Kubernetes gave the node to another pod"),
    "EvictionByEvictionAPI": (GangEndKind.PREEMPTED, "a pod was evicted from its node"),
    "TerminationByKubelet": (GangEndKind.NODE_FAULT, "a node shut down, or ran out of resources"),
    "DeletionByTaintManager": (GangEndKind.NODE_FAULT, "a node does not answer Kubernetes"),
    "DeletionByPodGC": (GangEndKind.NODE_FAULT, "a node has left the cluster"),
}
_PREFIX: Final = "counterpoint-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kubernetes:
    """Trials as JobSets. `say` gets reports on what the pods of a trial wait for."""

    template: JobTemplate
    shape: ProcessShape
    say: Callable[[str], None] = lambda _: None
    name: str = "kubernetes"

    def refuse_what_the_cluster_would(self) -> None:
        """Let the API server check the JobSet of a trial, without creating it."""
        trial = TrialJob(name="trial", command=("true",), directory=Path("trial"), shape=self.shape)
        cluster = Cluster(self.template.namespace)
        cluster.create(self.template.made(trial, _new_mark(), "none"), dry_run=True)

    def open(self) -> KubernetesAllocation:
        """Return an allocation that holds no nodes between trials."""
        if self.shape.nodes > 1 and self.template.queue is None:
            self.say(
                f"{self.template.path} names no queue of Kueue: where nodes are scarce, some pods"
                " of a trial may wait for the others"
            )
        return KubernetesAllocation(self)

    def sweep(self, identity: str) -> None:
        sweep(identity)

    def describe(self) -> str:
        where = f" in the queue {self.template.queue}" if self.template.queue else ""
        return f"{self.name}: a JobSet for each trial{where}, {shape_text(self.shape)}"


class KubernetesAllocation:
    """A label for all JobSets of one session, without nodes."""

    def __init__(self, executor: Kubernetes) -> None:
        self._executor = executor
        self._cluster = Cluster(executor.template.namespace)
        self._mark = _new_mark()
        self._started = 0
        self._gang: JobSetGang | None = None

    @property
    def identity(self) -> str:
        return f"{self._executor.name}:{self._cluster.namespace}:{self._mark}"

    @property
    def nodes(self) -> tuple[str, ...]:
        """Nodes of the last trial, once it has started: the next one may get others."""
        return self._gang.nodes if self._gang else ()

    def start(self, job: TrialJob) -> JobSetGang:
        self._started += 1
        job.directory.parent.mkdir(parents=True, exist_ok=True)
        name = f"{self._mark}-{self._started}"
        identity = f"{self._executor.name}:{self._cluster.namespace}:{name}"
        guard = start_supervised(
            supervised(
                ("sleep", "infinity"),
                with_tuner=True,
                then=(sys.executable, "-P", "-c", _SWEEP, identity),
            ),
            os.environ,
            subprocess.DEVNULL,
        )
        try:
            made = self._executor.template.made(job, name, self._mark)
            self._cluster.create(made)
        except BaseException:
            guard.kill()  # asked to end, it would look for JobSets, too
            guard.wait()
            _end_pods(self._cluster, self._mark)
            raise
        self._gang = JobSetGang(self._cluster, name, job, guard, self._executor.say)
        return self._gang

    def close(self) -> None:
        if self._gang is not None:
            self._gang.kill()
        _end_pods(self._cluster, self._mark)


class JobSetGang:
    """The pods of a JobSet, with a supervisor on this machine that deletes it if the tuner dies."""

    def __init__(
        self,
        cluster: Cluster,
        name: str,
        job: TrialJob,
        guard: subprocess.Popen[bytes],
        say: Callable[[str], None],
    ) -> None:
        self._cluster = cluster
        self._name = name
        self._directory = job.directory.absolute()
        self._guard = guard
        self._say = say
        self._arrival = Arrival(self._directory, job.shape.nodes)
        self._began = time.monotonic()
        self._looked_at = float("-inf")
        self._pods: Sequence[Mapping[str, Any]] = ()
        self._started = False
        self._said: set[str] = set()
        self._ended: GangEnd | None = None

    @property
    def identity(self) -> str:
        return f"kubernetes:{self._cluster.namespace}:{self._name}"

    @property
    def nodes(self) -> tuple[str, ...]:
        names = [pod["spec"].get("nodeName") for pod in self._pods]
        return tuple(name for name in names if name)

    def is_queued(self) -> bool:
        return not self._started and self._ended is None

    def poll(self) -> GangEnd | None:
        if self._ended is None and time.monotonic() - self._looked_at >= _LOOK_S:
            self._looked_at = time.monotonic()
            try:
                if (ended := self._look()) is not None:
                    self._end(ended)
            except Refused as refused:
                if not refused.may_pass:
                    raise
                self._report(f"{refused}: trying again")
        return self._ended

    def kill(self) -> None:
        if self._ended is None:
            self._end(GangEnd(kind=GangEndKind.KILLED))

    def _end(self, ended: GangEnd) -> None:
        _end_pods(self._cluster, self._name)
        self._guard.kill()
        self._guard.wait()
        self._ended = ended

    def _look(self) -> GangEnd | None:
        jobset = self._cluster.jobset(self._name)
        if jobset is None:
            return GangEnd(kind=GangEndKind.PREEMPTED, detail="somebody deleted its JobSet")
        pods = self._cluster.pods(self._name)
        if pods:
            self._pods = pods
        phases = [pod["status"].get("phase", "Pending") for pod in pods]
        # Pods may have run and gone between two looks: then their Run tells that they started.
        self._started = (
            self._started or any(phase != "Pending" for phase in phases) or is_run(self._directory)
        )
        conditions = _conditions(jobset)
        if "Completed" in conditions or "Failed" in conditions:
            if set(phases) & {"Pending", "Running"}:
                return None  # the other pods are being ended
            return self._judge(conditions)
        if self._started and jobset["spec"].get("suspend") and not pods:
            detail = f"its JobSet was suspended: {_message(conditions, 'Suspended')}"
            return GangEnd(kind=GangEndKind.PREEMPTED, detail=detail)
        if not self._started:
            self._explain_the_wait(jobset, conditions)
        return None

    def _judge(self, conditions: Mapping[str, Mapping[str, Any]]) -> GangEnd | None:
        """Return how it ended; None while part of the Run is still in transit."""
        failed = "Failed" in conditions
        codes = sorted(filter(None, map(_exit, self._pods)))
        code = codes[0][1] if codes else int(failed)
        if failed and (fault := self._fault(conditions)) is not None:
            return fault
        if not self._arrival.is_here(code):
            return None
        if failed or not is_run(self._directory):
            self._keep_logs()
        if failed and not codes:
            detail = f"a pod is gone: {_message(conditions, 'Failed')}"
            return GangEnd(kind=GangEndKind.LOST, detail=detail)
        ended = exit_report(self._directory, code)
        memory = next((pod for pod in self._pods if _exit_reason(pod) == "OOMKilled"), None)
        if memory is None:
            return ended
        detail = f"{memory['metadata']['name']} reached its memory limit (OOMKilled)"
        return GangEnd(kind=GangEndKind.EXITED, exit_code=code, detail=detail)

    def _fault(self, conditions: Mapping[str, Mapping[str, Any]]) -> GangEnd | None:
        """Return what ended the pods from outside, if anything did."""
        for pod in self._pods:
            found = _conditions(pod).get("DisruptionTarget")
            if found is not None:
                kind, detail = _DISRUPTIONS.get(
                    found.get("reason", ""), (GangEndKind.LOST, "a pod was ended from outside")
                )
                more = f" ({found['message']})" if found.get("message") else ""
                return GangEnd(kind=kind, detail=detail + more)
        failures = [_conditions(job).get("Failed", {}) for job in self._cluster.jobs(self._name)]
        for found in (conditions["Failed"], *failures):
            if found.get("reason") == "DeadlineExceeded":
                detail = f"its deadline on Kubernetes passed: {found.get('message', '')}"
                return GangEnd(kind=GangEndKind.PREEMPTED, detail=detail)
        return None

    def _keep_logs(self) -> None:
        """Keep what the pods printed, for output from before there is a Run."""
        text = "".join(self._cluster.log(pod["metadata"]["name"]) for pod in self._pods)
        launcher_log(self._directory).write_text(text, encoding="utf-8")

    def _explain_the_wait(
        self, jobset: Mapping[str, Any], conditions: Mapping[str, Mapping[str, Any]]
    ) -> None:
        """Report once each what it waits for; raise a UsageError where it would wait forever."""
        for pod in self._pods:
            for one in pod["status"].get("containerStatuses") or ():
                waiting: Mapping[str, Any] = one.get("state", {}).get("waiting") or {}
                if waiting.get("reason") in _NEVER:
                    raise UsageError(
                        f"{pod['metadata']['name']} can't start: {waiting['reason']}",
                        why=waiting.get("message") or f"its image is {one.get('image')}",
                        next="use --job-template FILE: with an image and volumes that exist",
                    )
        if time.monotonic() - self._began < _SAY_AFTER_S:
            return
        reasons = [
            f"{scheduled.get('reason', 'Pending')}: {scheduled.get('message', '')}"
            for pod in self._pods
            if (scheduled := _conditions(pod, "False").get("PodScheduled"))
        ]
        if jobset["spec"].get("suspend"):
            reasons.append(_message(conditions, "Suspended") or "it is suspended")
        if not self._pods:
            reasons += self._cluster.warnings(self._name)
        self._report(f"JobSet {self._name} is pending: {(reasons or ['no pod has started'])[0]}")

    def _report(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self._say(text)


def sweep(identity: str) -> None:
    """Delete the JobSets of an identity, of one gang or of a whole session."""
    executor, _, rest = identity.partition(":")
    namespace, _, name = rest.partition(":")
    if executor == "kubernetes" and name.startswith(_PREFIX):
        _end_pods(Cluster(namespace), name)


def _new_mark() -> str:
    """Return a name that fits, with those of jobs and pods, into the 63 letters of a host name."""
    return f"{_PREFIX}{uuid.uuid4().hex[:8]}"


def _end_pods(cluster: Cluster, name: str) -> None:
    """Delete a JobSet, or all of a mark, and return when none of their pods is left."""
    mark = "-".join(name.split("-")[:2])
    names = [name] if mark != name else cluster.jobsets(labels_of(MARK, mark))
    for each in names:
        cluster.delete(each)
    until = float("inf")
    while left := [pod for each in names for pod in cluster.pods(each) if not _is_over(pod)]:
        grace = max(pod["spec"].get("terminationGracePeriodSeconds", 30) for pod in left)
        until = min(until, time.monotonic() + grace + _GONE_S)
        if time.monotonic() > until:
            raise CounterpointError(
                f"pods {', '.join(pod['metadata']['name'] for pod in left)} are still there"
                f" {grace + _GONE_S:g} s after their JobSet was deleted",
                why="their nodes do not answer Kubernetes",
                next=f"kubectl --namespace {cluster.namespace} get pods -l {MARK}={mark}",
            )
        time.sleep(_LOOK_S / 2)


def _is_over(pod: Mapping[str, Any]) -> bool:
    return pod["status"].get("phase") in ("Succeeded", "Failed")


def _conditions(thing: Mapping[str, Any], status: str = "True") -> dict[str, Mapping[str, Any]]:
    found = thing.get("status", {}).get("conditions") or ()
    return {one["type"]: one for one in found if one.get("status") == status}


def _message(conditions: Mapping[str, Mapping[str, Any]], kind: str) -> str:
    found = conditions.get(kind, {})
    return str(found.get("message") or found.get("reason") or "")


def _terminated(pod: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found = pod["status"].get("containerStatuses") or ()
    states = [one.get("state", {}).get("terminated") for one in found]
    return [state for state in states if state]


def _exit(pod: Mapping[str, Any]) -> tuple[str, int] | None:
    """Return when a pod failed, and its exit code; None if it did not."""
    failed = [(one.get("finishedAt", ""), one["exitCode"]) for one in _terminated(pod)]
    return min((each for each in failed if each[1]), default=None)


def _exit_reason(pod: Mapping[str, Any]) -> str:
    return next((one.get("reason", "") for one in _terminated(pod) if one["exitCode"]), "")
