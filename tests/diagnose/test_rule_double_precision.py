"""STEP508: a program that computes in float64."""

from __future__ import annotations

import pytest
from compute_step import made, priced, where

from counterpoint.diagnose.rules.double_precision import check


def products(wide: str, narrow: str = "f32") -> str:
    """Two products of one size."""
    return f"""
ENTRY main {{
  x = {wide}[1024,1024]{{1,0}} parameter(0), metadata={{op_name="params['w']"}}
  y = {narrow}[1024,1024]{{1,0}} parameter(1), metadata={{op_name="batch"}}
  a = {wide}[1024,1024]{{1,0}} dot(x, x), lhs_contracting_dims={{1}}, \
rhs_contracting_dims={{0}}, {where("mlp", 7)}
  b = {narrow}[1024,1024]{{1,0}} dot(y, y), lhs_contracting_dims={{1}}, \
rhs_contracting_dims={{0}}, {where("mlp", 8)}
  ROOT out = ({wide}[1024,1024]{{1,0}}, {narrow}[1024,1024]{{1,0}}) tuple(a, b)
}}
"""


@pytest.mark.parametrize("kind", ["cpu", "gpu"])
def test_products_in_float64_could_be_as_fast_as_those_in_float32(kind: str) -> None:
    (finding,) = check(made(products("f64"), {"a": 900, "b": 100}, chip=None, kind=kind))
    assert finding.title == "ops in float64 take 0.90 ms per step"
    assert "the argument params['w']" in finding.detail
    assert "(/home/me/model/mlp.py:7)" in finding.detail
    assert "jax_enable_x64" in str(finding.remedy)
    saves = priced(finding)
    assert saves.low == 0
    assert saves.high == pytest.approx(0.8)


def test_without_products_in_float32_the_saving_is_at_most_what_they_take() -> None:
    (finding,) = check(made(products("f64", "f64"), {"a": 900, "b": 100}))
    assert priced(finding).high == pytest.approx(1.0)
    assert "params['w'], batch" in finding.detail


def test_a_cpu_computes_at_most_about_twice_as_fast_in_float32() -> None:
    (finding,) = check(made(products("f64", "f64"), {"a": 900, "b": 100}, chip=None, kind="cpu"))
    assert priced(finding).high == pytest.approx(2 / 3)


def test_a_conversion_in_the_program_is_named() -> None:
    hlo = f"""
ENTRY main {{
  x = f32[1024,1024]{{1,0}} parameter(0)
  wide = f64[1024,1024]{{1,0}} convert(x), {where("loss", 31)}
  ROOT out = f64[1024,1024]{{1,0}} exponential(wide), {where("loss", 32)}
}}
"""
    (finding,) = check(made(hlo, {"wide": 100, "out": 900}))
    assert "a conversion at /home/me/model/mlp.py:31" in finding.detail


@pytest.mark.parametrize(
    ("hlo", "times"),
    [
        (products("f32"), {"a": 900, "b": 100}),
        (products("f64"), {"a": 5, "b": 995}),
        (
            """
ENTRY main {
  x = f32[1024,1024]{1,0} parameter(0)
  wide = f64[2]{0} custom-call(x), custom_call_target="sums"
  ROOT out = f32[1024,1024]{1,0} exponential(x)
}
""",
            {"wide": 900, "out": 100},
        ),
    ],
    ids=["all float32", "next to nothing", "a few sums"],
)
def test_silent(hlo: str, times: dict[str, int]) -> None:
    assert not list(check(made(hlo, times)))
