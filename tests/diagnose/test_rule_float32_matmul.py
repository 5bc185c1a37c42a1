"""STEP501: products of float32 matrices, and what is none."""

from __future__ import annotations

import pytest
from compute_step import H100, made, priced, where

from counterpoint.core.basis import Basis
from counterpoint.diagnose.rules.float32_matmul import check, multiplied_as
from golden_sections import Said

N = 8192
FLOPS = 2 * N**3


def product(dtype: str, result: str = "f32", config: str = "") -> str:
    extra = f", backend_config={config}" if config else ""
    return f"""
ENTRY main {{
  a = {dtype}[{N},{N}]{{1,0}} parameter(0)
  b = {dtype}[{N},{N}]{{1,0}} parameter(1)
  gemm = ({result}[{N},{N}]{{1,0}}, s8[1024]{{0}}) custom-call(a, b), \
custom_call_target="__cublas$gemm", {where("jvp(head)/dot_general", 31)}{extra}
  ROOT out = {result}[{N},{N}]{{1,0}} get-tuple-element(gemm), index=0
}}
"""


CONTRACTS = """\
{"gemm_backend_config":{"dot_dimension_numbers":{"lhs_contracting_dimensions":["1"],\
"rhs_contracting_dimensions":["0"],"lhs_batch_dimensions":[],"rhs_batch_dimensions":[]}%s}}"""
DEFAULT = CONTRACTS % ""
HIGHEST = CONTRACTS % ',"precision_config":{"operand_precision":["HIGHEST","HIGHEST"]}'


def test_a_product_of_float32_could_be_twice_as_fast() -> None:
    # 1.1 TFLOP at 440 TFLOP/s, as TF32 on H100 goes: 2.5 ms.
    (finding,) = check(made(product("f32", config=DEFAULT), {"gemm": 2_500}))
    assert finding.code == "STEP501"
    assert finding.title == "products of float32 matrices take 2.50 ms per step"
    assert "8192x8192x8192 tf32" in finding.detail
    assert "multiplied as TF32" in finding.detail
    assert finding.evidence[0].what == "gemm (/home/me/model/mlp.py:31)"
    saves = priced(finding)
    # At most half, the ratio of 989 and 495 TFLOP/s; at least that without casting 2 x 8192^2.
    assert saves.high == pytest.approx(1.25, rel=0.03)
    assert 0.7 < saves.low < saves.high
    assert finding.basis is Basis.RULE_OF_THUMB


def test_precision_highest_is_plain_float32_and_saves_more() -> None:
    (finding,) = check(made(product("f32", config=HIGHEST), {"gemm": 20_000}))
    assert "plain float32" in finding.detail
    assert priced(finding).high == pytest.approx(20 * (1 - 66.9 / 989.4), rel=0.01)


def test_a_dot_within_a_fusion_counts_too() -> None:
    hlo = f"""
inside {{
  a.1 = f32[{N},{N}]{{1,0}} parameter(0)
  b.1 = f32[{N},{N}]{{1,0}} parameter(1)
  ROOT dot = f32[{N},{N}]{{1,0}} dot(a.1, b.1), lhs_contracting_dims={{1}}, \
rhs_contracting_dims={{0}}
}}

ENTRY main {{
  a = f32[{N},{N}]{{1,0}} parameter(0)
  ROOT fused = f32[{N},{N}]{{1,0}} fusion(a, a), kind=kCustom, calls=inside
}}
"""
    (finding,) = check(made(hlo, {"fused": 2_500}))
    assert finding.evidence[0].what.startswith("fused")


def test_amd_multiplies_float32_as_such() -> None:
    (finding,) = check(made(product("f32", config=DEFAULT), {"gemm": 9_000}, chip="AMD MI300X"))
    assert "plain float32" in finding.detail


def test_bfloat16_products_are_fine() -> None:
    assert not list(check(made(product("bf16", "bf16", DEFAULT), {"gemm": 1_400})))


def test_a_float32_sum_of_bfloat16_products_is_fine() -> None:
    assert not list(check(made(product("bf16", "f32", DEFAULT), {"gemm": 1_400})))


def test_a_router_in_float32_is_not_worth_a_word() -> None:
    hlo = f"""
ENTRY main {{
  x = f32[4096,1024]{{1,0}} parameter(0)
  w = f32[1024,8]{{1,0}} parameter(1)
  router = f32[4096,8]{{1,0}} dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  y = bf16[{N},{N}]{{1,0}} parameter(2)
  ROOT rest = bf16[{N},{N}]{{1,0}} dot(y, y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
}}
"""
    assert not list(check(made(hlo, {"router": 8, "rest": 14_000})))


def test_what_is_faster_than_float32_can_be_was_not_multiplied_as_such() -> None:
    # 1.1 TFLOP in 1.4 ms are 785 TFLOP/s: an algorithm that the HLO text does not tell.
    assert not list(check(made(product("f32", config=DEFAULT), {"gemm": 1_400})))


@pytest.mark.parametrize(("kind", "chip"), [("gpu", None), ("tpu", "TPU v6 lite")])
def test_silent_where_the_rates_are_not_known(kind: str, chip: str | None) -> None:
    case = made(product("f32", config=DEFAULT), {"gemm": 2_500}, kind=kind, chip=chip)
    assert not list(check(case))


@pytest.mark.parametrize(
    ("kernel", "kind"),
    [
        ("ampere_sgemm_128x64_tn", "f32"),
        ("void cutlass::Kernel2<cutlass_80_simt_sgemm_128x64_8x5_nn_align1>", "f32"),
        ("sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x128x8_ffma_aligna4_cublas", "f32"),
        ("sm80_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize128x128x16_execute_kernel", "tf32"),
        ("cutlass_80_tensorop_s1688gemm_128x256_16x3_tn_align4", "tf32"),
        ("cutlass_80_tensorop_d884gemm_64x64_16x3_tn_align1", "f64"),
        ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64", None),
        ("ampere_fp16_s1688gemm_fp16_128x128_ldg8_f2f_stages_32x1_tn", None),
        ("cutlass_80_tensorop_bf16_s16816gemm_bf16_128x128_32x5_tn", None),
        ("ampere_s16816gemm_bf16_128x128_ldg8_stages_64x3_tn", None),
        ("nvjet_tst_192x192_64x4_2x1_v_bz_coopB_TNT", None),
        ("sm90_xmma_gemm_e4m3bf16_e4m3f32_f32_tn_n", None),
        ("gemm_fusion_dot_12", None),
    ],
)
def test_kernels_tell_what_they_multiply(kernel: str, kind: str | None) -> None:
    assert multiplied_as(kernel) == kind


def test_without_hlo_the_kernels_names_tell(said: Said) -> None:
    (finding,) = check(made(None, {"loop_fusion": 3_500, "ampere_sgemm_128x64_tn": 20_000}))
    assert finding.title == "products of float32 matrices take 20.00 ms per step"
    assert "plain float32" in finding.detail
    assert priced(finding).low == 0
    assert priced(finding).high == pytest.approx(20 * (1 - 66.9 / 989.4), rel=0.01)
    assert not list(check(made(None, {"ampere_bf16_s16816gemm_bf16_128x64_tn": 20_000})))
    said(finding)


@pytest.mark.parametrize(
    ("chip", "narrow"), [("Tesla V100-SXM2-16GB", "float16"), (H100, "bfloat16")]
)
def test_a_chip_without_bfloat16_is_advised_float16(chip: str, narrow: str) -> None:
    times = {"loop_fusion": 3_500, "sgemm_128x64_tn": 20_000}
    (finding,) = check(made(None, times, chip=chip))
    assert f" {narrow} operands would save" in finding.detail
    assert f"dtype=jnp.{narrow}" in finding.remedy.text
    assert ("scaled loss" in finding.remedy.text) == (narrow == "float16")
