"""STEP505: copies that nothing hides, and why they are there."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest
from compute_step import made, priced, where

from counterpoint.core.basis import Basis, Range
from counterpoint.diagnose.finding import bytes_text, range_text
from counterpoint.diagnose.ops import utilization
from counterpoint.diagnose.rules.exposed_copy import both_ways_ms, check
from counterpoint.diagnose.selection import select
from counterpoint.diagnose.step_data import StepData
from golden_sections import Said

OFFLOADED = f"""
double {{
  a = f32[67108864]{{0}} parameter(0)
  ROOT b = f32[67108864]{{0}} add(a, a)
}}

ENTRY main {{
  kept = f32[67108864]{{0:S(5)}} parameter(0)
  x = f32[67108864]{{0}} parameter(1)
  fetch = (f32[67108864]{{0}}, f32[67108864]{{0:S(5)}}, u32[]) copy-start(kept), \
{where("jvp(layer)/fetch", 12)}
  work = f32[67108864]{{0}} fusion(x), kind=kLoop, calls=double
  fetched = f32[67108864]{{0}} copy-done(fetch)
  ROOT last = f32[67108864]{{0}} fusion(fetched), kind=kLoop, calls=double
}}
"""


def test_a_fetch_that_starts_too_late(said: Said) -> None:
    lines = [("fetch", 0, 1, 0), ("work", 1, 6_000, 0), ("fetched", 6_001, 3_000, 0),
             ("last", 9_001, 999, 0)]  # fmt: skip
    (finding,) = check(made(OFFLOADED, lines))
    assert finding.code == "STEP505"
    assert finding.title == "exposed copies take 3.00 ms per step"
    assert "mlp.py:12" in finding.detail
    assert "start earlier" in str(finding.remedy)
    assert priced(finding).high == pytest.approx(3.0, rel=0.06)
    assert "(268 MB) from the host" in finding.detail
    said(finding)


CALLBACK = f"""
ENTRY main {{
  x = f32[67108864]{{0}} parameter(0)
  token = token[] after-all()
  given = (f32[67108864]{{0}}, u32[], token[]) send(x, token), channel_id=3, is_host_transfer=true
  sent = token[] send-done(given), channel_id=3, is_host_transfer=true
  asked = (f32[67108864]{{0}}, u32[], token[]) recv(sent), channel_id=4, \
is_host_transfer=true, {where("jit(step)/pure_callback", 12)}
  answer = (f32[67108864]{{0}}, token[]) recv-done(asked), channel_id=4, \
is_host_transfer=true, {where("jit(step)/pure_callback", 12)}
  ROOT last = f32[67108864]{{0}} get-tuple-element(answer), index=0
}}
"""


def test_a_call_into_python_is_no_copy() -> None:
    lines = [("given", 0, 1, 0), ("sent", 1, 10, 0), ("asked", 11, 1, 0), ("answer", 12, 900, 0)]
    (finding,) = check(made(CALLBACK, lines))
    assert finding.title == "calls into Python on the host take 0.91 ms per step"
    assert "B)" not in finding.detail
    assert "call Python less often" in str(finding.remedy)


def test_bytes_are_told_of_the_copies_that_are_waited_for(said: Said) -> None:
    two = OFFLOADED.replace(
        "  work =",
        "  other = (f32[67108864]{0}, f32[67108864]{0:S(5)}, u32[]) copy-start(kept)\n  work =",
    ).replace("  fetched =", "  early = f32[67108864]{0} copy-done(other)\n  fetched =")
    lines = [("fetch", 0, 1, 0), ("other", 1, 1, 0), ("work", 2, 6_000, 0),
             ("early", 6_002, 1, 0), ("fetched", 6_003, 3_000, 0)]  # fmt: skip
    (finding,) = check(made(two, lines))
    assert "for 268 MB of 537 MB" in finding.detail
    said(finding)


def test_a_copys_bytes_count_once_though_its_start_and_its_end_tell_them() -> None:
    lines = [("fetch", 0, 1, 0), ("work", 1, 6_000, 0), ("fetched", 6_001, 3_999, 0)]
    case = made(OFFLOADED, lines)
    size = 4.0 * 67108864
    both = pl.when(pl.col("op") == "fetch").then(3 * size).when(pl.col("op") == "fetched")
    both = both.then(size)
    timeline = replace(case.timeline, ops=case.timeline.ops.with_columns(bytes_accessed=both))
    told = StepData(selection=select(timeline), context=case.context)
    assert utilization(told.selection, told.ops, None).bytes_per_s == pytest.approx(size / 10e-3)


def test_copies_that_no_computing_could_hide() -> None:
    lines = [("fetch", 0, 1, 0), ("work", 1, 500, 0), ("fetched", 501, 9_000, 0)]
    (finding,) = check(made(OFFLOADED, lines))
    assert "Kernels run for 0.50 ms" in finding.detail
    assert "move less" in str(finding.remedy)


def test_a_copy_behind_computing_is_fine() -> None:
    lines = [("fetch", 0, 3_000, 1), ("work", 0, 6_000, 0), ("last", 6_000, 1_000, 0)]
    assert not list(check(made(OFFLOADED, lines)))


UPDATED = f"""
ENTRY main {{
  x = f32[67108864]{{0}} parameter(0)
  saved = f32[67108864]{{0}} copy(x), {where("update", 3)}
  ROOT gone = f32[67108864]{{0}} custom-call(saved), custom_call_target="step"
}}
"""


def test_an_argument_that_is_not_donated_is_another_rules() -> None:
    assert not list(check(made(UPDATED, {"saved": 500, "gone": 4_500})))


def test_an_argument_that_is_donated_is_copied_for_another_reason() -> None:
    donated = ", input_output_alias={ {}: (0, {}, may-alias) }"
    (finding,) = check(made(UPDATED, {"saved": 500, "gone": 4_500}, header=donated))
    assert "0.50 ms (268 MB) within the device" in finding.detail
    assert "donate_argnums" not in str(finding.remedy)


def test_the_profilers_name_tells_the_way_of_an_instruction(said: Said) -> None:
    case = made(None, {"loop_fusion": 9_000, "copy.9": 1_000})
    seen = pl.when(pl.col("op") == "copy.9").then(pl.lit("MemcpyD2H")).otherwise("name")
    timeline = replace(case.timeline, ops=case.timeline.ops.with_columns(name=seen))
    (finding,) = check(StepData(selection=select(timeline), context=case.context))
    assert "to the host" in finding.detail
    said(finding)


def test_without_hlo_the_profilers_names_tell_the_way(said: Said) -> None:
    (finding,) = check(made(None, {"loop_fusion": 9_000, "MemcpyD2H": 1_000}))
    saves = priced(finding)
    assert (saves.low, saves.high) == pytest.approx((0.0, 1.0))
    assert finding.basis is Basis.MEASURED
    assert "to the host" in finding.detail
    said(finding)


def test_without_hlo_the_bytes_of_asynchronous_copies_are_no_rate() -> None:
    """As of TPUs: starts tell three times the bytes of a copy, and take no time, as most ends."""
    times = {"fusion.1": 9_000, "copy.1": 1_000, "copy-start.2": 1, "copy-done.2": 1}
    case = made(None, times, kind="tpu", chip=None)
    size = pl.col("name").replace_strict(
        {"copy.1": 1e9, "copy-start.2": 30e9, "copy-done.2": 10e9}, default=None
    )
    timeline = replace(case.timeline, ops=case.timeline.ops.with_columns(bytes_accessed=size))
    (finding,) = check(StepData(selection=select(timeline), context=case.context))
    assert "1.00 ms (for 1.00 GB of 11.0 GB) within the device" in finding.detail
    alone = made(None, {"fusion.1": 9_000, "copy.1": 1_000}, kind="tpu", chip=None)
    timeline = replace(alone.timeline, ops=alone.timeline.ops.with_columns(bytes_accessed=size))
    (finding,) = check(StepData(selection=select(timeline), context=alone.context))
    assert "1.00 ms (1.00 GB at 1,000.0 GB/s) within the device" in finding.detail


def test_copies_into_another_layout_are_another_rules() -> None:
    hlo = """
ENTRY main {
  x = bf16[4096,8192]{1,0} parameter(0)
  gone = bf16[4096,8192]{1,0} custom-call(x), custom_call_target="step"
  ROOT turned = bf16[4096,8192]{0,1} copy(gone)
}
"""
    assert not list(check(made(hlo, {"gone": 900, "turned": 100})))


def test_copies_without_any_computing_are_told_all_the_same() -> None:
    (finding,) = check(made(None, {"MemcpyH2D": 1_000}))
    assert priced(finding).high == pytest.approx(1.0)


def test_copies_of_less_than_what_is_printed_are_not_told() -> None:
    lines = {"loop_fusion": 500, "MemcpyD2H": 4}
    assert not list(check(made(None, lines)))
    (finding,) = check(made(None, lines | {"MemcpyD2H": 6}))
    assert finding.title == "exposed copies take 0.006 ms per step"


def test_a_rate_above_the_peak_is_no_utilization() -> None:
    case = made(None, {"fusion": 1_000})
    fast, slow = (
        utilization(case.selection, case.ops.with_columns(flops=pl.lit(flops)), None)
        for flops in (1e16, 1e9)
    )
    assert fast.mfu is None
    assert fast.above_peak is not None
    assert fast.above_peak > 1
    assert slow.above_peak is None
    assert slow.mfu is not None


def test_more_bytes_than_the_memory_can_move_are_no_share_of_its_peak() -> None:
    case = made(None, {"fusion": 1_000})
    fast, slow = (
        utilization(case.selection, case.ops.with_columns(bytes_accessed=pl.lit(moved)), None)
        for moved in (1e13, 1e6)
    )
    assert fast.bytes_per_s is not None
    assert fast.hbm_share is None
    assert slow.hbm_share is not None


@pytest.mark.parametrize(("begins", "beside"), [(40, 0.04), (20, 0.02), (0, 0.0)])
def test_copies_in_both_directions_could_overlap_each_other(begins: int, beside: float) -> None:
    lines = [("MemcpyH2D", 0, 40, 1), ("MemcpyD2H", begins, 40, 2), ("gemm", 90, 10, 0)]
    case = made(None, lines, nameless=("MemcpyH2D", "MemcpyD2H", "gemm"))
    assert both_ways_ms(case) == pytest.approx(beside)
    (finding,) = check(case)
    assert ("overlap each other" in finding.detail) == (beside > 0)


@pytest.mark.parametrize(
    ("size", "said"),
    [
        (0, "0 bytes"),
        (999, "999 bytes"),
        (4_921_000, "4.92 MB"),
        (999_960_000, "1.00 GB"),
        (25.48e9, "25.5 GB"),
        (512e6, "512 MB"),
    ],
)
def test_bytes_have_the_unit_that_shows_them(size: float, said: str) -> None:
    assert bytes_text(size) == said


def test_a_range_whose_ends_look_alike_is_one_time() -> None:
    assert range_text(Range(0.564, 0.619)) == "0.56 to 0.62 ms"
    assert range_text(Range(0.998, 1.002)) == "1.00 ms"
    assert range_text(Range(0.0, 0.02)) == "0.00 to 0.02 ms"
