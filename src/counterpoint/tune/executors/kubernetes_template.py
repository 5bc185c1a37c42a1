"""The JobSet of a trial: the user's own, with the trial's command, environment and name."""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, cast

import yaml

from counterpoint.core import InputError, UsageError
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
_OTHER_FILE: Final = "use --job-template FILE: with the JobSet that you train with"
_SHOWN: Final = 40
_OF_ONE_POD: Final = ("emptyDir", "configMap", "secret", "downwardAPI", "projected")
"""Volumes that no other machine sees, or that pods can't write to."""


@dataclass(frozen=True, slots=True, kw_only=True)
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

    @property
    def gpus(self) -> int:
        """GPUs of each pod; 0 on TPUs."""
        spec = self.manifest["spec"]["replicatedJobs"][self.job]["template"]["spec"]
        container = spec["template"]["spec"]["containers"][self.container]
        return 0 if _is_tpu(container) else _devices_of(container)

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
        count = self.nodes // int(chosen.get("replicas") or 1)
        jobs.update(completions=count, parallelism=count, completionMode="Indexed")
        if job.limits.timeout_s is not None:
            limit = int(job.limits.timeout_s) + _LONGER_S
            jobs["activeDeadlineSeconds"] = min(
                limit, int(jobs.get("activeDeadlineSeconds") or limit)
            )
        pod = jobs["template"]["spec"]
        pod["restartPolicy"] = "Never"
        pod["terminationGracePeriodSeconds"] = max(
            _GRACE_S, int(pod.get("terminationGracePeriodSeconds") or _GRACE_S)
        )
        container = pod["containers"][self.container]
        container.setdefault("lifecycle", {}).setdefault("preStop", INTERRUPT)
        subdomain = _part(spec, "network").get("subdomain") or name
        coordinator = f"{name}-{chosen['name']}-0-0.{subdomain}:{_PORT}"
        container["command"] = [_escaped(word) for word in _command(job)]
        container["args"] = []
        container["env"] = _environment(container, job, coordinator, self.nodes)
        return manifest


def read_template(path: Path, nodes: int, study: Path | None = None) -> JobTemplate:
    """Read a file with one JobSet whose pods are as many as the nodes of a trial.

    All that can be seen without a cluster is checked: also, if the directory of the study is given,
    that the pods share it with this machine.
    """
    try:
        text = path.read_text("utf-8")
        found: list[Any] = [one for one in yaml.safe_load_all(text) if one is not None]
    except FileNotFoundError:
        raise InputError(f"{path} does not exist", next=_OTHER_FILE) from None
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as failure:
        reason = _reason(failure)
        raise InputError(f"{path} can't be read as YAML", why=reason, next=_OTHER_FILE) from None
    kinds = [_kind(one) for one in found]
    if kinds != ["JobSet"]:
        has = ", ".join(kinds) or "nothing"
        raise InputError(
            f"{path} has to contain one JobSet, but has {has}",
            why="a trial is made from it: with another name, command and environment",
            next=_OTHER_FILE,
        )
    return _checked(path, found[0], nodes, study)


def _reason(failure: Exception) -> str:
    if isinstance(failure, OSError):
        return failure.strerror or str(failure)
    if isinstance(failure, UnicodeDecodeError | yaml.reader.ReaderError):
        return "it is not a text file"
    if isinstance(failure, RecursionError):
        return "its lists or mappings are nested too deeply"
    if isinstance(failure, yaml.MarkedYAMLError) and failure.problem_mark is not None:
        mark = failure.problem_mark
        return f"line {mark.line + 1}, column {mark.column + 1}: {failure.problem}"
    return str(failure)


def _kind(document: object) -> str:
    """Return the kind of an object of Kubernetes, or say what there is instead."""
    if not isinstance(document, Mapping):
        return f"a {_type_name(document)}"
    kind = cast("Mapping[str, object]", document).get("kind")
    return "a mapping without `kind`" if kind is None else str(kind)


def _type_name(value: object) -> str:
    name = type(value).__name__
    return {"str": "text", "dict": "mapping", "bool": "boolean", "int": "number"}.get(name, name)


@dataclass(frozen=True, slots=True)
class TemplateField:
    """A value of a template, with the path by which errors name it."""

    file: Path
    value: object
    name: str = ""
    key: str = ""
    """The last part of the name, which may itself have dots (`nvidia.com/gpu`)."""
    beside: tuple[str, ...] = ()
    """The names that its mapping has: one of them may be a misspelled one."""

    def at(self, *names: str) -> TemplateField:
        """Return a field within; on the way there have to be mappings."""
        field = self
        for name in names:
            held = field.mapping()
            inner = f"{field.name}.{name}" if field.name else name
            field = TemplateField(self.file, held.get(name), inner, name, tuple(map(str, held)))
        return field

    def mapping(self) -> Mapping[str, Any]:
        value = self.value
        if not isinstance(value, Mapping):
            raise self.refused("a mapping", "{...}")
        return cast("Mapping[str, Any]", value)

    def items(self, example: str) -> list[TemplateField]:
        """Return the elements of a list that may not be empty."""
        value = self.value
        if not isinstance(value, list) or not value:
            raise self.refused("a list with at least one element", example)
        return [
            TemplateField(self.file, one, f"{self.name}[{n}]", self.key, (self.key,))
            for n, one in enumerate(cast("list[object]", value))
        ]

    def text(self, example: str) -> str:
        if not isinstance(self.value, str) or not self.value.strip():
            raise self.refused("a text", example)
        return self.value

    def count(self, example: str) -> int:
        """Return a whole number, which for amounts of a resource may be in quotes."""
        written = str(self.value)
        is_number = isinstance(self.value, int | str) and not isinstance(self.value, bool)
        if not is_number or not written.isascii() or not written.isdecimal() or len(written) > 9:
            raise self.refused("a whole number", example)
        return int(written)

    def refused(self, needs: str, example: str) -> InputError:
        if self.value is None:
            problem = "is null" if self.key in self.beside else "is missing"
        else:
            shown = str(self.value)
            problem = f"is {shown if len(shown) <= _SHOWN else 'a ' + _type_name(self.value)}"
        near = [] if self.value is not None else get_close_matches(self.key, self.beside, 1)
        hint = f"; `{near[0]}` may be a misspelling of it" if near and near[0] != self.key else ""
        return InputError(
            f"{self.file}: {self.name} {problem}",
            why=f"it has to be {needs}{hint}",
            next=f"write {self.key}: {example} in {self.file}",
        )


def _checked(
    path: Path, manifest: Mapping[str, Any], nodes: int, study: Path | None
) -> JobTemplate:
    root = TemplateField(path, manifest)
    version, api = root.at("apiVersion"), "/".join(API)
    if version.value != api:
        raise version.refused(f"{api}, the version that Counterpoint writes", api)
    jobs = root.at("spec", "replicatedJobs").items("[{name: worker, template: {...}}]")
    pods = [one.at("template", "spec", "template", "spec") for one in jobs]
    containers = [
        pod.at("containers").items("[{name: train, image: REGISTRY/IMAGE:TAG}]") for pod in pods
    ]
    names = [one.at("name").text("worker") for one in jobs]
    devices = [sum(map(_counted, each)) for each in containers]
    job = _only(path, "replicated job", names, devices)
    for each in (one for some in containers for one in some):
        each.at("name").text("train")
        each.at("image").text("REGISTRY/IMAGE:TAG")
    own = containers[job]
    names = [one.at("name").text("train") for one in own]
    container = _only(path, "container", names, [_counted(one) for one in own])
    _check_what_is_changed(jobs[job], pods[job], own[container])
    _check_pods(path, jobs[job], own[container], nodes)
    if study is not None:
        _check_mounts(path, pods[job], own[container], study)
    return JobTemplate(
        path=path,
        manifest=manifest,
        namespace=_part(manifest, "metadata").get("namespace"),
        job=job,
        container=container,
        nodes=nodes,
    )


def _check_what_is_changed(
    job: TemplateField, pod: TemplateField, container: TemplateField
) -> None:
    """Refuse values that a trial adds to (`JobTemplate.made`) and that are something else."""
    for field in (
        job.at("template", "spec", "activeDeadlineSeconds"),
        pod.at("terminationGracePeriodSeconds"),
    ):
        if field.value is not None:
            field.count(str(_LONGER_S))
    for name in ("env", "volumeMounts"):
        for one in container.at(name).items("[]") if container.at(name).value else ():
            one.at("name").text("NAME")
    if "lifecycle" in container.mapping():
        container.at("lifecycle").mapping()


def _check_pods(path: Path, job: TemplateField, container: TemplateField, nodes: int) -> None:
    """Refuse another number of pods than nodes, and pods that would have the same rank."""
    replicas = job.at("replicas")
    jobs = 1 if replicas.value is None else replicas.count("1")
    if not jobs:
        raise replicas.refused("at least 1", "1")
    if jobs != 1 and not _is_tpu(container.mapping()):
        raise InputError(
            f"{path}: {replicas.name} is {jobs}",
            why="it has to be 1: each Job would number its pods from 0, and JAX needs one rank"
            " for each pod",
            next=f"write replicas: 1 in {path}; the trial gets all its pods from --nodes",
        )
    spec = job.at("template", "spec")
    pods = next(
        (field for name in ("completions", "parallelism") if (field := spec.at(name)).value), None
    )
    has = nodes if pods is None else jobs * pods.count(str(nodes))
    if has != nodes:
        raise UsageError(
            f"{path} has {has} pods, but trials take {nodes} node{'' if nodes == 1 else 's'}",
            next=f"use --nodes {has}",
        )
    if nodes % jobs:
        raise UsageError(
            f"{path}: {nodes} pods can't be divided among the {jobs} Jobs of {replicas.name}",
            next=f"use --nodes {jobs}",
        )


def _check_mounts(path: Path, pod: TemplateField, container: TemplateField, study: Path) -> None:
    """Refuse a study that pods would write where this machine does not see it."""
    volumes = pod.at("volumes")
    alone = {
        one.at("name").value
        for one in (volumes.items("[]") if volumes.value else ())
        if any(kind in one.mapping() for kind in _OF_ONE_POD)
    }
    mounts = container.at("volumeMounts")
    shared = [
        one.at("mountPath").text("/shared")
        for one in (mounts.items("[]") if mounts.value else ())
        if one.at("name").value not in alone and not one.at("readOnly").value
    ]
    # As the pods get it: links of this machine do not exist there.
    directory = Path(os.path.normpath(study.absolute()))
    if any(directory.is_relative_to(os.path.normpath(mount)) for mount in shared):
        return
    where = f"{', '.join(shared)}" if shared else "none"
    raise InputError(
        f"the study {directory} is on no volume that {path} mounts",
        why="pods write their results there, and this machine reads them; volumes that may be"
        f" shared are mounted at: {where}",
        next=f"use -o {shared[0].rstrip('/')}/STUDY"
        if shared
        else f"add the volume with {directory} to volumes and volumeMounts in {path}",
    )


def _only(path: Path, what: str, names: Sequence[str], devices: Sequence[int]) -> int:
    """Return the position of the only one, or the only one that asks for GPUs or TPUs."""
    found = [number for number, count in enumerate(devices) if count or len(names) == 1]
    if len(found) != 1:
        raise InputError(
            f"{path} has several {what}s: {', '.join(names)}",
            why="a trial runs in the one that requests GPUs or TPUs, and"
            f" {len(found) or 'none'} of them do{'' if found else 'es'}",
            next=f"write nvidia.com/gpu: 8 under resources.limits of only one of them in {path}",
        )
    return found[0]


def _counted(container: TemplateField) -> int:
    """Return the GPUs or TPUs of a container, each amount checked."""
    resources = container.at("resources")
    limits = None if resources.value is None else resources.at("limits")
    if limits is None or limits.value is None:
        return 0
    return sum(limits.at(name).count("8") for name in limits.mapping() if _is_device(name))


def _is_device(resource: object) -> bool:
    return str(resource).endswith(("/gpu", "/tpu"))


def _is_tpu(container: Mapping[str, Any]) -> bool:
    return "google.com/tpu" in _part(container, "resources", "limits")


def _devices_of(container: Mapping[str, Any]) -> int:
    limits = _part(container, "resources", "limits")
    return sum(int(n) for name, n in limits.items() if _is_device(name))


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
    if nodes > 1 and not _is_tpu(container):
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
