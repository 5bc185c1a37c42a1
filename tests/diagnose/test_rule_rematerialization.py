"""STEP401: what the backward pass computes again."""

from __future__ import annotations

from pathlib import Path

import pytest
from compute_step import made, priced, where
from made_step import hlo, negate
from made_step import made as made_step
from runs_with_memory import run_with

from counterpoint.core.basis import Basis
from counterpoint.diagnose.rules.rematerialization import check
from golden_sections import Said

N = 8192  # a product's result: 134 MB


def layer(marked: str) -> str:
    return f"""
ENTRY main {{
  x = bf16[{N},{N}]{{1,0}} parameter(0)
  first = bf16[{N},{N}]{{1,0}} dot(x, x), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}, \
{where("jvp(mlp)/dot_general", 7)}
  again = bf16[{N},{N}]{{1,0}} dot(x, x), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}, \
{where(f"{marked}/dot_general", 7)}
  eased = bf16[{N},{N}]{{1,0}} tanh(again), {where(f"{marked}/tanh", 8)}
  ROOT grad = bf16[{N},{N}]{{1,0}} dot(eased, first), lhs_contracting_dims={{1}}, \
rhs_contracting_dims={{0}}, {where("transpose(jvp(mlp))/dot_general", 7)}
}}
"""


REMAT = layer("transpose(jvp(mlp))/rematted_computation/mlp")
TIMES = {"first": 1_400, "again": 1_400, "eased": 100, "grad": 1_400}


def test_a_checkpointed_layer_runs_twice(said: Said) -> None:
    (finding,) = check(made(REMAT, TIMES))
    assert finding.code == "STEP401"
    assert "35% of the step" in finding.detail
    # 8192 x 8192 of bf16 are 0.125 GiB.
    assert finding.evidence[0].what == "again (/home/me/model/mlp.py:7)"
    saves = priced(finding)
    assert saves.low == 0
    assert saves.high == pytest.approx(1.5, rel=0.06)
    assert finding.doubt is not None
    assert "mlp.py:7" in str(finding.remedy)
    assert "offload" in str(finding.remedy)
    assert "again (bf16[8192,8192]) takes 0.12 GiB" in finding.detail
    said(finding)


def test_a_small_result_takes_more_than_nothing() -> None:
    (finding,) = check(made(REMAT.replace(str(N), "1024"), TIMES))
    assert "(bf16[1024,1024]) takes 2 MiB and saves 1.40 ms" in finding.detail


def test_memory_that_was_never_used_makes_some_of_it_certain(tmp_path: Path, said: Said) -> None:
    run = run_with(tmp_path, peak=40, limit=60)
    (finding,) = check(made(REMAT, TIMES, run=run))
    saves = priced(finding)
    assert saves.low == pytest.approx(1.4)
    assert saves.high == pytest.approx(1.5, rel=0.06)
    assert finding.basis is Basis.RULE_OF_THUMB
    assert "save_only_these_names" in str(finding.remedy)
    assert "20.0 GiB" in finding.detail
    said(finding)


def test_no_room_for_a_result_makes_nothing_certain(tmp_path: Path) -> None:
    run = run_with(tmp_path, peak=59.9, limit=60)
    (finding,) = check(made(REMAT, TIMES, run=run))
    assert priced(finding).low == 0


def test_collectives_that_run_again_are_told_apart_from_computing() -> None:
    gathers = f"""
  part = bf16[{N},{N // 8}]{{1,0}} parameter(1)
  gather = bf16[{N},{N}]{{1,0}} all-gather(part), replica_groups={{{{0,1,2,3,4,5,6,7}}}}, \
dimensions={{1}}, {where("transpose(jvp(mlp))/rematted_computation/mlp/w", 3)}
  ROOT grad"""
    hlo = REMAT.replace("\n  ROOT grad", gathers)
    (finding,) = check(made(hlo, {**TIMES, "gather": 700}))
    assert finding.title == (
        "rematerialization takes 2.20 ms per step: 0.70 for collectives, 1.50 for compute"
    )
    assert [(it.what, it.ms) for it in finding.evidence] == [
        ("again (/home/me/model/mlp.py:7)", pytest.approx(1.4)),
        ("gather (/home/me/model/mlp.py:3)", pytest.approx(0.7)),
        ("eased (/home/me/model/mlp.py:8)", pytest.approx(0.1)),
    ]
    remedy = str(finding.remedy)
    assert "for the collectives (/home/me/model/mlp.py:3)" in remedy
    assert "mlp.py:7" in remedy


def test_a_copy_that_is_repeated_while_the_step_computes_costs_nothing() -> None:
    """As in the phases: 5 ms of `again`, and 1 of the 4 that `kept` takes."""
    again = where("transpose(jvp(mlp))/rematted_computation/mlp", 3)
    text = hlo(
        negate("work.1", "p"),
        f"%kept = f32[1024]{{0}} copy(%p), {again}",
        f"%again = f32[1024]{{0}} sine(%kept), {again}",
        root=f"{negate('out', 'again')}, {where('transpose(jvp(mlp))/neg', 4)}",
    )
    step = [("work.1", 0, 10), ("kept", 7, 4), ("again", 11, 5), ("out", 16, 4)]
    (finding,) = check(made_step(text, step, 20, beside=["kept"]))
    assert finding.title == "recomputation for the backward pass takes 6.00 ms per step"


def test_a_backward_pass_that_keeps_everything_is_fine() -> None:
    assert not list(check(made(layer("transpose(jvp(mlp))"), TIMES)))


def test_a_little_recomputation_is_what_checkpointing_is_for() -> None:
    times = {"first": 3_000, "again": 40, "eased": 20, "grad": 3_000}
    assert not list(check(made(REMAT, times)))


def test_clones_of_the_compiler_are_another_rules() -> None:
    hlo = layer("transpose(jvp(mlp))").replace("again", "first.remat")
    times = {"first": 1_400, "first.remat": 1_400, "eased": 100, "grad": 1_400}
    assert not list(check(made(hlo, times)))
