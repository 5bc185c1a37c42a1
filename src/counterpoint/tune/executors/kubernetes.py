"""Kubernetes: each trial is a JobSet, made from the user's own, with one pod on each node.

JobSet starts and ends the pods of a trial together, and Kueue, if the JobSet names a queue of it,
admits all of them at once. The trial's Run and its profiles arrive through a volume that the pods
and this machine share.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from counterpoint.core import UsageError
from counterpoint.core.arguments import option_of
from counterpoint.tune.executors.executor import (
    Executor,
    ExecutorKind,
    PlaceRequest,
    ProcessShape,
)

if TYPE_CHECKING:
    from counterpoint.tune.executors.kubernetes_template import JobTemplate


@dataclass(frozen=True)
class KubernetesOptions:
    """What the pods of a trial are.

    Args:
        job_template: A JobSet of yours for Kubernetes; trials get its image, volumes and resources.
    """

    job_template: str | None = None


def _make(request: PlaceRequest[KubernetesOptions]) -> Executor:
    template = _template(request)
    if find_spec("kubernetes") is None:
        raise UsageError(
            "--executor kubernetes: the Kubernetes client is not installed here",
            next="pip install 'counterpoint[kubernetes]'",
        )
    from counterpoint.tune.executors.kubernetes_gang import Kubernetes

    made = Kubernetes(
        name=KUBERNETES.name,
        shape=request.shape,
        template=template,
        say=request.say,
    )
    made.refuse_what_the_cluster_would()
    return made


def _template(request: PlaceRequest[KubernetesOptions]) -> JobTemplate:
    refuse_shape(request.shape)
    path = request.options.job_template
    if path is None:
        raise UsageError(
            "--executor kubernetes: --job-template is missing",
            why="image, volumes and resources of the pods are those of a JobSet of yours",
            next="use --job-template jobset.yaml",
        )
    from counterpoint.tune.executors.kubernetes_template import read_template

    return read_template(Path(path), request.shape.nodes, request.study)


def _gpus_of_a_node(request: PlaceRequest[KubernetesOptions]) -> int:
    return _template(request).gpus


def refuse_shape(shape: ProcessShape) -> None:
    """Raise a UsageError unless there is one process in each pod, as JAX has them there."""
    if shape.ranks_per_node not in (None, 1) or shape.per == "gpu":
        wanted = "per" if shape.ranks_per_node is None else "ranks_per_node"
        raise UsageError(
            f"{option_of(wanted)} {getattr(shape, wanted)}: on Kubernetes a trial has one process"
            " per pod",
            why="the pods of a JobSet share no process namespace; a process may use all GPUs of"
            " its pod",
            next=f"omit {option_of(wanted)}",
        )


KUBERNETES: Final = ExecutorKind(
    name="kubernetes",
    summary="one JobSet on Kubernetes per trial",
    make=_make,
    gpus_elsewhere=_gpus_of_a_node,
    options=KubernetesOptions,
    has_own_python=True,
)
