"""Frameworks beside the trainers of language models, each by a program like its own quick start.

`tests/install_trainer.sh frameworks` installs them in a cache outside the checkout (`make
test-system`). Without that, these tests are skipped.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from installed_trainers import SOURCE, predicted, python_of

pytestmark = pytest.mark.system

PROGRAMS = Path(__file__).parents[2] / "docs" / "trainers" / "files" / "frameworks"


@dataclass(frozen=True, kw_only=True)
class Program:
    """A program, the devices that it can use, and the functions that one of its steps runs."""

    name: str
    step: str
    several: bool = True  # it divides its work over all devices
    others: tuple[tuple[str, int], ...] = ()  # other functions of a step, with their runs
    runs: int = 1  # of `step` in one step
    open_loops: bool = False  # how often its loops run depends on data
    at_once: bool = False  # over before a profile begins by itself
    measured: str = ""  # the step's name in a profile, if it is another one


FRAMEWORKS = (
    Program(name="keras_fit", step="jit_train_step"),
    Program(name="equinox_mlp", step="jit_make_step", several=False),
    Program(name="haiku_pmap", step="pmap_update", measured="jit__fun"),
    Program(name="linen_batchnorm", step="jit_train_step", several=False),
    Program(name="numpyro_svi", step="jit_scan", several=False, at_once=True),
    Program(
        name="numpyro_nuts",
        step="jit__fori_collect_loop",
        several=False,
        open_loops=True,
        at_once=True,
    ),
    Program(name="diffrax_ode", step="jit_make_step", several=False, open_loops=True),
    Program(name="optax_mesh", step="jit_train_step"),
    Program(name="grain_orbax", step="jit_train_step", several=False),
    Program(
        name="gan",
        step="jit_critic_step",
        several=False,
        others=(("jit_generator_step", 1),),
    ),
    Program(
        name="accumulation",
        step="jit_grad_fn",
        runs=4,
        several=False,
        others=(("jit_accumulate", 3), ("jit_apply_fn", 1)),
    ),
    Program(name="pallas_attention", step="jit_train_step", several=False),
)
ON_CPU = [program for program in FRAMEWORKS if program.name != "pallas_attention"]


def named(program: Program) -> str:
    return program.name


def parts(program: Program) -> set[tuple[str, int]]:
    return {(program.step, program.runs), *program.others}


@pytest.mark.parametrize("program", FRAMEWORKS, ids=named)
def test_a_step_is_predicted_for_gpus(tmp_path: Path, program: Program) -> None:
    command = [python_of("frameworks"), str(PROGRAMS / f"{program.name}.py")]
    target = "8xH100" if program.several else "1xH100"
    found = predicted(tmp_path, *command, target=target, open_loops=program.open_loops)

    assert found["prediction"]["workload"] == program.step
    assert found["prediction"]["devices"] == (8 if program.several else 1)
    assert bool(found["collectives"]) == program.several
    if program.others:
        told = {(each["name"], each["runs"]) for each in found["programs_of_step"]}
        assert parts(program) <= told


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("keras_fit", "v5e-8"),
        ("haiku_pmap", "v5e-8"),
        ("pallas_attention", "v5e-1"),
        ("optax_mesh", "v5e-8"),
    ],
)
def test_a_step_is_predicted_for_tpus(tmp_path: Path, name: str, target: str) -> None:
    command = [python_of("frameworks"), str(PROGRAMS / f"{name}.py")]
    found = predicted(tmp_path, *command, target=target, options=("--schedule-only",))
    assert found["prediction"]["devices"] == int(target.rpartition("-")[2])


@pytest.mark.parametrize("program", ON_CPU, ids=named)
def test_a_run_is_explained(tmp_path: Path, program: Program) -> None:
    python = python_of("frameworks")
    command = [python, str(PROGRAMS / f"{program.name}.py")]
    begins = ["--profile-start-step", "0"] if program.at_once else []
    counted(tmp_path, "run", "-o", "run", *begins, "--", *command)
    told = json.loads(counted(tmp_path, "explain", "run", "--json"))

    steps = {each["name"] for each in told["programs"] if each["is_step"]}
    assert steps <= {program.measured or program.step, *dict(program.others)}
    if not program.at_once:
        assert told["steps"]["median_ms"] > 0


def counted(directory: Path, *words: str) -> str:
    """Run counterpoint on two CPU devices; return what it prints."""
    variables = {
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": "--xla_force_host_platform_device_count=2",
        "PYTHONPATH": str(SOURCE),
    }
    done = subprocess.run(
        [sys.executable, "-m", "counterpoint", *words],
        cwd=directory,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout
