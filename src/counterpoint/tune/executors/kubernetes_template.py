"""The JobSet of a trial: the user's own, with the trial's command, environment and name."""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

import yaml

from counterpoint.core import InputError, UsageError
from counterpoint.core.arguments import Retry
from counterpoint.core.frozen import frozen
from counterpoint.tune.executors.executor import TrialJob, rank_command, settings_of

API: Final = ("jobset.x-k8s.io", "v1alpha2")
MARK: Final = "counterpoint-tuner"
"""The label by which all JobSets of one tuner are found."""
QUEUE: Final = "kueue.x-k8s.io/queue-name"
_PORT: Final = 6002
_LONGER_S: Final = 600
"""`counterpoint run` enforces the time limit of a trial; this much later, Kubernetes does."""
_GRACE_S: Final = 30
INTERRUPT: Final = {"exec": {"command": ["sh", "-c", "kill -INT 1"]}}
"""Before a pod is ended: `counterpoint run` then ends a program that ignores signals within 15 s.

At Kubernetes' own SIGTERM it would wait for a checkpoint, which no trial needs.
"""
_INDEX: Final = "metadata.annotations['batch.kubernetes.io/job-completion-index']"


@frozen(kw_only=True)
class JobTemplate:
    """A JobSet of the user's, and which of its parts runs the trial.

    Args:
        path: Its file.
        manifest: Its content.
        namespace: The one that it names; None for that of the current context.
        job: Position of the replicated job that runs the trial.
        container: Position of the container in its pods.
        nodes: Number of its pods.
    """

    path: Path
    manifest: Mapping[str, Any]
    namespace: str | None
    job: int
    container: int
    nodes: int

    @property
    def queue(self) -> str | None:
        """Kueue's queue, if it has one."""
        return _part(self.manifest, "metadata", "labels").get(QUEUE)

    def made(self, job: TrialJob, name: str, mark: str) -> dict[str, Any]:
        """Return the JobSet of a trial. Nothing is restarted: the tuner decides what to repeat."""
        manifest: dict[str, Any] = copy.deepcopy({**self.manifest})
        metadata = manifest["metadata"] = {**_part(manifest, "metadata")}
        for field in ("generateName", "resourceVersion", "uid", "creationTimestamp", "namespace"):
            metadata.pop(field, None)
        labels = {**_part(metadata, "labels"), MARK: mark}
        notes = {**_part(metadata, "annotations"), "counterpoint/trial": job.name}
        metadata.update(name=name, labels=labels, annotations=notes)
        manifest.pop("status", None)
        spec = manifest["spec"]
        spec["failurePolicy"] = {"maxRestarts": 0}
        spec.pop("ttlSecondsAfterFinished", None)  # the tuner reads it, and deletes it
        for each in spec["replicatedJobs"]:
            each["template"]["spec"]["backoffLimit"] = 0
        chosen = spec["replicatedJobs"][self.job]
        jobs = chosen["template"]["spec"]
        count = self.nodes // int(chosen.get("replicas", 1))
        jobs.update(completions=count, parallelism=count, completionMode="Indexed")
        if job.limits.timeout_s is not None:
            limit = int(job.limits.timeout_s) + _LONGER_S
            jobs["activeDeadlineSeconds"] = min(limit, jobs.get("activeDeadlineSeconds", limit))
        pod = jobs["template"]["spec"]
        pod["restartPolicy"] = "Never"
        pod["terminationGracePeriodSeconds"] = max(
            _GRACE_S, pod.get("terminationGracePeriodSeconds") or _GRACE_S
        )
        container = pod["containers"][self.container]
        container.setdefault("lifecycle", {}).setdefault("preStop", INTERRUPT)
        subdomain = _part(spec, "network").get("subdomain") or name
        coordinator = f"{name}-{chosen['name']}-0-0.{subdomain}:{_PORT}"
        container["command"] = [_escaped(word) for word in _command(job)]
        container["args"] = []
        container["env"] = _environment(container, job, coordinator, self.nodes)
        return manifest


def read_template(path: Path, nodes: int) -> JobTemplate:
    """Read a file with one JobSet whose pods are as many as the nodes of a trial."""
    try:
        found: list[Any] = [
            one for one in yaml.safe_load_all(path.read_text("utf-8")) if one is not None
        ]
    except FileNotFoundError:
        raise InputError(f"{path} does not exist", next=Retry({"job_template": "FILE"})) from None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as failure:
        reason = failure.strerror if isinstance(failure, OSError) else str(failure)
        raise InputError(f"{path} can't be read as YAML", why=str(reason)) from None
    kinds = [_part({"": one}, "").get("kind") for one in found]
    if kinds != ["JobSet"]:
        raise InputError(
            f"{path} has to contain one JobSet, but has {', '.join(map(str, kinds)) or 'none'}",
            why="a trial is made from it: with another name, command and environment",
        )
    (manifest,) = found
    try:
        return _checked(path, manifest, nodes)
    except (AttributeError, KeyError, TypeError, ValueError) as failure:
        raise InputError(
            f"{path} is not a complete JobSet",
            why=f"{type(failure).__name__}: {failure}",
            next=f"kubectl create --dry-run=server -f {path}",
        ) from None


def _checked(path: Path, manifest: Mapping[str, Any], nodes: int) -> JobTemplate:
    api = "/".join(API)
    if manifest["apiVersion"] != api:
        raise InputError(f"{path}: apiVersion {manifest['apiVersion']}", why=f"it has to be {api}")
    jobs = manifest["spec"]["replicatedJobs"]
    pods = [one["template"]["spec"]["template"]["spec"] for one in jobs]
    job = _only(path, "replicated job", [one["name"] for one in jobs], list(map(_devices, pods)))
    containers = pods[job]["containers"]
    names = [one["name"] for one in containers]
    container = _only(path, "container", names, [_devices_of(one) for one in containers])
    wanted = jobs[job]["template"]["spec"]
    replicas = int(jobs[job].get("replicas", 1))
    count = wanted.get("completions", wanted.get("parallelism"))
    has = nodes if count is None else replicas * int(count)
    if has != nodes or nodes % replicas:
        raise UsageError(
            f"{path} has {has} pods, but trials take {nodes} node{'' if nodes == 1 else 's'}",
            next=Retry({"nodes": has}),
        )
    return JobTemplate(
        path=path,
        manifest=manifest,
        namespace=_part(manifest, "metadata").get("namespace"),
        job=job,
        container=container,
        nodes=nodes,
    )


def _only(path: Path, what: str, names: Sequence[str], devices: Sequence[int]) -> int:
    """Return the position of the only one, or the only one that asks for GPUs or TPUs."""
    found = [number for number, count in enumerate(devices) if count or len(names) == 1]
    if len(found) != 1:
        raise InputError(
            f"{path} has several {what}s: {', '.join(map(str, names))}",
            why="a trial runs in the one that requests GPUs or TPUs, and"
            f" {len(found) or 'none'} of them do{'' if found else 'es'}",
        )
    return found[0]


def _devices(pod: Mapping[str, Any]) -> int:
    return sum(map(_devices_of, pod["containers"]))


def _devices_of(container: Mapping[str, Any]) -> int:
    limits = _part(container, "resources", "limits")
    return sum(int(n) for name, n in limits.items() if name.endswith(("/gpu", "/tpu")))


def _command(job: TrialJob) -> tuple[str, ...]:
    """Return the command of a pod. An image's own variables can only be unset in there."""
    unset = [name for name, text in job.environment.items() if text is None]
    words = [word for name in unset for word in ("-u", name)]
    return (*(("env", *words) if words else ()), *rank_command(job, program=("counterpoint",)))


def _environment(
    container: Mapping[str, Any], job: TrialJob, coordinator: str, nodes: int
) -> list[dict[str, Any]]:
    """Return the variables of a pod: the tuner's settings, the template's, and the trial's own.

    JAX on GPUs finds its peers by Open MPI's, and would use one GPU of a pod without
    JAX_LOCAL_DEVICE_IDS; a TPU slice has variables of its own.
    """
    listed: list[dict[str, Any]] = container.get("env") or []
    template = {one["name"]: one for one in listed}
    ours = {name: _text(name, text) for name, text in settings_of(os.environ).items()}
    is_tpu = "google.com/tpu" in _part(container, "resources", "limits")
    if nodes > 1 and not is_tpu:
        rank = {"valueFrom": {"fieldRef": {"fieldPath": _INDEX}}}
        ours |= {
            "JAX_COORDINATOR_ADDRESS": _text("JAX_COORDINATOR_ADDRESS", coordinator),
            "OMPI_MCA_orte_hnp_uri": _text("OMPI_MCA_orte_hnp_uri", f"0.0;tcp://{coordinator}"),
            "OMPI_COMM_WORLD_SIZE": _text("OMPI_COMM_WORLD_SIZE", str(nodes)),
            "OMPI_COMM_WORLD_RANK": {"name": "OMPI_COMM_WORLD_RANK", **rank},
            "OMPI_COMM_WORLD_LOCAL_RANK": _text("OMPI_COMM_WORLD_LOCAL_RANK", "0"),
        }
        if devices := _devices_of(container):
            every = ",".join(map(str, range(devices)))
            ours["JAX_LOCAL_DEVICE_IDS"] = _text("JAX_LOCAL_DEVICE_IDS", every)
    trial = {n: _text(n, text) for n, text in job.environment.items() if text is not None}
    kept = {name: one for name, one in template.items() if name not in job.environment}
    return list({**ours, **kept, **trial}.values())


def _text(name: str, text: str) -> dict[str, Any]:
    return {"name": name, "value": _escaped(text)}


def _escaped(text: str) -> str:
    """Return a text that Kubernetes, which replaces `$(NAME)` and `$$`, leaves as it is."""
    return text.replace("$", "$$")


def _part(mapping: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    """Return a mapping within a mapping; an empty one if it is absent, null, or something else."""
    for name in names:
        found: object = mapping.get(name)
        mapping = cast("Mapping[str, Any]", found) if isinstance(found, Mapping) else {}
    return mapping
