"""A trial whose program did not have the settings of its arm tells nothing about the arm."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from counterpoint.capture.launch import launch
from counterpoint.capture.request import RunRequest
from counterpoint.flags.settings import Settings
from counterpoint.runs.run import Run
from counterpoint.tune.arm import BASE, Acts, ArmChange, ArmOrigin
from counterpoint.tune.conclusion.conclude import conclude
from counterpoint.tune.executors.executor import GangEnd, GangEndKind
from counterpoint.tune.plan import StudyPlan
from counterpoint.tune.race.moves import Drop, Finish
from counterpoint.tune.race.race import next_move
from counterpoint.tune.trial.applied_settings import changed_settings, is_reported
from counterpoint.tune.trial.measure import measure
from counterpoint.tune.trial.report import Purpose, TrialFailure, TrialReport
from tune_studies import Made, arm, change, report

X = arm("x", change("x", acts=Acts.SCHEDULE))

FAST = Settings((("xla_cpu_enable_fast_math", "true"),))
PLAIN = {"PATH": os.environ["PATH"], "HOME": "/nowhere", "JAX_PLATFORMS": "cpu"}
PROGRAM = """
import os
import jax, jax.numpy as jnp
{before}
def train_step(x):
    for _ in range(40):  # takes longest to compile by far
        x = jnp.tanh(x @ x.T) / 2
    return x
step = jax.jit(train_step{options})
x = jnp.ones((32, 32))
for i in range(20):
    x = step(x).block_until_ready()
    print(f"completed step: {{i}}, seconds: 1.0, loss: {{10 - 0.1 * i}}", flush=True)
"""


def ran(path: Path, command: tuple[str, ...], settings: Settings = FAST) -> Run:
    return launch(
        RunRequest(
            command, path / "run", settings=settings, window=None, echo=False, environment=PLAIN
        )
    )


def trial(path: Path, command: tuple[str, ...], changes: Settings = FAST) -> TrialReport:
    run = ran(path, command)
    return measure(run.path, GangEnd(kind=GangEndKind.EXITED, exit_code=0), changes)


def python(before: str = "", options: str = "") -> tuple[str, ...]:
    return (sys.executable, "-c", PROGRAM.format(before=before, options=options))


@pytest.mark.system
def test_a_program_that_sets_the_flags_itself_has_those_of_its_arm(tmp_path: Path) -> None:
    found = trial(tmp_path, python("os.environ['XLA_FLAGS'] = '--xla_cpu_enable_fast_math=false'"))
    assert (found.failure, found.detail) == (None, "")
    assert found.steady is not None
    assert found.compiled is not None


@pytest.mark.system
def test_compiler_options_that_override_an_arm_leave_it_without_a_step(tmp_path: Path) -> None:
    options = ", compiler_options={'xla_cpu_enable_fast_math': False}"
    found = trial(tmp_path, python(options=options))
    assert found.failure is TrialFailure.NOT_APPLIED
    assert "xla_cpu_enable_fast_math=true" in found.detail
    assert "compiler options" in found.detail
    assert found.steady is None


@pytest.mark.system
def test_a_command_that_drops_the_environment_is_not_measured(tmp_path: Path) -> None:
    command = ("env", "-i", f"PATH={PLAIN['PATH']}", *python())
    found = trial(tmp_path, command, Settings())
    assert found.failure is TrialFailure.NOT_APPLIED
    assert "no Python" in found.detail


def test_changes_are_what_differs_from_the_base() -> None:
    base = Settings((("xla_a", "1"), ("xla_b", "2")), (("NCCL_ALGO", "Ring"),))
    changed = base.merged(
        Settings((("xla_b", "3"),), (("NCCL_ALGO", "Ring"), ("NCCL_PROTO", "LL")))
    )
    assert changed_settings(changed, base) == Settings((("xla_b", "3"),), (("NCCL_PROTO", "LL"),))


def test_lists_are_not_reported_in_full() -> None:
    assert is_reported("xla_gpu_enable_triton_gemm")
    assert not is_reported("xla_gpu_enable_command_buffer")
    assert not is_reported("xla_no_such_flag")


FAILED = TrialReport(failure=TrialFailure.NOT_APPLIED, detail="did not reach the program: x=1")


def test_an_arm_whose_settings_did_not_arrive_is_dropped_at_once() -> None:
    made = Made(X).entered(X).noise()
    made.ran("x", FAILED, Purpose.SCREEN, 1)
    move = next_move(made.study, StudyPlan())
    assert isinstance(move, Drop)
    assert (move.arm, move.kind) == ("x", "not applied")
    assert "did not reach" in move.why


def test_a_base_that_has_no_settings_ends_the_study() -> None:
    made = Made(X).entered(X).opened()
    made.ran(BASE, FAILED, Purpose.NOISE, 0)
    move = next_move(made.study, StudyPlan())
    assert isinstance(move, Finish)
    assert "not applied" in move.why
    assert "inherits the environment" in move.why
    assert conclude(made.study, StudyPlan()).winner is None


def test_the_same_program_with_the_same_options_is_no_effect_by_construction() -> None:
    """Whatever the clock says: 48.5% were measured between identical programs."""
    flag = ArmChange(
        dimension="by hand",
        choice="on",
        settings=Settings((("xla_gpu_enable_triton_gemm", "false"),)),
        acts=Acts.RUNTIME,
    )
    by_hand = arm("x", flag, origin=ArmOrigin.HAND)
    for compiled, dropped in (("same", True), ("other", False)):
        made = Made(by_hand).entered(by_hand).opened()
        for row in (0, 0):
            made.ran(BASE, replace(report(1.0), compiled="same"), Purpose.NOISE, row)
        made.ran(BASE, replace(report(1.0), compiled="same"), Purpose.SCREEN, 1)
        made.ran("x", replace(report(1.485), compiled=compiled), Purpose.SCREEN, 1)
        move = next_move(made.study, StudyPlan())
        assert (isinstance(move, Drop) and move.kind == "same program") is dropped
