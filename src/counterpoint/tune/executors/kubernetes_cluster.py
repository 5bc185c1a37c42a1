"""Requests to the API server of a cluster, through the official client; its errors explained."""

from __future__ import annotations

import contextlib
import io
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import kubernetes as untyped
import urllib3

from counterpoint.core import UsageError
from counterpoint.tune.executors.kubernetes_template import API

client: Any = untyped.client
config: Any = untyped.config
_TIMEOUT_S: Final = 30
_TAIL_LINES: Final = 200
_OF_JOBSET: Final = "jobset.sigs.k8s.io/jobset-name"
_POD: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class Refused(UsageError):
    """The API server answers a request with an error, or does not answer it.

    `may_pass` is true if the same request may succeed later.
    """

    may_pass: bool = False


class Cluster:
    """One namespace of the cluster of the current context, or of the pod that this runs in."""

    def __init__(self, namespace: str | None) -> None:
        self.namespace = namespace or ""
        self._connect()

    def _connect(self) -> None:
        try:
            with contextlib.redirect_stdout(io.StringIO()):  # it prints what it looks for
                if os.environ.get("KUBECONFIG") or not _POD.exists():
                    config.load_kube_config(os.environ.get("KUBECONFIG"))
                else:
                    config.load_incluster_config()
        except (config.ConfigException, OSError, ValueError, TypeError) as failure:
            raise UsageError(
                "no cluster of Kubernetes is configured here",
                why=str(failure),
                next="kubectl config get-contexts, and set KUBECONFIG to its file",
            ) from None
        self.namespace = self.namespace or _usual_namespace()
        settings = client.Configuration.get_default_copy()
        settings.retries = False
        self._host = settings.host
        connection = client.ApiClient(settings)
        self._custom = client.CustomObjectsApi(connection)
        self._core = client.CoreV1Api(connection)
        self._batch = client.BatchV1Api(connection)

    def create(self, manifest: Mapping[str, Any], *, dry_run: bool = False) -> None:
        """Create a JobSet, or let the server check it only."""
        more = {"dry_run": "All"} if dry_run else {}
        self._ask(
            lambda: self._custom.create_namespaced_custom_object(
                *API, self.namespace, "jobsets", dict(manifest), _request_timeout=_TIMEOUT_S, **more
            ),
            "create a JobSet",
        )

    def jobset(self, name: str) -> Mapping[str, Any] | None:
        """Return a JobSet; None if there is none of that name."""
        return self._ask(
            lambda: self._custom.get_namespaced_custom_object(
                *API, self.namespace, "jobsets", name, _request_timeout=_TIMEOUT_S
            ),
            "read a JobSet",
            may_lack=True,
        )

    def jobsets(self, labels: str) -> list[str]:
        """Return the names of JobSets with labels."""
        found = self._ask(
            lambda: self._custom.list_namespaced_custom_object(
                *API,
                self.namespace,
                "jobsets",
                label_selector=labels,
                _request_timeout=_TIMEOUT_S,
            ),
            "list JobSets",
        )
        return [one["metadata"]["name"] for one in found["items"]]

    def delete(self, name: str) -> None:
        """Delete a JobSet and, with it, its jobs and pods."""
        self._ask(
            lambda: self._custom.delete_namespaced_custom_object(
                *API,
                self.namespace,
                "jobsets",
                name,
                propagation_policy="Foreground",
                _request_timeout=_TIMEOUT_S,
            ),
            "delete a JobSet",
            may_lack=True,
        )

    def pods(self, jobset: str) -> list[Mapping[str, Any]]:
        """Return the pods of a JobSet, by index."""
        labels = labels_of(_OF_JOBSET, jobset)
        found = self._read(self._core.list_namespaced_pod, "list pods", label_selector=labels)
        return sorted(found["items"], key=lambda pod: pod["metadata"]["name"])

    def jobs(self, jobset: str) -> list[Mapping[str, Any]]:
        """Return the jobs of a JobSet."""
        labels = labels_of(_OF_JOBSET, jobset)
        return self._read(self._batch.list_namespaced_job, "list jobs", label_selector=labels)[
            "items"
        ]

    def warnings(self, jobset: str) -> list[str]:
        """Return why the pods of a JobSet can't be created, such as a quota."""
        try:
            found = self._read(
                self._core.list_namespaced_event, "list events", field_selector="type=Warning"
            )
        except Refused:
            return []  # not everybody may read events
        return [
            f"{one['reason']}: {one.get('message', '')}"
            for one in found["items"]
            if one["involvedObject"].get("name", "").startswith(jobset)
        ]

    def log(self, pod: str) -> str:
        """Return the last lines that a pod printed; empty if they are not kept."""
        try:
            answer = self._ask(
                lambda: self._core.read_namespaced_pod_log(
                    pod,
                    self.namespace,
                    tail_lines=_TAIL_LINES,
                    _preload_content=False,
                    _request_timeout=_TIMEOUT_S,
                ),
                "read a log",
            )
        except Refused:
            return ""
        return answer.data.decode("utf-8", errors="replace")

    def _read(self, request: Callable[..., Any], what: str, **options: object) -> Any:  # noqa: ANN401
        answer = self._ask(
            lambda: request(
                self.namespace, _preload_content=False, _request_timeout=_TIMEOUT_S, **options
            ),
            what,
        )
        return json.loads(answer.data)

    def _ask(self, request: Callable[[], Any], what: str, *, may_lack: bool = False) -> Any:  # noqa: ANN401
        try:
            try:
                return request()
            except client.ApiException as failure:
                if failure.status != 401:
                    raise
                self._connect()  # the token was one of limited life
                return request()
        except client.ApiException as failure:
            if failure.status == 404 and may_lack:
                return None
            raise self._refused(what, failure) from None
        except (urllib3.exceptions.HTTPError, OSError) as failure:
            refused = Refused(
                f"the API server at {self._host} does not answer",
                why=str(failure),
                next="kubectl cluster-info",
            )
            refused.may_pass = True
            raise refused from None

    def _refused(self, what: str, failure: Any) -> Refused:  # noqa: ANN401
        try:
            why = json.loads(failure.body)["message"]
        except (KeyError, TypeError, ValueError):
            why = failure.reason
        if failure.status == 404 and "JobSet" in what:
            refused = Refused(
                "the cluster has no JobSets",
                why=f"it has no {'/'.join(API)}, or no namespace {self.namespace}: {why}",
                next="kubectl get crd jobsets.jobset.x-k8s.io",
            )
        elif failure.status in (401, 403):
            verb, noun = (
                what.split(maxsplit=1)[0],
                what.rsplit(maxsplit=1)[-1].lower().removesuffix("s") + "s",
            )
            refused = Refused(
                f"not allowed to {what} in the namespace {self.namespace}",
                why=why,
                next=f"kubectl --namespace {self.namespace} auth can-i {verb} {noun}",
            )
        else:
            refused = Refused(f"the cluster refuses to {what} (status {failure.status})", why=why)
        refused.may_pass = failure.status >= 500 or failure.status == 429
        return refused


def labels_of(name: str, value: str) -> str:
    return f"{name}={value}"


def _usual_namespace() -> str:
    inside = _POD / "namespace"
    if not os.environ.get("KUBECONFIG") and inside.exists():
        return inside.read_text("utf-8").strip()
    return (
        config.list_kube_config_contexts(os.environ.get("KUBECONFIG"))[1]["context"].get(
            "namespace"
        )
        or "default"
    )
