"""What a launch file says of its release and its chip, and the release that it is checked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from counterpoint.flags.check.examination import CheckRequest, Examination, examine
from counterpoint.flags.jaxlib import JaxlibInterpreter
from counterpoint.flags.parse.destination import machine_of, pin_of
from counterpoint.flags.parse.source import read_source

GONE = "xla_gpu_graph_level"  # until 0.7.1
GONE_BEFORE = "xla_gpu_enable_triton_softmax_fusion"  # until 0.5.0
LATER = "xla_gpu_pipeline_all_gather"  # from 0.11.0 on
JOB = f'export XLA_FLAGS="--{GONE}=0 --xla_gpu_enable_triton_gemm=false"\npython train.py\n'


def examined(
    path: Path, text: str, *, version: str | None = None, chip: str | None = None
) -> Examination:
    path.write_text(text)
    installed = JaxlibInterpreter(Path("python"), "0.10.2")
    question = CheckRequest(interpreter=installed, version=version, chip=chip)
    return examine(read_source(path), question)


@pytest.mark.parametrize(
    ("text", "releases"),
    [
        ('pip install "jax[cuda12]==0.4.35"\n', ("0.4.35",)),
        ("pip install jax==0.4.35 jaxlib==0.4.34\n", ("0.4.34",)),
        ("- jaxlib=0.4.35=cuda120\n", ("0.4.35",)),
        ('[[package]]\nname = "jaxlib"\nversion = "0.6.2"\n', ("0.6.2",)),
        ("FROM us-docker.pkg.dev/cloud-tpu-images/jax-ai-image/tpu:jax0.9.0-rev1\n", ("0.9.0",)),
        ("image: rocm/jax:rocm6.0.0-jax0.4.31-py3.10\n", ("0.4.31",)),
        ("image: ghcr.io/nvidia/jax:maxtext-2024-10-23\n", ("0.4.35", "0.4.36")),
        ("FROM nvcr.io/nvidia/jax:24.10-py3\n", ("0.4.33", "0.4.34")),
        ("see https://github.com/jax-ml/jax/releases/tag/jax-v0.4.35\n", None),
        ("bash build.sh JAX_VERSION=0.7.0\n", ("0.7.0",)),
        ("pip install https://x.org/jaxlib-0.4.30+rocm611-cp310-cp310-linux.whl\n", ("0.4.30",)),
        ("# pip install jax==0.4.35\n", None),
        ("pip install jax==0.4.35\npip install jax==0.5.0\n", None),
        ("image: ghcr.io/nvidia/jax:maxtext-2024-10-23\nimage: ghcr.io/nvidia/jax:base\n", None),
        ("image: ghcr.io/nvidia/jax:maxtext-2099-01-01\n", None),
        ("image: gcr.io/me/my-jax:2024-10-23\n", None),
        ("image: gcr.io/me/jax:24.10-mine\nenable_jax: 1\n", None),
        ("enable_jax: 1\nimage: x.dev/r/maxtext:toolbox-2024-10-23-A3\n", ("0.4.35", "0.4.36")),
        ("pip install jaxtyping==0.2.1 flax==0.8.0\n", None),
        ("'jax[cuda12]>=0.4.33, <0.4.36'\n", ("0.4.35", "0.4.34", "0.4.33")),
        ("jax~=0.6.1\n", ("0.6.2", "0.6.1")),
        ("jaxlib<0.1\n", None),
    ],
)
def test_the_release_that_a_text_installs(text: str, releases: tuple[str, ...] | None) -> None:
    pin = pin_of(text, "job.sh")
    assert (pin and pin.releases) == releases


def test_prose_installs_nothing() -> None:
    page = "Tested with jax==0.4.35.\n"
    assert pin_of(page, "README.md", page=True) is None
    assert pin_of(f"{page}pip install jax==0.5.0\n", "README.md", page=True) is not None


@pytest.mark.parametrize(
    ("text", "chip"),
    [
        ("gcloud create --machine-type=a3-megagpu-8g\n", "H100"),
        ("#SBATCH --gres=gpu:a100:8\n", "A100"),
        ("# srun --gres=gpu:a100:8\n", None),
        ("srun --gres=gpu:h100:8 python x.py\n", "H100"),
        ("srun --gres=gpu:l40s:4 python x.py\n", "L40S"),
        ("#SBATCH --gpus-per-node=b300:8\n", "B300"),
        ("#SBATCH --gres=gpu:a100-80gb:8\n", None),
        ("--accelerator-type=v5litepod-256\n", "TPU v5e"),
        ("cloud.google.com/gke-tpu-accelerator: tpu-v6e-slice\n", "TPU v6e"),
        ("nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3\n", "H100"),
        ("node.kubernetes.io/instance-type: BM.GPU.MI300X.8\namd.com/gpu: 8\n", "MI300X"),
        ("image: rocm/jax:rocm6.4\n", "AMD"),
        ("export HIP_VISIBLE_DEVICES=0\n", "AMD"),
        ("a3-megagpu-8g\na4-highgpu-8g\n", None),
        ("uses: actions/checkout@v4-8\n", None),
        ("my-a3-megagpu-8g-cluster\n", None),
    ],
)
def test_the_chip_that_a_text_names(text: str, chip: str | None) -> None:
    machine = machine_of(text, "job.sh")
    assert (machine and machine.chip) == chip


def test_what_a_file_installs_is_what_it_is_checked_for(tmp_path: Path) -> None:
    text = f"pip install jax==0.4.35\n{JOB}"
    found = examined(tmp_path / "job.sh", text)
    assert (found.asked, found.failed) == ("0.4.35", False)
    assert [(one.code, one.name) for one in found.upgrade] == [("FLAG102", GONE)]
    assert "jaxlib 0.10.2 aborts" in found.upgrade[0].message
    told = examined(tmp_path / "job.sh", text, version="0.10.2")
    assert (told.asked, told.failed, told.upgrade) == ("0.10.2", True, ())


def test_a_lock_beside_the_file_counts_up_to_its_repository(tmp_path: Path) -> None:
    scripts = tmp_path / "repository" / "scripts"
    scripts.mkdir(parents=True)
    (tmp_path / "requirements.txt").write_text("jaxlib==0.4.30\n")
    assert examined(scripts / "job.sh", JOB).asked == "0.10.2"
    (tmp_path / "repository" / ".git").mkdir()
    (tmp_path / "repository" / "requirements.txt").write_text("jax[cuda12]==0.5.0\n")
    found = examined(scripts / "job.sh", JOB)
    assert found.own is not None
    assert (found.asked, found.own.pinned) == ("0.5.0", True)
    assert found.own.why.endswith("requirements.txt:1")


def test_flags_of_one_time_are_checked_for_it_and_are_errors_nevertheless(tmp_path: Path) -> None:
    found = examined(tmp_path / "job.sh", JOB)
    assert found.own is not None
    assert (found.own.version, found.own.pinned, found.upgrade) == ("0.7.1", False, ())
    (error,) = found.standing
    assert (error.code, found.failed) == ("FLAG102", True)
    assert "jaxlib 0.10.2 aborts" in error.message


def test_flags_of_no_common_release_are_checked_for_the_installed_one(tmp_path: Path) -> None:
    text = f'export XLA_FLAGS="--{GONE_BEFORE}=false --{LATER}=on"\npython train.py\n'
    found = examined(tmp_path / "job.sh", text)
    assert (found.own, found.asked) == (None, "0.10.2")
    assert {one.code for one in found.standing} == {"FLAG102", "FLAG104"}


def test_of_two_releases_around_a_day_the_one_with_the_flags_is_meant(tmp_path: Path) -> None:
    """The image of 2025-02-01 is between 0.5.0 and 0.5.1, which lacks the first flag."""
    text = f"image: ghcr.io/nvidia/jax:2025-02-01\nenv:\n  XLA_FLAGS: --{GONE_BEFORE}=false\n"
    assert examined(tmp_path / "pod.yaml", text).asked == "0.5.0"
    text = text.replace(GONE_BEFORE, "xla_gpu_enable_triton_gemm")
    assert examined(tmp_path / "pod.yaml", text).asked == "0.5.0"


def test_of_a_day_between_two_releases_only_what_both_refuse_is_an_error(tmp_path: Path) -> None:
    """0.5.0 has the first flag and 0.5.1 the second: the image of the day may have both."""
    first, second = GONE_BEFORE, "xla_hlo_pass_fix_detect_cycles"
    text = (
        "image: ghcr.io/nvidia/jax:2025-02-01\nenv:\n  XLA_FLAGS: --{}=false --{}=true --xla_no=1\n"
    )
    found = examined(tmp_path / "pod.yaml", text.format(first, second))
    assert [one.name for one in found.standing if one.code.startswith("FLAG1")] == ["xla_no"]
    assert [one.name for one in found.upgrade] == [first]


def test_of_a_release_before_all_tables_no_flag_is_called_unknown(tmp_path: Path) -> None:
    text = "pip install jaxlib==0.3.25\nexport XLA_FLAGS=--xla_gpu_of_that_time=1\npython x.py\n"
    found = examined(tmp_path / "job.sh", text)
    assert (found.asked, found.failed) == ("0.3.25", False)


def test_a_range_that_the_installed_release_is_in_says_nothing(tmp_path: Path) -> None:
    text = "pip install 'jax>=0.4.30{}'\nexport NCCL_DEBUG=INFO\npython x.py\n"
    assert examined(tmp_path / "job.sh", text.format("")).own is None
    found = examined(tmp_path / "job.sh", text.format(",<0.5")).own
    assert found is not None
    assert (found.version, found.exact) == ("0.4.38", False)
    old = examined(tmp_path / "job.sh", f"pip install 'jax>=0.4.30'\n{JOB}")
    assert old.own is not None
    assert (old.own.version, old.failed) == ("0.7.1", True)


def test_the_chip_of_the_file_counts_unless_another_is_asked_about(tmp_path: Path) -> None:
    text = (
        "gcloud x --machine-type=a4-highgpu-8g\n"
        "export CUDA_DEVICE_MAX_CONNECTIONS=1\npython train.py\n"
    )
    assert [one.code for one in examined(tmp_path / "job.sh", text).standing] == ["FLAG505"]
    assert not examined(tmp_path / "job.sh", text, chip="H100").standing


def test_a_flag_of_another_chip_than_the_named_one_is_minor(tmp_path: Path) -> None:
    text = "TPU_TYPE=v6e-8\nexport XLA_FLAGS=--xla_gpu_autotune_level=0\npython train.py\n"
    found = examined(tmp_path / "job.sh", text)
    assert [(one.code, one.minor) for one in found.remarks] == [("FLAG107", "without effect here")]
    told = examined(tmp_path / "job.sh", text, chip="TPU v6e")
    assert [one.code for one in told.standing] == ["FLAG107"]


def test_rccl_has_defaults_of_its_own(tmp_path: Path) -> None:
    pxn = "export NCCL_PXN_DISABLE=0\nexport NCCL_IB_SL=0\npython train.py\n"

    def defaults(text: str) -> list[str]:
        return [one.name for one in examined(tmp_path / "job.sh", text).remarks]

    assert defaults(f"{pxn}# MI300X\nimage=rocm/jax:rocm6.4\n") == []
    assert defaults(pxn) == ["NCCL_IB_SL"]
    assert defaults(f"M=a3-megagpu-8g\n{pxn}") == ["NCCL_PXN_DISABLE", "NCCL_IB_SL"]
