"""A study of a real JAX program: a planted slow setting, and one that leaves the program alone."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from counterpoint.flags.settings import Settings
from counterpoint.tune.arm import Acts, Arm, ArmChange, ArmOrigin
from counterpoint.tune.conclusion.conclude import conclude
from counterpoint.tune.executors.executor import TrialLimits
from counterpoint.tune.executors.local import Local
from counterpoint.tune.plan import StudyPlan
from counterpoint.tune.race.tuner import run_study
from counterpoint.tune.statistics.estimate import DecisionRule
from counterpoint.tune.study.directory import open_study
from counterpoint.tune.study.records import FORMAT, CandidateSeen, SearchEnded, StudyBegan
from tune_studies import AT

_TRAIN = """
import os, time
import jax, jax.numpy as jnp

step = jax.jit(lambda x: x @ x / jnp.linalg.norm(x))
x = jnp.ones((64, 64))
for number in range(16):
    with jax.profiler.StepTraceAnnotation("train", step_num=number):
        x = step(x).block_until_ready()
        time.sleep(float(os.environ["WAITS"]))
"""


def arm(name: str, settings: Settings, acts: Acts) -> Arm:
    it = ArmChange(dimension=name, choice="on", settings=settings, acts=acts)
    base = Settings(env=(("WAITS", "0.1"),))
    return Arm(name=name, settings=base.merged(settings), changes=(it,), origin=ArmOrigin.HAND)


@pytest.mark.system
def test_a_real_program_is_tuned(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(_TRAIN, encoding="utf-8")
    # The planted gain is far above what a busy machine adds to a sleep.
    arms = (
        arm("no wait", Settings(env=(("WAITS", "0.01"),)), Acts.RUNTIME),
        arm("for GPUs", Settings(xla=(("xla_gpu_enable_triton_gemm", "false"),)), Acts.SCHEDULE),
    )
    plan = StudyPlan(
        rule=DecisionRule(cap=2, looks=(2,)), confirm_rows=0, limits=TrialLimits(timeout_s=300.0)
    )
    first = StudyBegan(
        format=FORMAT,
        version="0",
        question="q",
        workload="train.py",
        command=(sys.executable, str(script)),
        target=None,
        executor="local",
        base=Settings(env=(("WAITS", "0.1"),)),
        options=(),
        at=AT,
    )
    where = tmp_path / "study"
    with open_study(where, first) as ledger:
        for it in arms:
            ledger.add(CandidateSeen(arm=it, at=AT))
        names = tuple(it.name for it in arms)
        ledger.add(SearchEnded(why="by hand", shortlist=names, seconds=0.0, at=AT))
        run_study(ledger, plan, Local(), where, lambda _: None, lambda: False)
        told = conclude(ledger.study, plan)
    assert told.winner is not None
    assert told.winner.name == "no wait"
    assert told.gain is not None
    assert told.gain > 0.3
    status = {it.arm.name: it.status for it in told.rows}
    assert status["for GPUs"] == "same program"
    assert all(it.program for it in told.rows)
