"""STEP502: products far behind others of their shape."""

from __future__ import annotations

import pytest
from compute_step import made, priced, where

from counterpoint.diagnose.rules.slow_gemm import check
from golden_sections import Said

CONFIG = """\
{"gemm_backend_config":{"dot_dimension_numbers":{"lhs_contracting_dimensions":["1"],\
"rhs_contracting_dimensions":["0"],"lhs_batch_dimensions":[],"rhs_batch_dimensions":[]}}}"""


def product(m: int, n: int, k: int) -> str:
    return f"""
ENTRY main {{
  a = bf16[{m},{k}]{{1,0}} parameter(0)
  b = bf16[{k},{n}]{{1,0}} parameter(1)
  shard = bf16[2048,8192]{{1,0}} parameter(2)
  gather = (bf16[2048,8192]{{1,0}}, bf16[8192,8192]{{1,0}}) all-gather-start(shard), \
channel_id=1, replica_groups={{{{0,1,2,3}}}}, dimensions={{0}}, use_global_device_ids=true
  gemm = (bf16[{m},{n}]{{1,0}}, s8[1024]{{0}}) custom-call(a, b), \
custom_call_target="__cublas$gemm", {where("jvp(head)/dot_general", 31)}, backend_config={CONFIG}
  gather.done = bf16[8192,8192]{{1,0}} all-gather-done(gather)
  ROOT out = bf16[{m},{n}]{{1,0}} get-tuple-element(gemm), index=0
}}
"""


def test_a_product_at_a_third_of_what_its_shape_reaches() -> None:
    # 8192^3 in bf16 takes some 1.4 ms on H100 in a step.
    (finding,) = check(made(product(8192, 8192, 8192), {"gemm": 4_500}))
    assert finding.code == "STEP502"
    assert "4.50 ms per step" in finding.title
    assert "8192x8192x8192 bf16" in finding.detail
    assert finding.evidence[0].what == "gemm (/home/me/model/mlp.py:31)"
    saves = priced(finding)
    assert 2.3 < saves.low < saves.high < 3.6
    assert "cuBLASLt" in str(finding.remedy)


def test_odd_dimensions_are_named_as_the_cause() -> None:
    (finding,) = check(made(product(8192, 50257, 4096), {"gemm": 20_000}))
    assert "pad dimensions" in str(finding.remedy)
    assert "50257" in str(finding.remedy)


def test_autotuning_that_was_switched_off_is_the_remedy() -> None:
    case = made(product(8192, 8192, 8192), {"gemm": 4_500}, flags={"xla_gpu_autotune_level": "0"})
    (finding,) = check(case)
    assert finding.remedy.flags == (("xla_gpu_autotune_level", "4"),)


def test_a_product_at_the_rate_of_its_shape_is_fine() -> None:
    assert not list(check(made(product(8192, 8192, 8192), {"gemm": 1_500})))


def test_a_flat_product_is_bound_by_memory_and_not_slow() -> None:
    # 16 x 8192 x 8192 is 2% of the peak at best: 134 MB of weights at 3.35 TB/s are 40 us.
    assert not list(check(made(product(16, 8192, 8192), {"gemm": 65})))


def test_a_collective_beside_it_takes_its_cores() -> None:
    lines = [("gather", 0, 4_000, 1), ("gemm", 0, 4_500, 0)]
    assert not list(check(made(product(8192, 8192, 8192), lines)))
    later = [("gather", 4_500, 400, 1), ("gemm", 0, 4_500, 0)]
    assert len(list(check(made(product(8192, 8192, 8192), later)))) == 1


@pytest.mark.parametrize("chip", [None, "NVIDIA T1000"])
def test_silent_where_the_chip_is_not_known(chip: str | None) -> None:
    assert not list(check(made(product(8192, 8192, 8192), {"gemm": 9_000}, chip=chip)))


@pytest.mark.parametrize(("length", "findings"), [(1_500, 0), (2_600, 0), (7_200, 1)])
def test_a_tpu_is_judged_by_its_rates_alone(length: int, findings: int) -> None:
    """1.1 TFLOP at 918 TFLOP/s are 1.2 ms on TPU v6e; six passes take 7.2."""
    hlo = f"""
ENTRY main {{
  a = f32[8192,8192]{{1,0}} parameter(0)
  ROOT product = f32[8192,8192]{{1,0}} dot(a, a), lhs_contracting_dims={{1}}, \
rhs_contracting_dims={{0}}, {where("jvp(head)/dot_general", 31)}
}}
"""
    found = list(check(made(hlo, {"product": length}, kind="tpu", chip="TPU v6 lite")))
    assert len(found) == findings
    assert all("HIGHEST" in str(finding.remedy) for finding in found)


@pytest.mark.parametrize(("length", "findings"), [(8_000, 0), (15_500, 0), (17_000, 1)])
def test_twice_what_xla_estimates_on_a_tpu_is_too_long(
    length: int, findings: int, said: Said
) -> None:
    """A loop fusion of 10.7 GB on v6e: XLA estimates 14.2 million cycles, 8.1 ms, as measured."""
    hlo = f"""
plus {{
  b = f32[1342177280]{{0}} parameter(0)
  ROOT sum = f32[1342177280]{{0}} add(b, b)
}}

ENTRY main {{
  a = f32[1342177280]{{0}} parameter(0)
  ROOT step = f32[1342177280]{{0}} fusion(a), kind=kLoop, calls=plus, \
backend_config={{"window_config":{{"estimated_cycles":"14180608"}}}}, {where("jvp(head)/add", 31)}
}}
"""
    found = list(check(made(hlo, {"step": length}, kind="tpu", chip="TPU v6 lite")))
    assert len(found) == findings
    if found:
        assert found[0].evidence[0].ms == pytest.approx(17.0)
        assert "2.1 times" in found[0].detail
        said(*found)


def alike(count: int = 4, k: int = 4096) -> str:
    """Products of one size; the last has its sum over `k`."""
    lines = "".join(
        f"""
  g{n} = (bf16[4096,4096]{{1,0}}, s8[1024]{{0}}) custom-call(a, a), \
custom_call_target="__cublas$gemm", {where(f"layer_{n}/dot_general", n + 1)}, \
backend_config={CONFIG}"""
        for n in range(count - 1)
    )
    return f"""
ENTRY main {{
  a = bf16[4096,4096]{{1,0}} parameter(0)
  b = bf16[4096,{k}]{{1,0}} parameter(1)
  c = bf16[{k},4096]{{1,0}} parameter(2){lines}
  other = (bf16[4096,4096]{{1,0}}, s8[1024]{{0}}) custom-call(b, c), \
custom_call_target="__cublas$gemm", {where("head/dot_general", 31)}, backend_config={CONFIG}
  ROOT out = bf16[4096,4096]{{1,0}} get-tuple-element(other), index=0
}}
"""


@pytest.mark.parametrize("chip", [None, "NVIDIA H100 80GB HBM3"])
def test_products_of_one_size_at_unequal_rates_tell_what_is_lost(chip: str | None) -> None:
    times = {"g0": 200, "g1": 210, "g2": 300, "other": 320}
    (finding,) = check(made(alike(), times, chip=chip))
    assert finding.title == "matrix products of equal size at unequal rates lose 0.22 ms per step"
    assert "2 products; of 137 GFLOP, other (/home/me/model/mlp.py:31)" in finding.detail
    assert "g0 (/home/me/model/mlp.py:1) 0.200 ms (687 TFLOP/s)" in finding.detail
    saves = priced(finding)
    assert (saves.low, saves.high) == (0, pytest.approx(0.22))


@pytest.mark.parametrize(
    ("hlo", "times", "kind"),
    [
        (alike(), {"g0": 200, "g1": 205, "g2": 210, "other": 215}, "gpu"),
        (alike(k=8192), {"g0": 200, "g1": 200, "g2": 200, "other": 400}, "gpu"),
        (alike(), {"g0": 200, "g1": 210, "g2": 300, "other": 320}, "cpu"),
    ],
    ids=["nearly alike", "another size", "devices that share cores"],
)
def test_products_that_do_not_compare(hlo: str, times: dict[str, int], kind: str) -> None:
    assert not list(check(made(hlo, times, chip=None, kind=kind)))
