"""Manifests that Counterpoint makes are what published models of them accept."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import pytest

from counterpoint.flags.settings import Settings
from counterpoint.tune.executors.executor import ProcessShape, TrialJob, TrialLimits
from counterpoint.tune.executors.kubernetes_template import read_template

pytestmark = pytest.mark.system

SETTINGS = Settings(
    (("xla_gpu_enable_triton_gemm", "false"),), (("NCCL_ALGO", "Ring"), ("TEXT", "it's $(X) $$"))
)
GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "tune-clusters.md"


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
