"""The loop through Nsight Systems: from an export, and with `nsys` itself where it is installed."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from simulated_gpu import as_nsys_export

from command_line import Counterpoint
from counterpoint.hlo.reader import read_program
from counterpoint.runs.reader import read_run


@pytest.fixture
def export(counterpoint: Counterpoint, workload: list[str], tmp_path: Path) -> Path:
    """What nsys would have recorded of the program that the compiler makes here."""
    done = counterpoint("run", "--no-profile", "-o", "first", "--", *workload)
    assert done.returncode == 0, done.stderr
    program = read_program(read_run(tmp_path / "first").ranks[0].hlo[0])
    as_nsys_export(program, tmp_path / "step.sqlite")
    return tmp_path / "step.sqlite"


@pytest.mark.system
def test_an_export_is_enough_to_feed_back(
    counterpoint: Counterpoint, workload: list[str], export: Path, tmp_path: Path
) -> None:
    done = counterpoint("pgle", "nsys", "--from", export, "-o", "out", "--json", "--", *workload)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert report["used"]
    assert report["proof"]["found"] > 20
    # An export embeds no HLO: the names are bare, and whose they are can't be told.
    assert report["proof"]["coverage"]["fit"] == "untold"
    assert "all-gather-start" in Path(report["profile"]["path"]).read_text()
    assert sorted(it.name for it in (tmp_path / "out").iterdir() if it.is_dir()) == [
        "with-1",
        "without-1",
    ]


def test_an_export_that_is_none_is_refused_before_anything_runs(
    counterpoint: Counterpoint, tmp_path: Path
) -> None:
    (tmp_path / "step.sqlite").write_text("not a database")
    done = counterpoint("pgle", "nsys", "--from", "step.sqlite", "-o", "out", "--", "true")
    assert done.returncode == 3
    assert "step.sqlite" in done.stderr
    assert not (tmp_path / "out").exists()


def test_without_nsys_it_says_what_to_do(counterpoint: Counterpoint, tmp_path: Path) -> None:
    done = counterpoint("pgle", "nsys", "-o", "out", "--", "true", PATH="/nowhere")
    assert done.returncode == 2
    assert "on the PATH" in done.stderr
    assert "--from" in done.stderr
    assert not (tmp_path / "out").exists()


def test_the_scheduler_is_switched_off_beside_what_the_user_disables(
    counterpoint: Counterpoint,
) -> None:
    text = counterpoint(
        "pgle", "nsys", "--print-only", "--", sys.executable, "train.py",
        XLA_FLAGS="--xla_disable_hlo_passes=rematerialization",
    ).stdout  # fmt: skip
    profile_run = text[text.index("# 2.") : text.index("# 3.")]
    (flags,) = (line for line in profile_run.splitlines() if "XLA_FLAGS" in line)
    assert "xla_disable_hlo_passes=rematerialization,latency-hiding-scheduler" in flags
    assert "disable_async_collectives" not in flags
    assert "xla_disable_hlo_passes" not in text[text.index("# 3.") :]


def test_several_ranks_exports_are_named_by_one_pattern(counterpoint: Counterpoint) -> None:
    ranks = ("rank0.zip", "rank1.zip")
    text = counterpoint("pgle", "nsys", "--print-only", "--from", *ranks, "--", "train").stdout
    assert "pgle make rank0.zip rank1.zip -o" in text
    assert text.count("  train 2>&1 | tee ") == 2


def test_async_collectives_are_switched_off_when_asked(counterpoint: Counterpoint) -> None:
    text = counterpoint(
        "pgle", "nsys", "--disable-async", "--print-only", "--", sys.executable, "train.py"
    ).stdout
    assert "xla_gpu_disable_async_collectives=ALLREDUCE,ALLGATHER" in text[: text.index("# 3.")]


@pytest.mark.system
@pytest.mark.skipif(shutil.which("nsys") is None, reason="nsys is not installed")
def test_nsys_itself_records_a_run_without_gpus_and_that_is_said(
    counterpoint: Counterpoint, tmp_path: Path
) -> None:
    program = "import os; os.environ['JAX_PLATFORMS'] = 'cpu'; import jax; "
    program += "print(jax.jit(lambda x: x + 1)(1.0))"
    done = counterpoint("pgle", "nsys", "-o", "out", "--", sys.executable, "-c", program)
    assert done.returncode == 3
    assert "no device time" in done.stderr
    assert (tmp_path / "out" / "nsys.nsys-rep").stat().st_size > 0
    told = subprocess.run(["nsys", "--version"], capture_output=True, text=True, check=True)  # noqa: S607
    assert "NVIDIA Nsight Systems" in told.stdout
