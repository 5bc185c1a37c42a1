"""A stand-in for the API server of a cluster with JobSet: it speaks the wire, and runs the pods.

Objects are created, read, listed and deleted over HTTP with the paths, fields and errors of
Kubernetes, so that the official client is at the other end. A pod is a process of this machine with
the pod's command and environment (`$(NAME)` expanded, fields of the pod filled in) below a
supervisor, which ends all of it as the end of a container does; SIGTERM comes first, and SIGKILL
after the pod's time of grace. Tests hold back or damage what a cluster may: capacity, Kueue's
admission, images, nodes, quotas, permissions.

Only a real cluster shows the scheduler, Kueue, name service, volumes, and admission webhooks.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import yaml

from counterpoint.tune.executors.kubernetes_template import INTERRUPT
from counterpoint.tune.executors.process_supervisor import EndingTimes, supervised

JOBSETS = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/team/jobsets"
_NAME = re.compile(r"[a-z]([-a-z0-9]{0,40}[a-z0-9])?")


class Refusal(Exception):
    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status, self.reason = status, reason


@dataclass
class Pod:
    """A pod's object, and its process if it runs."""

    name: str
    jobset: str
    spec: dict[str, Any]
    annotations: dict[str, str]
    log: Path
    phase: str = "Pending"
    state: dict[str, Any] = field(default_factory=dict)
    conditions: list[dict[str, str]] = field(default_factory=list)
    process: subprocess.Popen[bytes] | None = None
    killed_at: float | None = None

    def document(self) -> dict[str, Any]:
        container = self.spec["containers"][0]
        status = {"name": container["name"], "image": container["image"], "state": self.state}
        return {
            "metadata": {"name": self.name, "annotations": self.annotations},
            "spec": self.spec,
            "status": {
                "phase": self.phase,
                "conditions": self.conditions,
                "containerStatuses": [status] if self.state else [],
            },
        }


class KubernetesCluster:
    """The state of the cluster; `work` is what its controllers and its kubelet do, in a thread."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.jobsets: dict[str, dict[str, Any]] = {}
        self.pods: dict[str, list[Pod]] = {}
        self.capacity = 8
        self.admits = True
        self.quota: str | None = None
        self.has_jobsets = True
        self.forbidden: set[str] = set()
        self.fails_next = 0
        self.created: list[dict[str, Any]] = []
        self._lock = threading.RLock()
        self._over = threading.Event()

    # What the API server does

    def create(self, manifest: dict[str, Any], *, dry_run: bool) -> dict[str, Any]:
        name = manifest["metadata"]["name"]
        jobs = manifest["spec"]["replicatedJobs"]
        if not _NAME.fullmatch(name) or not jobs:
            raise Refusal(422, "Invalid", f'JobSet "{name}" is invalid')
        if name in self.jobsets:
            raise Refusal(409, "AlreadyExists", f'jobsets "{name}" already exists')
        manifest["status"] = {"conditions": []}
        queue = "kueue.x-k8s.io/queue-name" in (manifest["metadata"].get("labels") or {})
        manifest["spec"]["suspend"] = queue and not self.admits
        if not dry_run:
            self.created.append(manifest)
            self.jobsets[name] = manifest
            self.pods[name] = []
        return manifest

    def delete(self, name: str) -> dict[str, Any]:
        self.jobsets[name]["metadata"]["deletionTimestamp"] = _now()
        return self.jobsets[name]

    # What its controllers and its nodes do

    def work(self) -> None:
        while not self._over.wait(0.05):
            with self._lock:
                for name in list(self.jobsets):
                    self._reconcile(name)

    def _reconcile(self, name: str) -> None:
        jobset, pods = self.jobsets[name], self.pods[name]
        for pod in pods:
            self._watch(pod)
        running = [pod for pod in pods if pod.phase in ("Pending", "Running")]
        if "deletionTimestamp" in jobset["metadata"]:
            self._end(running)
            # Pods that never ran are over at once; their JobSet is not seen without them.
            if all(pod.phase in ("Succeeded", "Failed") for pod in pods):
                del self.jobsets[name], self.pods[name]
        elif self._suspended(jobset):
            said = {"type": "Suspended", "status": "True", "message": "waiting for quota"}
            jobset["status"]["conditions"] = [said]
            self._end(running)
            self.pods[name] = running
        else:
            if not pods and self.quota is None and "late" not in jobset:
                jobset["status"]["conditions"] = []
                self.pods[name] = self._made(jobset)
            self._schedule([pod for pod in self.pods[name] if pod.phase == "Pending"])
            self._judge(jobset, running)

    def _suspended(self, jobset: dict[str, Any]) -> bool:
        """Kueue resumes what it admits."""
        if "kueue.x-k8s.io/queue-name" in (jobset["metadata"].get("labels") or {}) and self.admits:
            jobset["spec"]["suspend"] = False
        return bool(jobset["spec"].get("suspend"))

    def _schedule(self, wanted: list[Pod]) -> None:
        busy = sum(pod.phase == "Running" for pods in self.pods.values() for pod in pods)
        for pod in wanted:
            image = pod.spec["containers"][0]["image"]
            if busy + len(wanted) > self.capacity:
                pod.conditions = [
                    {
                        "type": "PodScheduled",
                        "status": "False",
                        "reason": "Unschedulable",
                        "message": "0/4 nodes: Insufficient nvidia.com/gpu",
                    }
                ]
            elif "missing" in image:
                message = f'Back-off pulling image "{image}"'
                pod.state = {"waiting": {"reason": "ImagePullBackOff", "message": message}}
            else:
                self._start(pod)

    def _judge(self, jobset: dict[str, Any], running: list[Pod]) -> None:
        name = jobset["metadata"]["name"]
        pods = self.pods[name]
        job = jobset["spec"]["replicatedJobs"][0]["template"]["spec"]
        deadline = job.get("activeDeadlineSeconds")
        if deadline is not None and running and time.monotonic() - jobset["began"] > deadline:
            jobset["late"] = True
        if any(pod.phase == "Failed" for pod in pods) or jobset.get("late"):
            self._end(running)
            said = "jobset failed due to one or more job failures"
            jobset["status"]["conditions"] = [
                {"type": "Failed", "status": "True", "reason": "FailedJobs", "message": said}
            ]
            if jobset.get("late"):
                self.pods[name] = running  # the Job's controller deletes them
        elif pods and all(pod.phase == "Succeeded" for pod in pods):
            jobset["status"]["conditions"] = [{"type": "Completed", "status": "True"}]

    def _made(self, jobset: dict[str, Any]) -> list[Pod]:
        name, made = jobset["metadata"]["name"], []
        jobset["began"] = time.monotonic()
        for job in jobset["spec"]["replicatedJobs"]:
            spec = job["template"]["spec"]
            for replica in range(job.get("replicas", 1)):
                for index in range(spec.get("completions", 1)):
                    full = f"{name}-{job['name']}-{replica}-{index}-abcde"
                    annotations = {
                        "batch.kubernetes.io/job-completion-index": str(index),
                        "jobset.sigs.k8s.io/jobset-name": name,
                        "jobset.sigs.k8s.io/replicatedjob-name": job["name"],
                        "jobset.sigs.k8s.io/job-index": str(replica),
                    }
                    log = self.home / f"{full}.log"
                    made.append(Pod(full, name, spec["template"]["spec"], annotations, log))
        return made

    def _start(self, pod: Pod) -> None:
        container = pod.spec["containers"][0]
        environment = self._environment(pod, container)
        words = [_expanded(word, environment) for word in container["command"]]
        words += [_expanded(word, environment) for word in container.get("args") or ()]
        grace = pod.spec.get("terminationGracePeriodSeconds", 30)
        # `kill -INT 1` is meant for the first process of a container, not of this machine.
        stop = "2,15" if container.get("lifecycle", {}).get("preStop") == INTERRUPT else "15"
        with pod.log.open("wb") as log:
            pod.process = subprocess.Popen(
                supervised(words, stop=stop, times=EndingTimes(1.0, grace)),
                cwd=container.get("workingDir", self.home),
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        pod.phase, pod.conditions = "Running", []
        pod.spec["nodeName"] = socket.gethostname()
        pod.state = {"running": {"startedAt": _now()}}

    def _environment(self, pod: Pod, container: dict[str, Any]) -> dict[str, str]:
        """What the image has, what every pod has, and what the template sets, in this order."""
        found = {name: os.environ[name] for name in ("HOME",) if name in os.environ}
        found["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        found["PYTHONPATH"] = os.pathsep.join(sys.path)
        found["KUBERNETES_SERVICE_HOST"] = "127.0.0.1"
        found["HOSTNAME"] = pod.name.rpartition("-")[0]
        found["JOB_COMPLETION_INDEX"] = pod.annotations["batch.kubernetes.io/job-completion-index"]
        for one in container.get("env") or ():
            if "valueFrom" in one:
                path = one["valueFrom"]["fieldRef"]["fieldPath"]
                found[one["name"]] = pod.annotations[path.split("'")[1]]
            else:
                found[one["name"]] = _expanded(one.get("value", ""), found)
        port = self._port(pod.jobset)  # here, pods have one address, and names need no service
        host = re.compile(rf"{pod.jobset}-[a-z]+-0-0\.{pod.jobset}:\d+")
        return {name: host.sub(f"127.0.0.1:{port}", text) for name, text in found.items()}

    def _port(self, name: str) -> int:
        jobset = self.jobsets[name]
        if "port" not in jobset:
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                jobset["port"] = probe.getsockname()[1]
        return jobset["port"]

    def _watch(self, pod: Pod) -> None:
        if pod.process is None or (code := pod.process.poll()) is None:
            return
        code = 137 if code < 0 else code
        pod.process = None
        pod.phase = "Failed" if code else "Succeeded"
        pod.state = {"terminated": {"exitCode": code, "finishedAt": _now()}}

    def _end(self, pods: list[Pod]) -> None:
        for pod in pods:
            if pod.process is None:
                pod.phase = "Failed"
            elif pod.killed_at is None:
                pod.killed_at = time.monotonic()
                pod.process.send_signal(signal.SIGTERM)

    def lose(self, reason: str) -> None:
        """Take the node of one pod away: nothing on it ends in order."""
        with self._lock:
            pod = next(pod for pods in self.pods.values() for pod in pods if pod.process)
            assert pod.process is not None
            os.killpg(pod.process.pid, signal.SIGKILL)
            said = {"type": "DisruptionTarget", "status": "True", "reason": reason}
            pod.conditions = [{**said, "message": "node n0"}]

    def running(self) -> list[str]:
        with self._lock:
            return [pod.name for pods in self.pods.values() for pod in pods if pod.process]

    def stop(self) -> None:
        self._over.set()
        with self._lock:
            for pods in self.pods.values():
                for pod in pods:
                    if pod.process is not None:
                        pod.process.kill()
                        pod.process.wait()

    # The wire

    def answer(self, method: str, path: str, query: dict[str, str], body: Any) -> Any:  # noqa: ANN401 - JSON
        with self._lock:
            if self.fails_next:
                self.fails_next -= 1
                raise Refusal(503, "ServiceUnavailable", "etcd has no leader")
            kind = path.rsplit("/namespaces/team/", maxsplit=1)[-1].split("/", maxsplit=1)[0]
            if f"{method} {kind}" in self.forbidden:
                user = 'User "me" cannot use resource'
                raise Refusal(403, "Forbidden", f'{kind} is forbidden: {user} "{kind}"')
            if path.startswith(JOBSETS) and self.has_jobsets:
                return self._jobsets(method, path.removeprefix(JOBSETS).strip("/"), query, body)
            label = query.get("labelSelector", "").rpartition("=")[2]
            if path == "/api/v1/namespaces/team/pods":
                return {"items": [pod.document() for pod in self.pods.get(label, ())]}
            if path == "/apis/batch/v1/namespaces/team/jobs":
                late = self.jobsets.get(label, {}).get("late")
                said = {"type": "Failed", "status": "True", "reason": "DeadlineExceeded"}
                return {"items": [{"status": {"conditions": [said] if late else []}}]}
            if path == "/api/v1/namespaces/team/events":
                return {"items": self._events()}
            if found := re.fullmatch(r"/api/v1/namespaces/team/pods/([^/]+)/log", path):
                return (self.home / f"{found.group(1)}.log").read_bytes()
        raise Refusal(404, "NotFound", "the server could not find the requested resource")

    def _jobsets(self, method: str, name: str, query: dict[str, str], body: Any) -> Any:  # noqa: ANN401 - JSON
        if method == "POST":
            return self.create(body, dry_run=query.get("dryRun") == "All")
        if not name:
            label, _, value = query.get("labelSelector", "").partition("=")
            items = [
                one
                for one in self.jobsets.values()
                if not label or (one["metadata"].get("labels") or {}).get(label) == value
            ]
            return {"items": items}
        if name not in self.jobsets:
            raise Refusal(404, "NotFound", f'jobsets.jobset.x-k8s.io "{name}" not found')
        return self.delete(name) if method == "DELETE" else self.jobsets[name]

    def _events(self) -> list[dict[str, Any]]:
        if self.quota is None:
            return []
        return [
            {"reason": "FailedCreate", "message": self.quota, "involvedObject": {"name": name}}
            for name in self.jobsets
        ]


def _expanded(text: str, environment: dict[str, str]) -> str:
    """As Kubernetes does: `$$` is a dollar, `$(NAME)` a variable if there is one."""

    def one(found: re.Match[str]) -> str:
        if found.group() == "$$":
            return "$"
        return environment.get(found.group(1), found.group())

    return re.sub(r"\$\$|\$\(([^)]*)\)", one, text)


def _now() -> str:
    return datetime.now(UTC).isoformat()


@contextmanager
def kubernetes_cluster(home: Path) -> Generator[KubernetesCluster]:
    """A running cluster; `kubeconfig` in its home leads to it."""
    cluster = KubernetesCluster(home)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            parts = urlsplit(self.path)
            query = {name: texts[0] for name, texts in parse_qs(parts.query).items()}
            size = int(self.headers.get("Content-Length") or 0)
            sent = self.rfile.read(size)
            try:
                status = 200
                found = cluster.answer(
                    self.command, parts.path, query, json.loads(sent) if sent else None
                )
            except Refusal as refusal:
                status = refusal.status
                found = {"kind": "Status", "reason": refusal.reason, "message": str(refusal)}
            content = found if isinstance(found, bytes) else json.dumps(found).encode()
            with suppress(BrokenPipeError):
                self.send_response(status)
                kind = "text/plain" if isinstance(found, bytes) else "application/json"
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

        do_GET = do_POST = do_DELETE = _answer  # noqa: N815 - the standard library's names

        def log_message(self, format: str, *args: object) -> None:
            del format, args

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threads = [threading.Thread(target=target) for target in (server.serve_forever, cluster.work)]
    for thread in threads:
        thread.start()
    context = {"cluster": "here", "user": "me", "namespace": "team"}
    address = f"http://127.0.0.1:{server.server_port}"
    (home / "kubeconfig").write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "here",
                "contexts": [{"name": "here", "context": context}],
                "clusters": [{"name": "here", "cluster": {"server": address}}],
                "users": [{"name": "me", "user": {"token": "t"}}],
            }
        )
    )
    try:
        yield cluster
    finally:
        cluster.stop()
        server.shutdown()
        for thread in threads:
            thread.join()
        server.server_close()
