"""STEP504: kernels that only write data in another order, and the host's."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest
from compute_step import made, priced, where

from counterpoint.core.basis import Basis
from counterpoint.diagnose.finding import Finding
from counterpoint.diagnose.network.host_transposes import host_transposes
from counterpoint.diagnose.rules.layout_copies import check
from counterpoint.diagnose.selection import select
from counterpoint.diagnose.step_data import StepData
from golden_sections import Said


def turned(inside: str, order: str = "{0,1}") -> str:
    return f"""
turn {{
  a = bf16[4096,8192]{{1,0}} parameter(0)
  {inside}
}}

ENTRY main {{
  x = bf16[4096,8192]{{1,0}} parameter(0)
  moved = bf16[8192,4096]{{1,0}} fusion(x), kind=kInput, calls=turn, \
{where("jvp(conv)/transpose", 9)}
  viewed = bf16[8192,4096]{{1,0}} bitcast(moved)
  conv = bf16[8192,4096]{{1,0}} custom-call(viewed), custom_call_target="__cudnn$convForward"
  ROOT copied = bf16[8192,4096]{order} copy(conv), {where("jvp(conv)/out", 10)}
}}
"""


TRANSPOSE = "ROOT b = bf16[8192,4096]{1,0} transpose(a), dimensions={1,0}"
TIMES = {"moved": 60, "conv": 900, "copied": 50}


def test_a_transpose_and_a_copy_into_another_layout() -> None:
    (finding,) = check(made(turned(TRANSPOSE), TIMES))
    assert finding.code == "STEP504"
    assert finding.title == "layout changes (copies, transposes) take 0.11 ms per step"
    assert (
        "bf16[4096,8192]{1,0} to bf16[8192,4096]{1,0}, read by __cudnn$convForward"
        in finding.detail
    )
    assert {it.what for it in finding.evidence} == {
        "moved (/home/me/model/mlp.py:9)",
        "copied (/home/me/model/mlp.py:10)",
    }
    assert priced(finding).high == pytest.approx(0.11, rel=0.06)


def test_a_transpose_between_equal_sizes_tells_which_dimensions_change_places() -> None:
    hlo = turned(TRANSPOSE).replace("8192", "4096")
    (finding,) = check(made(hlo, TIMES))
    assert "bf16[4096,4096]{1,0} transposed to (1, 0), read by" in finding.detail


def test_who_wrote_a_result_in_another_order_is_named(said: Said) -> None:
    (finding,) = check(made(turned(TRANSPOSE), {"moved": 10, "conv": 900, "copied": 90}))
    assert "bf16[8192,4096]{1,0} to bf16[8192,4096]{0,1}" in finding.detail
    assert "conv (__cudnn$convForward) writes" in finding.detail
    said(finding)


def test_a_fusion_that_converts_on_the_way_would_run_anyway() -> None:
    inside = "c = f32[4096,8192]{1,0} convert(a)\n  n = f32[4096,8192]{1,0} negate(c)\n"
    inside += "  d = bf16[4096,8192]{1,0} convert(n)\n"
    inside += "  ROOT b = bf16[8192,4096]{1,0} transpose(d), dimensions={1,0}"
    assert not list(check(made(turned(inside, "{1,0}"), TIMES)))


def test_a_copy_that_keeps_the_order_is_none_of_them() -> None:
    hlo = turned("ROOT b = bf16[8192,4096]{1,0} bitcast(a)", "{1,0}")
    assert not list(check(made(hlo, TIMES)))


def test_a_transpose_of_dimensions_of_one_moves_nothing() -> None:
    hlo = """
ENTRY main {
  x = bf16[1,8192]{1,0} parameter(0)
  ROOT moved = bf16[8192,1]{1,0} transpose(x), dimensions={1,0}
}
"""
    assert not list(check(made(hlo, {"moved": 50})))


def test_without_hlo_names_tell_layout_changes() -> None:
    """As of TPUs and PyTorch: a reshape moves data on a TPU; a plain copy may have any reason."""
    times = {
        "reshape.5": 20,
        "copy_bitcast_fusion.7": 50,
        "copy_bitcast_fusion.8": 50,
        "copy.2": 40,
    }
    work = {"multiply_copy_fusion.3": 100, "fusion.4": 740}

    def found(names: dict[str, int], kind: str, flops: float | None) -> list[Finding]:
        case = made(None, names, kind=kind, chip=None)
        ops = case.timeline.ops.with_columns(flops=pl.lit(flops), bytes_accessed=pl.lit(15e6))
        timeline = replace(case.timeline, ops=ops)
        return list(check(StepData(selection=select(timeline), context=case.context)))

    (finding,) = found(times | work, "tpu", 0.0)
    assert finding.title == "layout changes (copies, transposes) take 0.12 ms per step"
    assert finding.detail.startswith("3 kernels (45.0 MB read and written, 375.0 GB/s); most of it")
    assert "copy_bitcast_fusion.7 and 1 like it, 0.10 ms (30.0 MB" in finding.detail
    assert priced(finding).high == pytest.approx(0.12)
    (finding,) = found(times | work, "tpu", 1e6)  # the fusions also compute
    assert "0.02 ms" in finding.title
    assert not found(times | work, "gpu", None)
    others = {"triton_poi_fused_mul_transpose_view_5": 100, "conv_transpose2d_kernel": 100}
    assert not found(others | work, "gpu", None)
    (finding,) = found({"batched_transpose_16x32_half": 100} | others | work, "gpu", None)
    assert "1 kernel (15.0 MB" in finding.detail


def test_the_host_turns_arrays_in_every_step(said: Said) -> None:
    host = [("TransposePlan::ExecuteTyped", n * 10_000 + 6_000, 3_000) for n in range(3)]
    host += [("Transpose::Execute", n * 10_000 + 6_000, 3_500) for n in range(3)]
    case = made(None, {"work": 5_000}, step=10_000, host=host)
    (finding,) = check(case)
    assert finding.basis is Basis.MEASURED
    assert priced(finding).high == pytest.approx(3.5)
    said(finding)


def test_what_the_host_turns_at_start_up_costs_no_step() -> None:
    host = [("TransposePlan::ExecuteTyped", -50_000 + n, 30_000) for n in range(8)]
    case = made(None, {"work": 5_000}, step=10_000, host=host)
    assert not list(check(case))
    found = host_transposes(case)
    # Eight threads side by side: 240 ms together, 30 of the clock.
    assert found.busy_ms == pytest.approx(240)
    assert found.before_ms == pytest.approx(30.007)
    assert found.in_steps_ms == 0
