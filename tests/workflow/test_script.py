"""What `--print-only` prints is a script that bash runs."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from command_line import Counterpoint
from counterpoint.flags.settings import Settings
from counterpoint.workflow.feedback.task import ScriptPhase, script

PRINT_ENV = ("bash", "-c", 'printf "%s\\n" "$XLA_FLAGS" "$NCCL_DEBUG"')


def bash(text: str, **variables: str) -> str:
    done = subprocess.run(
        ["bash", "-eu", "-o", "pipefail", "-c", text],  # noqa: S607
        env={"PATH": "/usr/bin:/bin", **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def test_flags_are_appended_and_survive_the_shell() -> None:
    settings = Settings(
        xla=(("xla_dump_to", 'a $HOME `b` "c" \\d'), ("xla_gpu_enable_command_buffer", "")),
        env=(("NCCL_DEBUG", "it's $5"),),
    )
    text = script("a title", [ScriptPhase(purpose="show", command=PRINT_ENV, settings=settings)])
    flags, debug = bash(text, XLA_FLAGS="--xla_fuel=1").splitlines()
    assert flags == (
        "--xla_fuel=1 --xla_dump_to='a $HOME `b` \"c\" \\d' --xla_gpu_enable_command_buffer="
    )
    assert debug == "it's $5"


def test_without_inherited_flags_nothing_is_missing() -> None:
    settings = Settings(xla=(("xla_gpu_enable_triton_gemm", "false"),))
    text = script("a title", [ScriptPhase(purpose="show", command=PRINT_ENV, settings=settings)])
    assert bash(text, NCCL_DEBUG="").split() == ["--xla_gpu_enable_triton_gemm=false"]


@pytest.mark.parametrize("way", ["auto", "manual", "nsys"])
def test_every_workflow_prints_commands_and_runs_nothing(
    counterpoint: Counterpoint, tmp_path: Path, way: str
) -> None:
    done = counterpoint(
        "pgle", way, "--print-only", "-o", "runs/a b", "--", "python", "train it.py"
    )
    assert done.returncode == 0, done.stderr
    assert "'train it.py'" in done.stdout
    assert [*tmp_path.iterdir()] == []
    parsed = subprocess.run(["bash", "-n"], input=done.stdout, text=True, check=False)  # noqa: S607
    assert parsed.returncode == 0


def test_every_pair_and_rank_that_is_run_is_printed(counterpoint: Counterpoint) -> None:
    text = counterpoint(
        "pgle", "manual", "--repeats", 2, "--ranks", 4, "--print-only", "-o", "o", "--", "train"
    ).stdout
    runs = [line.split(" -o ")[1] for line in text.splitlines() if "counterpoint run " in line]
    assert runs == [
        f"o/{name} -- train" for name in ("profile", "without-1", "with-1", "with-2", "without-2")
    ]
    assert text.count("--ranks 4") == 5


@pytest.mark.parametrize("way", ["auto", "manual", "nsys"])
def test_what_is_run_is_the_users_own_command(counterpoint: Counterpoint, way: str) -> None:
    text = counterpoint("pgle", way, "--print-only", "-o", "runs/a b", "--", "train", "me").stdout
    runs = [it.strip() for it in text.splitlines() if "train me" in it]
    recorded = [it for it in runs if not it.startswith(("train me", "nsys profile"))]
    # Counterpoint itself stands in it only where it does what nothing else does.
    assert recorded == (
        ["counterpoint run -o 'runs/a b/profile' -- train me"] if way == "manual" else []
    )
    logs = {it.split("| tee ")[1] for it in runs if it.startswith("train me")}
    assert logs
    for name in logs - {"'runs/a b/optimise.log'"}:
        assert name in text.splitlines()[-1]  # the step times that are compared


def test_the_printed_commands_run(counterpoint: Counterpoint, tmp_path: Path) -> None:
    program = tmp_path / "train.sh"
    program.write_text('echo "$JAX_ENABLE_PGLE Using PGLE profile"; echo "step took 1 ms"\n')
    text = counterpoint("pgle", "auto", "--print-only", "-o", "o", "--", "bash", program).stdout
    done = subprocess.run(
        ["bash"],  # noqa: S607
        input=text,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert (tmp_path / "o" / "optimise.log").read_text().startswith("true Using PGLE profile")
    assert "==> o/before.log <==" in done.stdout


@pytest.mark.parametrize("options", [("auto",), ("manual", "--profile", "cost.pbtxt")])
def test_where_the_profile_is_not_used_the_script_says_so_and_goes_on(
    counterpoint: Counterpoint, tmp_path: Path, options: tuple[str, ...]
) -> None:
    (tmp_path / "cost.pbtxt").write_text('costs { name: "all-reduce-start" cost_us: 5 }\n')
    train = ("bash", "-c", "echo step took 1 ms")
    text = counterpoint("pgle", *options, "--print-only", "-o", "o", "--", *train).stdout
    done = subprocess.run(
        ["bash"],  # noqa: S607
        input=text,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "\nno such line: the profile was not used\n" in done.stdout
    assert done.stdout.count("step took 1 ms") > 3  # the runs after it, and their last lines


def test_a_script_ends_where_a_command_fails(tmp_path: Path) -> None:
    phases = [
        ScriptPhase(purpose="fail", command=("false",)),
        ScriptPhase(purpose="go on", command=("touch", str(tmp_path / "went on"))),
    ]
    done = subprocess.run(["bash"], input=script("t", phases), text=True, check=False)  # noqa: S607
    assert done.returncode == 1
    assert not (tmp_path / "went on").exists()


def test_manual_by_hand_gives_the_file_that_was_made(counterpoint: Counterpoint) -> None:
    text = counterpoint("pgle", "manual", "--print-only", "-o", "o", "--", "train").stdout
    made = next(line for line in text.splitlines() if "pgle make" in line).split()[-1]
    assert made == "o/step.pbtxt"
    assert f"/{made}" in next(line for line in text.splitlines() if "pgle_profile_file" in line)
    # The old advice that does nothing is not repeated.
    assert "TF_CPP_MAX_LOG_LEVEL" not in text
