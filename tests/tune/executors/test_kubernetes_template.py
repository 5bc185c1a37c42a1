"""The user's JobSet is checked on this machine, and errors name its fields; no cluster is asked."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from counterpoint.cli import main
from counterpoint.core.errors import CounterpointError
from counterpoint.tune.executors.kubernetes_template import read_template

TEMPLATE = """
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
spec:
  replicatedJobs:
    - name: worker
      replicas: 1
      template:
        spec:
          template:
            spec:
              containers:
                - name: train
                  image: registry/train:1
                  resources: {limits: {nvidia.com/gpu: 8}}
                  volumeMounts:
                    - {name: shared, mountPath: /shared}
                    - {name: tmp, mountPath: /scratch}
              volumes:
                - name: shared
                  persistentVolumeClaim: {claimName: shared}
                - {name: tmp, emptyDir: {}}
"""
POD = "spec.replicatedJobs[0].template.spec.template.spec"
BOX = f"{POD}.containers[0]"
JOBS = "replicatedJobs:\n    - name"
Refused = Callable[[bytes], CounterpointError]


@pytest.fixture
def refused(tmp_path: Path) -> Refused:
    """Read a file with that content, and return the error, which has to name the next step."""

    def read(content: bytes) -> CounterpointError:
        path = tmp_path / "jobset.yaml"
        path.write_bytes(content)
        with pytest.raises(CounterpointError) as error:
            read_template(path, 4, Path("/shared/study"))
        assert error.value.next
        assert str(path) in error.value.what
        assert "Error" not in str(error.value)
        return error.value

    return read


@pytest.mark.parametrize(
    ("old", "new", "told", "needs"),
    [
        ("containers:", "containerz:", f"{POD}.containers is missing", "a list with at least one"),
        (JOBS, "replicatedJobs: 5\n  x:\n    - name", "spec.replicatedJobs is 5", "a list"),
        (JOBS, "replicatedJobs: [7]\n  x:\n    - name", "spec.replicatedJobs[0] is 7", "a mapping"),
        ("spec:\n  replicatedJobs", "spec: null\nx:\n  y", "spec is null", "a mapping"),
        ("gpu: 8", "gpu: lots", f"{BOX}.resources.limits.nvidia.com/gpu is lots", "a whole number"),
        ("gpu: 8", "gpu: true", f"{BOX}.resources.limits.nvidia.com/gpu is True", "a whole number"),
        ("image: registry/train:1", "tty: true", f"{BOX}.image is missing", "a text"),
        ("image: registry/train:1", "image:", f"{BOX}.image is null", "a text"),
        (
            "image: registry/train:1",
            "image: i\n                  env: 3",
            f"{BOX}.env is 3",
            "list",
        ),
        ("replicas: 1", "replicas: 2", "spec.replicatedJobs[0].replicas is 2", "has to be 1"),
        ("replicas: 1", "replicas: 0", "spec.replicatedJobs[0].replicas is 0", "at least 1"),
        ("v1alpha2", "v1", "apiVersion is jobset.x-k8s.io/v1", "jobset.x-k8s.io/v1alpha2"),
        ("mountPath: /shared", "mountPath: /data", "/shared/study is on no volume", "/data"),
        ("/shared}", "/shared, readOnly: true}", "/shared/study is on no volume", "none"),
        ("mountPath: /scratch", "mountPath: 1", f"{BOX}.volumeMounts[1].mountPath is 1", "a text"),
    ],
)
def test_a_field_is_named_with_what_it_needs(
    refused: Refused, old: str, new: str, told: str, needs: str
) -> None:
    assert TEMPLATE.count(old) == 1
    content = TEMPLATE.replace(old, new)
    if "mountPath: 1" in new:  # of a volume that counts as shared
        content = content.replace("emptyDir: {}", "nfs: {}")
    error = refused(content.encode())
    assert told in error.what
    assert needs in (error.why or "")


@pytest.mark.parametrize(
    ("content", "told", "why"),
    [
        (b"hello", "has a text", "a trial is made from it"),
        (b"", "has nothing", "a trial is made from it"),
        (b"a: 1", "has a mapping without `kind`", "a trial is made from it"),
        (TEMPLATE.replace("kind: JobSet", "kind: Job").encode(), "has Job", "a trial is made"),
        (f"{TEMPLATE}---{TEMPLATE}".encode(), "has JobSet, JobSet", "a trial is made"),
        (b"a: [", "can't be read as YAML", "line 1, column 5"),
        (b"a: 2024-99-99", "can't be read as YAML", "month must be in 1..12"),
        (b"\xf5\x00\xeb", "can't be read as YAML", "it is not a text file"),
        (b"a\x00b", "can't be read as YAML", "it is not a text file"),
        (b"[" * 600, "can't be read as YAML", "nested too deeply"),
    ],
)
def test_other_files_are_no_template(refused: Refused, content: bytes, told: str, why: str) -> None:
    error = refused(content)
    assert told in error.what
    assert why in (error.why or "")


def test_a_misspelled_field_is_pointed_out(refused: Refused) -> None:
    error = refused(TEMPLATE.replace("containers:", "containerz:").encode())
    assert "`containerz`" in (error.why or "")
    error = refused(TEMPLATE.replace("nvidia.com/gpu: 8", "nvidia.com/gpu: x").encode())
    assert str(error.next).startswith("write nvidia.com/gpu: 8 in ")


def test_a_template_of_several_slices_of_tpus_is_accepted(tmp_path: Path) -> None:
    path = tmp_path / "jobset.yaml"
    text = TEMPLATE.replace("replicas: 1", "replicas: 2").replace(
        "nvidia.com/gpu", "google.com/tpu"
    )
    path.write_text(text)
    assert read_template(path, 4).gpus == 0
    path.write_text(TEMPLATE)
    assert read_template(path, 4, Path("/shared/a/../study")).gpus == 8


@pytest.mark.parametrize(
    ("words", "old", "new", "told", "then"),
    [
        ((), "", "", "nothing to try", "--target 4x8xH100"),
        ((), "gpu: 8", "gpu: 4", "nothing to try", "--target 4x4xH100"),
        ((), "nvidia.com/gpu", "google.com/tpu", "nothing to try", "--arm FLAGS"),
        ((), "containers", "containerz", "containers is missing", "write containers"),
        ((), "kind: JobSet", "", "has a mapping without `kind`", "--job-template FILE"),
        (("--arm", "NCCL_NVLS_ENABLE=0"), "replicas: 1", "replicas: 2", "replicas is 2", "--nodes"),
        (("--arm", "NCCL_NVLS_ENABLE=0"), "/shared}", "/data}", "is on no volume", "/data/STUDY"),
        (("--target", "4x8xH100"), "image:", "imag:", "image is missing", "write image:"),
    ],
)
def test_the_command_checks_it_before_all_else(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    old: str,
    new: str,
    told: str,
    then: str,
) -> None:
    path = tmp_path / "jobset.yaml"
    path.write_text(TEMPLATE.replace(old, new) if old else TEMPLATE)
    place = ("--job-template", str(path), "--nodes", "4", "-o", "/shared/study", "--dry-run")
    assert main(["tune", *place, *words, "--", sys.executable, "train.py"]) in (2, 3)
    error, _, line = capsys.readouterr().err.partition("next: ")
    assert told in error
    assert then in line


def test_a_target_is_advised_that_has_as_many_nodes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))  # without the driver's tool, no GPUs are found
    place = ("--ray-address", "ray://head:10001", "--nodes", "4", "-o", str(tmp_path / "study"))
    assert main(["tune", *place, "--dry-run", "--", sys.executable, "train.py"]) == 2
    error = capsys.readouterr().err
    assert "nothing to try" in error
    assert "--target 4x8xH100" in error
