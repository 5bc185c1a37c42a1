"""What `--print-only` prints is a script that bash runs."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from command_line import Counterpoint
from counterpoint.flags import Settings
from counterpoint.workflow.feedback.phase import Phase, script

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
    text = script("a title", [Phase(purpose="show", command=PRINT_ENV, settings=settings)])
    flags, debug = bash(text, XLA_FLAGS="--xla_fuel=1").splitlines()
    assert flags == (
        "--xla_fuel=1 --xla_dump_to='a $HOME `b` \"c\" \\d' --xla_gpu_enable_command_buffer="
    )
    assert debug == "it's $5"


def test_without_inherited_flags_nothing_is_missing() -> None:
    settings = Settings(xla=(("xla_gpu_enable_triton_gemm", "false"),))
    text = script("a title", [Phase(purpose="show", command=PRINT_ENV, settings=settings)])
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


def test_a_script_ends_where_a_command_fails(tmp_path: Path) -> None:
    phases = [
        Phase(purpose="fail", command=("false",)),
        Phase(purpose="go on", command=("touch", str(tmp_path / "went on"))),
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
