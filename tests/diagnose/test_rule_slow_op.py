"""STEP506: ops that take many times what their bytes and FLOPs need."""

from __future__ import annotations

import pytest
from compute_step import made, priced, where

from counterpoint.core.basis import Unknown
from counterpoint.diagnose.rules.slow_op import check

ADD = """
add {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT sum = f32[] add(x, y)
}
"""


def fusion(body: str, shape: str, called: str = "") -> str:
    """A fusion of two parameters, a and b, that takes most of a step."""
    return f"""{called}
fused {{
  a = f32[8192,3072]{{1,0}} parameter(0)
  b = s32[8192,1]{{1,0}} parameter(1)
{body}
}}

ENTRY main {{
  a = f32[8192,3072]{{1,0}} parameter(0)
  b = s32[8192,1]{{1,0}} parameter(1)
  ROOT slow = {shape} fusion(a, b), kind=kInput, calls=fused, {where("transpose(jvp(embed))", 7)}
}}
"""


SCATTER = fusion(
    """  zero = f32[] constant(0)
  table = f32[32000,3072]{1,0} broadcast(zero), dimensions={}
  rows = f32[8192,1,3072]{2,1,0} reshape(a)
  ROOT added = f32[32000,3072]{1,0} scatter(table, b, rows), update_window_dims={1,2}, \
inserted_window_dims={}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add""",
    "f32[32000,3072]{1,0}",
    ADD,
)
SORT = fusion(
    "  ROOT sorted = f32[8192,3072]{1,0} sort(a), dimensions={1}, to_apply=add",
    "f32[8192,3072]{1,0}",
    ADD,
)
EXP = fusion("  ROOT exp = f32[8192,3072]{1,0} exponential(a)", "f32[8192,3072]{1,0}")


@pytest.mark.parametrize(
    ("hlo", "kind", "remedy"),
    [
        (SCATTER, "scatters", "one-hot"),
        (SORT, "sorts", "top_k"),
        (EXP, "other ops", "source line"),
    ],
)
def test_an_op_far_above_its_roofline_is_named_with_its_kind(
    hlo: str, kind: str, remedy: str
) -> None:
    (finding,) = check(made(hlo, {"slow": 49_000}, step=125_000))
    assert finding.code == "STEP506"
    assert finding.title.startswith(kind)
    assert "slow (/home/me/model/mlp.py:7)" in finding.detail
    assert remedy in str(finding.remedy)
    saves = priced(finding)
    assert saves.low == 0
    assert 48 < saves.high < 49


@pytest.mark.parametrize(
    ("us", "step"),
    [(500, 1_000), (45, 1_000), (49_000, 10_000_000)],
    ids=["near its roofline", "a short kernel", "a small part of the step"],
)
def test_silent(us: int, step: int) -> None:
    assert not list(check(made(SCATTER, {"slow": us}, step=step)))


def test_where_the_chip_is_not_known_other_ops_show_the_rate() -> None:
    others = "".join(
        f"\n  exp{n} = f32[8192,3072]{{1,0}} exponential(a), {where('exp', n)}" for n in range(3)
    )
    hlo = SCATTER.replace("\n  ROOT slow", f"{others}\n  ROOT slow")
    times = {"exp0": 100, "exp1": 100, "exp2": 110, "slow": 49_000}
    (finding,) = check(made(hlo, times, chip=None))
    assert "other ops of this profile" in finding.detail
    (alone,) = check(made(SCATTER, {"slow": 49_000}, chip=None))
    assert isinstance(alone.saves_ms, Unknown)  # no other op shows a rate
    (virtual,) = check(made(hlo, times, chip=None, kind="cpu"))
    assert isinstance(virtual.saves_ms, Unknown)  # they share cores: rates say nothing


def test_a_kernel_of_unknown_work_is_left_out() -> None:
    hlo = """
ENTRY main {
  a = bf16[8192,3072]{1,0} parameter(0)
  ROOT mine = bf16[8192,3072]{1,0} custom-call(a), custom_call_target="__gpu$xla.gpu.triton"
}
"""
    assert not list(check(made(hlo, {"mine": 49_000})))


def test_where_no_rate_is_known_a_large_sort_is_named_without_a_saving() -> None:
    (finding,) = check(made(SORT, {"slow": 49_000}, step=125_000, chip=None))
    assert finding.title == "sorts take 49.00 ms per step, 39% of it"
    assert isinstance(finding.saves_ms, Unknown)
    assert "top_k" in str(finding.remedy)
    assert not list(check(made(SORT, {"slow": 49_000}, step=1_250_000, chip=None)))
    assert not list(check(made(EXP, {"slow": 49_000}, step=125_000, chip=None)))
