"""Manifests that Counterpoint changes or makes are still what published models of them accept."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest
import yaml

from counterpoint.flags.patch import patch_text
from counterpoint.flags.settings import Settings
from counterpoint.tune.executors.executor import ProcessShape, TrialJob, TrialLimits
from counterpoint.tune.executors.kubernetes_template import read_template

pytestmark = pytest.mark.system

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


POD = """\
{0}template:
{0}  metadata: {{labels: {{app: train}}}}
{0}  spec:
{0}    initContainers:
{0}      - {{name: before, image: registry/init:1}}
{0}    containers:
{0}      - name: train   # a comment
{0}        image: registry/train:1
{0}        env:
{0}          - name: NCCL_ALGO
{0}            value: Tree
"""
OPERATORS = {
    "MPIJob": ("kubeflow.org/v1", "mpiReplicaSpecs", ("Launcher", "Worker")),
    "PyTorchJob": ("kubeflow.org/v1", "pytorchReplicaSpecs", ("Master", "Worker")),
    "RayJob": ("ray.io/v1", "rayClusterSpec", ("headGroupSpec", "workerGroupSpec")),
}


def pods(node: object) -> Iterator[dict[str, Any]]:
    """The templates of pods, each as a pod that Kubernetes would be given."""
    if isinstance(node, dict):
        if isinstance(template := node.get("template"), dict):
            yield {"apiVersion": "v1", "kind": "Pod", **template}
        for value in node.values():
            yield from pods(value)


@pytest.fixture(scope="module")
def schemas() -> Any:  # noqa: ANN401
    """Not among the requirements of development: they take 108 MB."""
    return pytest.importorskip(
        "kubernetes_validate", reason="kubernetes-validate (108 MB) is not installed"
    )


@pytest.mark.parametrize("kind", OPERATORS)
def test_pods_of_patched_jobs_of_operators_fit_the_schema_of_kubernetes(
    schemas: Any,  # noqa: ANN401
    kind: str,
) -> None:
    version, field, names = OPERATORS[kind]
    parts = "".join(f"    {name}:\n{POD.format(' ' * 6)}" for name in names)
    text = f"apiVersion: {version}\nkind: {kind}\nmetadata: {{name: t}}\nspec:\n  {field}:\n{parts}"
    found = list(pods(patched(text)))
    assert len(found) == 2
    for pod in found:
        schemas.validate(pod, schemas.latest_version(), strict=True)
        assert "Ring" in str(pod["spec"]["containers"])


XPK = (
    "xpk workload create --cluster c --workload w --project p --zone us-central1-a"
    " --device-type h100-mega-80gb-8 --num-nodes 2 --docker-image jax:1 --dry-run"
    " --env=NCCL_ALGO=Tree --env NCCL_DEBUG=INFO --command 'python t.py'\n"
)


def created(command: str, home: Path) -> dict[str, Any]:
    """The JobSet that xpk would create."""
    done = subprocess.run(
        ["/bin/sh", "-c", command],
        env={**os.environ, "HOME": str(home)},
        capture_output=True,
        text=True,
        check=True,
    )
    start = done.stdout.index("apiVersion: jobset")
    return yaml.safe_load(done.stdout[start : done.stdout.index("\n[XPK]", start)])


@pytest.mark.skipif(shutil.which("xpk") is None, reason="xpk is not installed (pip install xpk)")
def test_the_jobset_of_a_patched_command_of_xpk_has_the_settings(tmp_path: Path) -> None:
    new = created(patch_text(XPK, "run.sh", SETTINGS).text, tmp_path)
    old = created(XPK, tmp_path)
    variables: list[dict[str, str]] = []
    for one in (old, new):
        (pod,) = pods(one["spec"]["replicatedJobs"][0]["template"]["spec"])
        (container,) = pod["spec"]["containers"]
        variables.append({it["name"]: it.get("value") for it in container.pop("env")})
    own, patched_ = variables
    assert old == new
    wanted = {
        "XLA_FLAGS": "--xla_gpu_enable_triton_gemm=false",
        "NCCL_ALGO": "Ring",
        "TEXT": "it's $$(X) $$",
    }
    assert patched_ == own | wanted


def test_a_patched_job_fits_the_schema_of_kubernetes(schemas: Any) -> None:  # noqa: ANN401
    schemas.validate(patched(JOB), schemas.latest_version(), strict=True)
    with pytest.raises(schemas.ValidationError):
        schemas.validate({**patched(JOB), "spec": {"nodes": 2}}, schemas.latest_version())
