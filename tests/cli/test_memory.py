"""`counterpoint memory`: the need, its owners, and what makes a step fit."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import counterpoint
from command_line import in_process
from golden_files import Golden, cases

STEP = Path(__file__).parents[1] / "hlo" / "data" / "llama_step.hlo.pb.xz"


@pytest.fixture
def step(tmp_path: Path) -> Path:
    return Path(shutil.copy(STEP, tmp_path / "step.hlo.pb.xz"))


def test_what_it_says(step: Path, golden: Golden) -> None:
    words = ("memory", step.name, "--target", "8xH100", "--top", "5")
    done = in_process(*words, cwd=step.parent)
    assert done.returncode == 0
    digest = in_process(*words, "--as", "digest", cwd=step.parent)
    golden("memory.txt", cases({"report": done.stdout, "digest": digest.stdout}))


def test_owners_and_arrays_add_up_to_the_need(step: Path) -> None:
    done = in_process("memory", step.name, "--target", "8xH100", "--json", cwd=step.parent)
    told = json.loads(done.stdout)
    needs = 111_552_644 + 111_487_416 - 111_487_108 + 1_584_844_520 + 4
    assert told["needs_bytes"] == needs
    assert sum(row["bytes"] for row in told["owners"]) == needs
    assert sum(row["bytes"] for row in told["held"]) == needs + told["host_bytes"]
    assert max(row["bytes"] for row in told["moments"]) == 1_696_378_812
    assert told["verdict"] == "fits"


def test_a_step_that_is_too_large_ends_with_one_and_fits_a_larger_pool(shared: Path) -> None:
    hlo = shared / "data" / "memory" / "hlo" / "8b_b2_minimal.hlo.pb.gz"
    done = in_process("memory", str(hlo), "--target", "8xH100")
    assert done.returncode == 1
    assert "DOES NOT FIT by 4.4 GiB" in " ".join(done.stdout.split())
    more = in_process(
        "memory", str(hlo), "--target", "8xH100", "--env", "XLA_PYTHON_CLIENT_MEM_FRACTION=0.85"
    )
    assert more.returncode == 0
    assert "(85% of 79.1 GiB)" in " ".join(more.stdout.split())


def test_another_moment(step: Path) -> None:
    words = ("memory", step.name, "--target", "8xH100", "--json")
    peak = json.loads(in_process(*words, cwd=step.parent).stdout)
    first = peak["moments"][0]["instruction"]
    told = json.loads(in_process(*words, "--at", first, cwd=step.parent).stdout)
    assert told["peak"]["instruction"] == first
    assert sum(row["bytes"] for row in told["held"]) == told["needs_bytes"] + told["host_bytes"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--at", "no-such"), "the schedule has no instruction 'no-such'"),
        (("--top", "0"), "--top"),
        (("-o", "memory.csv"), "memory.csv"),
        (("--fit",), "--fit compiles the program again"),
    ],
)
def test_bad_options_are_refused(step: Path, words: tuple[str, ...], said: str) -> None:
    done = in_process("memory", step.name, "--target", "8xH100", *words, cwd=step.parent)
    assert done.returncode in (2, 3)
    assert said in done.stderr
    assert "next: " in done.stderr


def test_a_scheduled_module_without_a_plan_says_so(tmp_path: Path) -> None:
    shutil.copy(STEP.with_name("gpu_step.hlo.pb.xz"), tmp_path)
    done = in_process("memory", "gpu_step.hlo.pb.xz", "--target", "8xH100", cwd=tmp_path)
    assert done.returncode == 3
    assert "no plan of its memory" in done.stderr


def test_python_has_the_same(step: Path) -> None:
    report = counterpoint.memory(step, target="8xH100")
    assert report.needs == report.owners["bytes"].sum() == report.arrays["bytes"].sum()
    assert report.arrays["owner"][0] == "logits and the like"
    assert "jit_train_step" in repr(report)
    html = report._repr_html_()
    assert html is not None
    assert "logits and the like" in html
