"""AutoPGLE as far as JAX carries it without a GPU: it measures nothing, and is told to have."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from command_line import Counterpoint
from counterpoint.runs.reader import read_run

# The step is what takes longest to compile, so it must take longer than `jnp.ones` on any machine.
JITTED = """
import os; os.environ["JAX_PLATFORMS"] = "cpu"; import functools, jax
step = jax.jit(lambda x: functools.reduce(lambda y, _: jax.numpy.sin(y @ y), range(60), x / 8))
x = jax.numpy.ones((8, 8))
for i in range(8):
    x = step(x).block_until_ready()
"""
AHEAD = JITTED.replace(
    "x / 8))", "x / 8)).lower(jax.ShapeDtypeStruct((8, 8), 'float32')).compile()"
)


@pytest.fixture
def program(tmp_path: Path) -> Path:
    return tmp_path / "train.py"


@pytest.mark.system
def test_on_a_cpu_one_line_says_that_nothing_was_measured(
    counterpoint: Counterpoint, program: Path, tmp_path: Path
) -> None:
    program.write_text(JITTED)
    done = counterpoint("pgle", "auto", "-o", "out", "--", sys.executable, program)
    assert done.returncode == 1, done.stderr
    said = " ".join(done.stdout.split())
    assert "NOT USED" in said
    assert "no GPU kernels" in said
    assert "cpu backend" in said
    assert "CUPTI" not in said  # JAX's own guess, which is meant for GPUs
    # JAX was really asked, measured three calls, and warned of each empty trace.
    run = read_run(tmp_path / "out" / "optimise")
    assert dict(run.settings.env)["JAX_ENABLE_PGLE"] == "true"
    assert "PGLE collected an empty trace" in run.ranks[0].stderr.read_text()
    # There is nothing to compare, so nothing more was run.
    assert not (tmp_path / "out" / "after").exists()


@pytest.mark.system
@pytest.mark.smoke
def test_a_program_that_compiles_ahead_of_time_is_told_where(
    counterpoint: Counterpoint, program: Path
) -> None:
    program.write_text(AHEAD)
    done = counterpoint("pgle", "auto", "-o", "out", "--json", "--", sys.executable, program)
    assert done.returncode == 1, done.stderr
    report = json.loads(done.stdout)
    assert not report["used"]
    assert any("ahead of time" in it and "train.py:3" in it for it in report["reasons"])


def test_another_profiler_is_seen_before_anything_runs(
    counterpoint: Counterpoint, program: Path, tmp_path: Path
) -> None:
    program.write_text(JITTED)
    done = counterpoint(
        "pgle", "auto", "--", sys.executable, program, NSYS_PROFILING_SESSION_ID="7"
    )
    assert done.returncode == 2
    assert "NSYS_PROFILING_SESSION_ID" in done.stderr
    assert [it.name for it in tmp_path.iterdir()] == ["train.py"]


def test_another_profiler_stops_manual_too(counterpoint: Counterpoint) -> None:
    done = counterpoint("pgle", "manual", "--", "true", NSYS_PROFILING_SESSION_ID="7")
    assert done.returncode == 2
    assert "NSYS_PROFILING_SESSION_ID" in done.stderr


def test_by_hand_it_is_the_documented_variables(counterpoint: Counterpoint) -> None:
    text = counterpoint("pgle", "auto", "--runs", 5, "--print-only", "--", "python", "t.py").stdout
    for line in (
        "JAX_ENABLE_PGLE=true",
        "JAX_PGLE_PROFILING_RUNS=5",
        "JAX_COMPILATION_CACHE_EXPECT_PGLE=true",
    ):
        assert line in text


@pytest.mark.parametrize("exported", [True, False])
def test_what_the_user_lets_jax_measure_is_kept(
    counterpoint: Counterpoint, *, exported: bool
) -> None:
    own = {"JAX_PGLE_AGGREGATION_PERCENTILE": "85", "JAX_PGLE_PROFILING_RUNS": "7"}
    given = [word for name, text in own.items() for word in ("--env", f"{name}={text}")]
    words = ("pgle", "auto", *([] if exported else given), "--print-only", "--", "python", "t.py")
    text = counterpoint(*words, **(own if exported else {})).stdout
    assert "JAX_PGLE_AGGREGATION_PERCENTILE=85" in text
    assert "JAX_PGLE_PROFILING_RUNS=7" in text
    assert "PERCENTILE=50" not in text
    assert "JAX_PGLE_PROFILING_RUNS=2" in counterpoint(*words[:2], "--runs", 2, *words[2:]).stdout


def test_measuring_no_call_is_refused(counterpoint: Counterpoint) -> None:
    words = ("pgle", "auto", "--print-only", "--", "python", "t.py")
    done = counterpoint(*words, JAX_PGLE_PROFILING_RUNS="0")
    assert done.returncode == 2
    assert "JAX_PGLE_PROFILING_RUNS=0" in done.stderr


def test_a_percentile_above_100_is_refused(counterpoint: Counterpoint) -> None:
    """XLA's aggregate of profiles is then empty, so that every cost would be missing."""
    words = ("pgle", "auto", "--print-only", "--", "python", "t.py")
    done = counterpoint(*words, JAX_PGLE_AGGREGATION_PERCENTILE="850")
    assert done.returncode == 2
    assert "JAX_PGLE_AGGREGATION_PERCENTILE=850: not a percentile" in done.stderr
