"""Manifests that Counterpoint changes or makes are still what published models of them accept."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import pytest
import yaml

from counterpoint.flags import Settings
from counterpoint.flags.patch import patch_text
from counterpoint.tune.executors.executor import ProcessShape, TrialJob, TrialLimits
from counterpoint.tune.executors.kubernetes_template import read_template

pytestmark = pytest.mark.slow

SETTINGS = Settings(
    (("xla_gpu_enable_triton_gemm", "false"),), (("NCCL_ALGO", "Ring"), ("TEXT", "it's $(X) $$"))
)
GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "tune-clusters.md"
TRAIN_JOB = """
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: llama}
spec:
  runtimeRef: {name: jax-distributed}   # of the platform
  trainer:
    numNodes: 4
    image: registry/train:1
    env: [{name: XLA_FLAGS, value: --xla_gpu_autotune_level=2}]
"""
JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec:
  completionMode: Indexed
  completions: 2
  template:
    spec:
      restartPolicy: Never
      containers:
        - {name: train, image: registry/train:1}
"""


def jobset() -> str:
    """The JobSet that the guide shows."""
    return GUIDE.read_text().split("```yaml\n")[1].split("```")[0]


class Model(Protocol):
    """A class that OpenAPI's generator has made."""

    def from_dict(self, document: object, /) -> Any: ...  # noqa: ANN401


class Models(Protocol):
    JobsetV1alpha2JobSet: Model
    TrainerV1alpha1TrainJob: Model


def same(model: Model, document: dict[str, Any]) -> None:
    """The model accepts the document, and knows all of its fields."""
    assert model.from_dict(document).to_dict() == document


@pytest.fixture(scope="module")
def models() -> Models:
    return pytest.importorskip(
        "kubeflow_trainer_api.models", reason="kubeflow-trainer-api is not installed"
    )


def patched(text: str) -> dict[str, Any]:
    return yaml.safe_load(patch_text(text, "job.yaml", SETTINGS).text)


def test_a_patched_jobset_is_a_jobset(models: Models) -> None:
    found = patched(jobset())
    same(models.JobsetV1alpha2JobSet, found)
    assert "NCCL_ALGO" in str(found)


def test_a_patched_train_job_is_a_train_job(models: Models) -> None:
    found = patched(TRAIN_JOB)
    same(models.TrainerV1alpha1TrainJob, found)
    names = {one["name"] for one in found["spec"]["trainer"]["env"]}
    assert names == {"XLA_FLAGS", "NCCL_ALGO", "TEXT"}


def test_the_jobset_of_a_trial_is_a_jobset(models: Models, tmp_path: Path) -> None:
    (tmp_path / "jobset.yaml").write_text(jobset())
    template = read_template(tmp_path / "jobset.yaml", 4)
    job = TrialJob(
        name="t1",
        command=("python", "train.py", "$(HOME)"),
        directory=tmp_path / "run",
        settings=SETTINGS,
        environment={"GONE": None, "KEPT": "1"},
        shape=ProcessShape(nodes=4),
        limits=TrialLimits(timeout_s=60),
    )
    made = template.made(job, "counterpoint-12345678-1", "counterpoint-12345678")
    same(models.JobsetV1alpha2JobSet, made)
    (container,) = made["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"][
        "containers"
    ]
    assert container["command"][:4] == ["env", "-u", "GONE", "counterpoint"]
    assert container["command"][-1] == "$$(HOME)"


def test_a_patched_job_fits_the_schema_of_kubernetes() -> None:
    """Not among the requirements of development: its schemas take 108 MB."""
    schemas = pytest.importorskip(
        "kubernetes_validate", reason="kubernetes-validate (108 MB) is not installed"
    )
    schemas.validate(patched(JOB), schemas.latest_version(), strict=True)
    with pytest.raises(schemas.ValidationError):
        schemas.validate({**patched(JOB), "spec": {"nodes": 2}}, schemas.latest_version())
