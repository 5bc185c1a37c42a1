"""The whole loop as a user starts it, with the real compiler: measured, made, given, proved."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from command_line import Counterpoint
from counterpoint.flags.versions import PROFILE
from counterpoint.runs.reader import read_run

STEPS = ("--profile-start-step", "2", "--profile-steps", "4")
CPU_STEP = """
import os
os.environ["JAX_PLATFORMS"] = "cpu"
import jax
from jax.profiler import StepTraceAnnotation
step = jax.jit(lambda x: x @ x / 8)
x = jax.numpy.ones((8, 8))
for i in range(12):
    with StepTraceAnnotation("train", step_num=i):
        x = step(x).block_until_ready()
"""


@pytest.fixture
def cpu_step(tmp_path: Path) -> list[str]:
    (tmp_path / "cpu_step.py").write_text(CPU_STEP)
    return [sys.executable, "cpu_step.py"]


@dataclass(frozen=True)
class Tuned:
    """What the whole loop left in a directory, and what it printed for the log."""

    directory: Path
    stderr: str


@pytest.fixture(scope="module")
def tuned(
    workload: list[str],
    counterpoint_in: Callable[[Path], Counterpoint],
    tmp_path_factory: pytest.TempPathFactory,
) -> Tuned:
    directory = tmp_path_factory.mktemp("manual")
    done = counterpoint_in(directory)("pgle", "manual", *STEPS, "-o", "tuned", "--", *workload)
    assert done.returncode == 0, done.stdout + done.stderr
    return Tuned(directory / "tuned", done.stderr)


@pytest.mark.system
def test_a_measured_profile_is_proved_to_be_used(tuned: Tuned) -> None:
    report = json.loads((tuned.directory / "report.json").read_text())

    # The compiler's log of the run with the profile names the file, and costs that it found there.
    profile = Path(report["profile"]["path"])
    assert report["used"]
    assert report["proof"]["source"] == str(profile)
    assert report["proof"]["found"] > 20
    log = (tuned.directory / "with-1" / "rank0" / "stderr.log").read_text()
    assert f"Using PGLE profile from {profile}" in log
    assert "Using PGLE" not in (tuned.directory / "without-1/rank0/stderr.log").read_text()

    # It was made of the program that was compiled, and covers its collectives.
    assert report["proof"]["coverage"]["fit"] == "fits"
    assert report["proof"]["coverage"]["collectives"] == 1
    assert report["proof"]["fingerprint"] in profile.read_text()

    # Costs that differ from the compiler's guesses make another schedule of the same collectives.
    moved = [it for it in report["movement"]["moves"] if it["start_shift_us"]]
    assert moved
    assert report["movement"]["gone"] == report["movement"]["new"] == []
    assert {it["transfer_us"] for it in report["movement"]["moves"]} == {900.0}

    # One pair of runs is no verdict.
    assert report["comparison"]["verdict"] == "not decided"
    assert report["without"][0]["step_ms"]["source"] == "annotation"


@pytest.mark.system
def test_the_compared_runs_differ_by_the_profile_alone(tuned: Tuned) -> None:
    # The log ends in the digest: both step times, and the largest loss in a run with a profile.
    step, loss, same = tuned.stderr.splitlines()[-3:]
    assert re.fullmatch(
        r"counterpoint: step time     [\d.,]+ ms without, [\d.,]+ ms with the profile: .*", step
    )
    assert loss.startswith("counterpoint: largest loss  STEP")
    assert loss.endswith("; in profile")
    assert "report.txt" in same
    profile_run, without, with_ = (
        dict(read_run(tuned.directory / name).settings.xla)
        for name in ("profile", "without-1", "with-1")
    )
    assert {*with_.items()} - {*without.items()} == {
        (name, value) for name, value in with_.items() if "pgle_profile_file" in name
    }
    assert {*without} <= {*with_}
    # CUDA graphs are off for the profile run alone.
    assert profile_run["xla_gpu_enable_command_buffer"] == ""
    assert "xla_gpu_enable_command_buffer" not in with_


@pytest.mark.smoke
@pytest.mark.system
def test_a_profile_of_another_program_is_not_called_used(
    counterpoint: Counterpoint, workload: list[str], tmp_path: Path
) -> None:
    foreign = tmp_path / "foreign.pbtxt"
    fingerprint = "0123456789abcdef" * 2
    foreign.write_text(f'costs {{ name: "{fingerprint}::fusion" cost_us: 5 }}\n')
    done = counterpoint("pgle", "manual", "--profile", foreign, "--repeats", 3, "--", *workload)
    assert done.returncode == 1, done.stderr
    assert "foreign" in done.stderr
    assert "counterpoint pgle check" in done.stderr
    # One run shows what the program compiles, and there it ends.
    (home,) = (tmp_path / "counterpoint-runs").iterdir()
    assert [it.name for it in home.iterdir() if it.is_dir()] == ["without-1"]


@pytest.mark.system
def test_a_given_profile_without_gpus_ends_after_the_first_run(
    counterpoint: Counterpoint, cpu_step: list[str], tmp_path: Path
) -> None:
    (tmp_path / "step.pbtxt").write_text('costs { name: "fusion" cost_us: 5 }\n')
    done = counterpoint("pgle", "manual", "--profile", "step.pbtxt", "-o", "out", "--", *cpu_step)
    assert done.returncode == 3
    assert "on cpu" in done.stderr
    assert not (tmp_path / "out" / "with-1").exists()


@pytest.mark.system
def test_our_flags_reach_a_program_whose_script_exports_its_own(
    counterpoint: Counterpoint, cpu_step: list[str], tmp_path: Path
) -> None:
    script = tmp_path / "train.sh"
    mine = "export XLA_FLAGS=--xla_cpu_enable_fast_math=false"
    script.write_text(f"{mine}\nexec {' '.join(cpu_step)}\n")
    done = counterpoint("pgle", "manual", *STEPS, "-o", "out", "--", "bash", script)
    assert done.returncode == 3
    assert "1 CPU device" in done.stderr  # one clear error
    assert "Traceback" not in done.stderr
    assert list((tmp_path / "out" / "profile").rglob("*before_optimizations*"))


@pytest.mark.system
def test_a_program_that_removes_our_flags_is_found_out(
    counterpoint: Counterpoint, cpu_step: list[str], tmp_path: Path
) -> None:
    python, *words = cpu_step
    script = tmp_path / "train.py"
    script.write_text(
        "import os, runpy, sys\nimport jax\nos.unsetenv('XLA_FLAGS')\n"
        "sys.argv = sys.argv[1:]\nrunpy.run_path(sys.argv[0], run_name='__main__')\n"
    )
    done = counterpoint("pgle", "manual", *STEPS, "-o", "out", "--", python, script, *words)
    assert done.returncode == 3
    assert "overwrites XLA_FLAGS" in done.stderr
    assert sorted(it.name for it in (tmp_path / "out").iterdir()) == ["profile"]


@pytest.mark.system
def test_a_program_that_ends_before_the_window_is_told_so(
    counterpoint: Counterpoint, cpu_step: list[str]
) -> None:
    done = counterpoint("pgle", "manual", "--profile-start-step", 99, "-o", "out", "--", *cpu_step)
    assert done.returncode == 3
    assert "no profile" in done.stderr
    assert "12 steps" in done.stderr


@pytest.mark.system
def test_a_workload_that_fails_ends_the_workflow(counterpoint: Counterpoint) -> None:
    failing = [sys.executable, "-c", "raise SystemExit('no dataset')"]
    done = counterpoint("pgle", "manual", "-o", "out", "--", *failing)
    assert done.returncode == 3
    assert "profile run failed" in done.stderr
    assert "no dataset" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("-o", "full", "--", "true"), "is not empty"),
        (("--profile", "step.txt", "--", "true"), "step.txt"),
        (("--repeats", "0", "--", "true"), "--repeats"),
        (("--no-profile", "--", "true"), "--no-profile"),
        (("--percentile", "200", "--", "true"), "percentile"),
        (
            ("--set", f"{PROFILE}=x.pb", "--", "true"),
            "set already",
        ),
        ((), "no command"),
    ],
)
def test_what_can_not_work_is_refused_before_anything_runs(
    counterpoint: Counterpoint, tmp_path: Path, arguments: tuple[str, ...], reason: str
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("mine")
    (tmp_path / "step.txt").write_text('costs { name: "fusion" cost_us: 5 }\n')
    done = counterpoint("pgle", "manual", *arguments)
    assert done.returncode in (2, 3)
    assert reason in done.stderr
    assert "Traceback" not in done.stderr
    assert sorted(it.name for it in tmp_path.iterdir()) == ["full", "step.txt"]
