"""Settings that would let every profile lie unread are refused, where this XLA obeys them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command_line import Counterpoint
from counterpoint.capture.gpu_presence import may_have_gpu
from counterpoint.capture.request import RunRequest
from counterpoint.core.errors import UsageError
from counterpoint.pgle.profiles.files import write_profile
from counterpoint.pgle.profiles.profile import InstructionCost, Profile
from counterpoint.workflow.feedback.task import (
    FeedbackTask,
    on_tpus,
    refuse_flags,
    refuse_platform,
)

LHS = "xla_gpu_enable_latency_hiding_scheduler"


def task(directory: Path, jaxlib: str, flags: str = "") -> FeedbackTask:
    """A task whose interpreter is one that has this jaxlib."""
    return with_packages(directory, {"jaxlib": jaxlib}, flags)


def with_packages(directory: Path, packages: dict[str, str], flags: str = "") -> FeedbackTask:
    directory.mkdir(exist_ok=True)
    python = directory / "python3"
    python.write_text(f"#!/bin/sh\necho '{json.dumps(packages)}'\n")
    python.chmod(0o755)
    environment = {"PATH": f"{directory}:/usr/bin:/bin", "XLA_FLAGS": flags}
    return FeedbackTask(
        request=RunRequest(command=("python3", "train.py"), environment=environment),
        directory=directory / "out",
    )


def test_a_scheduler_that_is_off_is_refused_where_off_means_off(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="would ignore profiles") as refused:
        refuse_flags(task(tmp_path, "0.12.0", f"--{LHS}=false"))
    assert refused.value.exit_code == 2
    refuse_flags(task(tmp_path, "0.10.2", f"--{LHS}=false"))
    refuse_flags(task(tmp_path, "0.12.0"))


def test_the_scheduler_stands_in_every_phase_unless_the_user_sets_it(tmp_path: Path) -> None:
    assert task(tmp_path, "0.10.2").under().flags == {LHS: "true"}
    assert LHS not in task(tmp_path, "0.10.2", f"--{LHS}=false").under().flags


@pytest.mark.parametrize("way", ["auto", "manual", "nsys"])
@pytest.mark.parametrize("words", [("--env", "JAX_PLATFORMS=cpu"), ()], ids=["--env", "exported"])
def test_without_gpus_nothing_is_run(
    counterpoint: Counterpoint, tmp_path: Path, way: str, words: tuple[str, ...]
) -> None:
    exported = {} if words else {"JAX_PLATFORMS": "cpu"}
    done = counterpoint("pgle", way, *words, "-o", "out", "--", "true", **exported)
    assert done.returncode == 2
    assert done.stderr.startswith("error: JAX_PLATFORMS=cpu: ")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("way", ["auto", "manual", "nsys"])
def test_on_tpus_the_commands_are_printed_and_not_run(
    counterpoint: Counterpoint, tmp_path: Path, way: str
) -> None:
    words = ("--env", "JAX_PLATFORMS=tpu", "-o", "out", "--", "python", "train.py")
    done = counterpoint("pgle", way, *words)
    assert done.returncode == 2
    assert "runs none of them" in done.stderr
    next_ = done.stderr.splitlines()[-1].removeprefix("  next: ")
    assert next_.endswith("pgle manual --print-only --env JAX_PLATFORMS=tpu -- python train.py")
    assert not list(tmp_path.iterdir())


def test_the_commands_for_tpus_translate_the_profile(
    counterpoint: Counterpoint, tmp_path: Path
) -> None:
    words = ("--env", "JAX_PLATFORMS=tpu", "-o", "out", "--print-only", "--", "python", "train.py")
    measured = counterpoint("pgle", "manual", *words, LIBTPU_INIT_ARGS="--xla_tpu_own=1").stdout
    commands = [line for line in measured.replace(" \\\n ", "").splitlines() if line[:1] != "#"]
    order = [" run ", "pgle make out/profile -o out/step.pbtxt", "pgle apply out/step.pbtxt"]
    order += ["without-1", "with-1", "tail"]
    places = [next(at for at, line in enumerate(commands) if part in line) for part in order]
    assert places == sorted(places)
    path = f"scheduler_profile_path={tmp_path}/out/libtpu.pb"
    (given,) = (line for line in commands if path in line)
    assert f"LIBTPU_INIT_ARGS='--xla_tpu_own=1 --xla_tpu_impure_latency_hiding_{path}'" in given
    assert "xla_gpu" not in measured
    write_profile(Profile((InstructionCost("all-gather-start", 1.0),)), tmp_path / "given.pb")
    ready = counterpoint("pgle", "manual", "--profile", "given.pb", *words).stdout
    assert f"scheduler_profile_path={tmp_path}/given.pb" in ready
    assert "pgle apply" not in ready


def test_a_jax_that_has_libtpu_alone_runs_on_tpus(tmp_path: Path) -> None:
    packages = {"jaxlib": "0.12.0", "libtpu": "0.0.50.1"}
    assert on_tpus(with_packages(tmp_path / "tpu", packages))
    assert not on_tpus(with_packages(tmp_path / "gpu", {**packages, "jax-cuda13-plugin": "0.12"}))
    assert not on_tpus(task(tmp_path, "0.12.0"))


def test_a_jax_without_a_gpu_backend_is_refused(counterpoint: Counterpoint, tmp_path: Path) -> None:
    python = tmp_path / "python3"
    python.write_text(
        '#!/bin/sh\necho \'{"python": "3.12.1", "jax": "0.10.2", "jaxlib": "0.10.2"}\'\n'
    )
    python.chmod(0o755)
    done = counterpoint("pgle", "manual", "-o", "out", "--", str(python), "train.py")
    assert done.returncode == 2
    assert f"{python} has no GPU" in done.stderr
    assert [it.name for it in tmp_path.iterdir()] == ["python3"]


@pytest.mark.parametrize(
    "sign",
    [
        *("dev/nvidiactl", "dev/nvidia0", "dev/dxg", "dev/kfd", "dev/nvhost-gpu"),
        *("proc/driver/nvidia/version", "usr/lib/x86_64-linux-gnu/libcuda.so.1"),
        *("usr/lib64/libcuda.so.1", "usr/lib/wsl/lib/libcuda.so.1", "ours/libcuda.so"),
    ],
)
def test_any_sign_of_a_gpu_is_one(tmp_path: Path, sign: str) -> None:
    variables = {"PATH": "/nowhere", "LD_LIBRARY_PATH": f":{tmp_path}/ours"}
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev" / "null").touch()
    assert not may_have_gpu(variables, tmp_path)
    (tmp_path / sign).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / sign).touch()
    assert may_have_gpu(variables, tmp_path)


def test_a_tool_of_the_driver_is_a_sign(tmp_path: Path) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.touch(0o755)
    assert may_have_gpu({"PATH": str(tmp_path)}, tmp_path)


def with_plugin(directory: Path) -> Path:
    """A Python whose JAX has the CUDA plugin."""
    python = directory / "python3"
    python.write_text('#!/bin/sh\necho \'{"jaxlib": "0.10.2", "jax-cuda13-plugin": "0.10.2"}\'\n')
    python.chmod(0o755)
    return python


needs_none = pytest.mark.skipif(may_have_gpu({"PATH": "/usr/bin:/bin"}), reason="there is a GPU")


@needs_none
@pytest.mark.parametrize("way", ["auto", "manual", "nsys"])
def test_a_machine_without_a_gpu_is_refused_before_anything_runs(
    counterpoint: Counterpoint, tmp_path: Path, way: str
) -> None:
    command = ("--", str(with_plugin(tmp_path)), "it's train.py")
    done = counterpoint("pgle", way, "-o", "out", *command, PATH="/usr/bin:/bin")
    assert done.returncode == 2
    assert done.stderr.startswith("error: this machine")
    assert "--print-only" in done.stderr.splitlines()[-1]
    assert [it.name for it in tmp_path.iterdir()] == ["python3"]
    asked = ("pgle", way, "-o", "out", "--print-only", *command)
    printed = counterpoint(*asked, PATH="/usr/bin:/bin")
    assert printed.returncode == 0
    assert printed.stdout.startswith("#!/usr/bin/env bash")


@pytest.mark.parametrize(
    ("before", "variables"),
    [
        (("srun", "-N4"), {}),
        (("bash", "job.sh"), {}),
        ((), {"RAY_ADDRESS": "http://head:8265"}),
        ((), {"JAX_PLATFORMS": "cuda"}),
    ],
)
def test_what_may_run_elsewhere_is_not_refused(
    tmp_path: Path, before: tuple[str, ...], variables: dict[str, str]
) -> None:
    command = (*before, str(with_plugin(tmp_path)), "train.py")
    environment = {"PATH": "/usr/bin:/bin", **variables}
    asked = RunRequest(command=command, environment=environment)
    refuse_platform(FeedbackTask(request=asked, directory=tmp_path / "out"))
