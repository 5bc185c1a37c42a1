"""`run` without options profiles what a program trains with, however it is written."""

from __future__ import annotations

import importlib.util
import os
import shlex
import sys
from pathlib import Path

import pytest

import counterpoint
from counterpoint.capture.launch import launch
from counterpoint.capture.request import ProfileSchedule, RunRequest
from counterpoint.cli.app import main
from counterpoint.report.runs import run_lines
from counterpoint.runs.run import Run

pytestmark = pytest.mark.system

pytest.importorskip("jax")

ENVIRONMENT = {"PATH": os.environ["PATH"], "HOME": "/nowhere", "JAX_PLATFORMS": "cpu"}
STEP = """
import time, jax, jax.numpy as jnp
w = x = jnp.ones((256, 256)) / 256

def loss_of(w, x):
    return jnp.mean(jnp.tanh(x @ w) ** 2)

@jax.jit
def train_step(w, x):
    loss, gradient = jax.value_and_grad(loss_of)(w, x)
    return w - 0.1 * gradient, loss
"""
FLAX = """
import jax, jax.numpy as jnp, optax
from flax import nnx
model = nnx.Sequential(nnx.Linear(8, 64, rngs=nnx.Rngs(0)), nnx.Linear(64, 1, rngs=nnx.Rngs(1)))
optimizer = nnx.Optimizer(model, optax.adam(1e-3), wrt=nnx.Param)

@nnx.jit
def train_step(model, optimizer, x):
    loss, gradient = nnx.value_and_grad(lambda model: jnp.mean(model(x) ** 2))(model)
    optimizer.update(model, gradient)
    return loss

for i in range(20):
    print("step", i, float(train_step(model, optimizer, jnp.ones((16, 8)))))
"""
PROGRAMS = {
    "prints its steps": STEP
    + """
for i in range(30):
    w, loss = train_step(w, x)
    print(f"step {i} loss {float(loss):.4f}")
""",
    "prints nothing, and takes 15 short steps": STEP
    + """
for i in range(15):
    w, loss = train_step(w, x)
    loss.block_until_ready()
""",
    "takes 10 steps": STEP
    + """
for i in range(10):
    w, loss = train_step(w, x)
    float(loss)
""",
    "names its steps": STEP
    + """
for i in range(13):
    with jax.profiler.StepTraceAnnotation("train", step_num=i):
        w, loss = train_step(w, x)
        float(loss)
""",
    "runs ahead of the device": STEP
    + """
for i in range(40):
    w, loss = train_step(w, x)
loss.block_until_ready()
""",
    "evaluates in between": STEP
    + """
evaluate = jax.jit(loss_of)
for i in range(20):
    w, loss = train_step(w, x)
    if i % 5 == 4:
        print("loss", float(evaluate(w, x)))
""",
    "compiles something else on its way": STEP
    + """
for i in range(25):
    w, loss = train_step(w, x)
    if i == 5:
        print("norm", float(jnp.linalg.norm(w)))
""",
    "compiles ahead of time": STEP
    + """
compiled = train_step.lower(w, x).compile()
for i in range(15):
    w, loss = compiled(w, x)
    loss.block_until_ready()
""",
    "makes many layers first": STEP
    + """
init_layer = jax.jit(lambda key: jax.random.normal(key, (16, 16)))
layers = [(init_layer(jax.random.key(i)), time.sleep(0.01)) for i in range(48)]
for i in range(100):
    w, loss = train_step(w, x)
    loss.block_until_ready()
    time.sleep(0.03)
""",
    "waits for data first": STEP
    + """
time.sleep(2)
for i in range(15):
    w, loss = train_step(w, x)
    loss.block_until_ready()
""",
    "takes several steps in one call": STEP
    + """
@jax.jit
def epoch(w, x):
    return jax.lax.scan(lambda w, _: train_step(w, x), w, None, length=10)
for i in range(12):
    w, losses = epoch(w, x)
    print(float(losses[-1]))
""",
}


def run(path: Path, program: str, **options: object) -> Run:
    return launch(
        RunRequest(
            (sys.executable, "-c", program),
            path / "run",
            echo=False,
            environment=ENVIRONMENT,
            timeout_s=240,
            **options,  # pyright: ignore[reportArgumentType]
        )
    )


@pytest.mark.parametrize("habit", PROGRAMS)
def test_a_program_is_profiled_that(tmp_path: Path, habit: str) -> None:
    made = run(tmp_path, PROGRAMS[habit])
    assert made.outcome.ok, made.ranks[0].stderr.read_text()
    assert made.profiles, made.why_no_profile
    (process,) = made.ranks[0].processes
    assert process.facts["failures"] == []

    timeline = counterpoint.read(made.path)

    step = "jit_epoch" if "one call" in habit else "jit_train_step"
    assert step in timeline.step_rule
    assert timeline.steps["step"].n_unique() >= 6, timeline.step_rule
    compiled = [it.at_s for it in made.ranks[0].compiles if it.at_s is not None]
    window = process.window
    assert window is not None
    assert window.opened_s is not None
    assert window.closed_s is not None
    assert not [at for at in compiled if window.opened_s < at < window.closed_s]


def test_a_program_of_flax_is_profiled(tmp_path: Path) -> None:
    if importlib.util.find_spec("flax") is None:
        pytest.skip("flax is not installed")
    made = run(tmp_path, FLAX)
    assert made.outcome.ok, made.ranks[0].stderr.read_text()
    assert counterpoint.read(made.path).steps["step"].n_unique() >= 10


THREE = (
    STEP
    + """
for i in range(3):
    w, loss = train_step(w, x)
    print("step", i, float(loss))
    time.sleep(3)
"""
)


def test_three_long_steps_are_enough(tmp_path: Path) -> None:
    made = run(tmp_path, THREE)
    assert made.outcome.ok, made.ranks[0].stderr.read_text()
    timeline = counterpoint.read(made.path)
    assert "jit_train_step" in timeline.step_rule
    starts = timeline.steps["start_ps"].unique().sort()
    assert len(starts) >= 2  # the second is whole: the third begins in the profile
    window = made.ranks[0].window
    assert window is not None
    assert window.steps == 1
    assert str(window.reason).endswith("1 of 10 steps")


def test_the_step_to_start_with_is_counted_by_executions(tmp_path: Path) -> None:
    made = run(
        tmp_path, PROGRAMS["prints its steps"], window=ProfileSchedule(start_step=5, steps=4)
    )
    assert counterpoint.read(made.path).steps["step"].n_unique() == 5
    (profile,) = (line for line in run_lines(made, made.path) if line.startswith("profile"))
    assert ", from step 5," in profile
    assert profile.endswith(" executions of train_step")


def test_where_it_is_over_too_early_the_next_command_gets_a_profile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "train.py"
    script.write_text(STEP + "for i in range(2): train_step(w, x)[1].block_until_ready()\n")
    monkeypatch.chdir(tmp_path)
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    made = launch(RunRequest((sys.executable, "train.py"), Path("first"), echo=False))
    lines = [*run_lines(made, Path("first"))]
    assert any(line.startswith("profile  none: ") for line in lines)
    (command,) = (line.removeprefix("next: ") for line in lines if line.startswith("next: "))
    words = shlex.split(command)
    assert words[:6] == ["counterpoint", "run", "--profile-start-step", "0", "-o", "first-2"]

    assert main(words[1:]) == 0
    assert counterpoint.read("first-2").steps["step"].n_unique() == 2
