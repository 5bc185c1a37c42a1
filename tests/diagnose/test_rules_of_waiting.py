"""STEP302, 304, 305 and 306: input, results, batches, and nobody's gaps."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest
from host_side import PS, Event, Run, case, loop, made, most

from counterpoint.core.basis import Basis
from counterpoint.diagnose.host.causes import IdleCause
from counterpoint.diagnose.host.idle import idle_of
from counterpoint.diagnose.rules import (
    blocking_read,
    host_bound,
    input_bound,
    kernel_gaps,
    late_batch,
)
from counterpoint.timeline.model import Timeline
from golden_sections import Said

READ = Event("np.asarray(jax.Array)", -80, 90)  # until 10 us after the device's end
NEXT = Event("$loader.py:5 __next__", 0, 50)
NEVER_WAITS = Event("$train.py:5 log", 20, 30)
PUT = Event("$api.py:9 device_put", 0, 50)


def test_input_bound(said: Said) -> None:
    (finding,) = input_bound.check(case(loop([NEXT])))
    assert most(finding) == pytest.approx(0.050)
    assert finding.evidence[1].what == "$loader.py:5 __next__"
    assert "prefetch" in finding.remedy.text
    said(finding)


def test_a_wait_shorter_than_the_gap_is_all_that_it_saves_and_both_are_told(said: Said) -> None:
    (finding,) = blocking_read.check(
        case(loop([Event("np.asarray(jax.Array)", 0, 20), NEVER_WAITS]))
    )
    (gap, *_), most_ms = finding.evidence, most(finding)
    assert gap.ms is not None
    assert most_ms < gap.ms
    assert f"thread waits {most_ms:.2f} ms" in finding.detail
    assert f"{gap.ms:.2f} ms" in finding.detail
    said(finding)


def test_input_that_is_fetched_while_the_device_works() -> None:
    assert not list(input_bound.check(case(loop([replace(NEXT, start=-70)]))))


def test_next_inside_of_jit_is_no_input() -> None:
    inside = [Event("PjitFunction(f)", 0, 55), Event("$builtins next", 5, 45)]
    assert not list(input_bound.check(case(loop(inside))))


def test_blocking_read(said: Said) -> None:
    """The host waits 90 us per step and then calls: 20 of the 60 idle ones; 40 are Python's."""
    looked = case(loop([READ, Event("$train.py:5 log", 10, 40)]))
    (finding,) = blocking_read.check(looked)
    assert most(finding) == pytest.approx(0.020)
    assert "thread waits 0.09 ms" in finding.detail
    assert finding.evidence[0].ms == pytest.approx(0.020)
    assert {gap.dur_ps // PS for gap in finding.evidence[0].gaps} == {60}
    assert {gap.start_ps // PS % 150 for gap in finding.evidence[0].gaps} == {90}
    (python,) = host_bound.check(looked)
    assert most(python) == pytest.approx(0.040)
    said(finding)


def test_a_read_of_what_is_there_already_saves_no_more_than_it_takes() -> None:
    looked = case(loop([Event("np.asarray(jax.Array)", 0, 1), Event("$train.py:5 log", 1, 49)]))
    assert not list(blocking_read.check(looked))
    (finding,) = host_bound.check(looked)
    assert most(finding) == pytest.approx(0.058, rel=0.01)


def with_reads(op: str | None) -> Timeline:
    """Each run's last kernel is a copy to the host; then 60 us of nothing, and no host is seen."""
    timeline = made([Run(n * 150, 90, busy=((0, 80), (88, 2))) for n in range(5)])
    last = pl.col("name") == "fusion.1"
    renamed = timeline.ops.with_columns(
        name=pl.when(last).then(pl.lit("MemcpyD2H")).otherwise("name"),
        op=pl.when(last).then(pl.lit(op, pl.String)).otherwise("op"),
    )
    return replace(timeline, ops=renamed)


def test_a_copy_of_a_result_tells_of_a_read_where_no_host_is_seen(said: Said) -> None:
    (finding,) = blocking_read.check(case(with_reads(None)))
    assert most(finding) == pytest.approx(0.060)
    assert finding.doubt is not None
    assert not list(host_bound.check(case(with_reads(None))))
    said(finding)


def test_a_copy_that_is_the_programs_own_tells_of_no_read() -> None:
    assert not list(blocking_read.check(case(with_reads("copy.9"))))


def test_a_generator_of_batches_is_input_and_named() -> None:
    generator = [Event("$train.py:48 batches", 0, 50), Event("$time sleep", 2, 48)]
    (finding,) = input_bound.check(case(loop(generator)))
    assert finding.evidence[1].what == "$time sleep in $train.py:48 batches"


def test_what_the_runtime_does_after_the_last_op_is_no_wait_to_be_left_out() -> None:
    """Half a millisecond after its last op the device's result is ready: buffers were freed."""
    freed = [Event("$api.py:2479 block_until_ready", -80, 580)]
    timeline = loop(freed, gap=600)
    virtual = tuple(replace(device, kind="cpu") for device in timeline.devices)
    looked = case(replace(timeline, devices=virtual))
    (finding,) = blocking_read.check(looked)
    assert most(finding) == pytest.approx(0.010)
    assert looked.cached(idle_of).ms(IdleCause.SETTLING) == pytest.approx(0.500)
    (late_to_wake,) = blocking_read.check(case(timeline))  # an accelerator is done by then
    assert most(late_to_wake) == pytest.approx(0.510)
    assert "reported late" not in late_to_wake.title  # no longer than a notice may take
    told = [Event("$api.py:2479 block_until_ready", -80, 2_580)]
    (reported,) = blocking_read.check(case(loop(told, gap=2_600)))
    assert reported.title.endswith("because the end of their work is reported late")


def test_a_read_behind_a_busy_device_costs_nothing() -> None:
    """The next step had been called before: the device goes on."""
    runs = [Run(n * 90, 90) for n in range(6)]
    calls = [Event("PjitFunction(step)", n * 90 - 100, 10) for n in range(6)]
    reads = [Event("np.asarray(jax.Array)", n * 90 + 5, 80) for n in range(6)]
    steps = [(n * 90, 90) for n in range(6)]
    assert not list(blocking_read.check(case(made(runs, [*calls, *reads], steps))))


def test_late_batch(said: Said) -> None:
    (finding,) = late_batch.check(case(loop([PUT])))
    assert "device_put" in finding.remedy.text
    said(finding)


def test_a_batch_that_is_put_while_the_device_works() -> None:
    assert not list(late_batch.check(case(loop([replace(PUT, start=-80)]))))


def test_a_put_of_a_hundredth_of_the_step_is_not_worth_a_word() -> None:
    assert not list(late_batch.check(case(loop([replace(PUT, length=1)]))))
    assert list(late_batch.check(case(loop([replace(PUT, length=5)]))))


def test_kernel_gaps(said: Said) -> None:
    runs = [Run(n * 100, 100, busy=((0, 48), (50, 48), (98, 2))) for n in range(4)]
    steps = [(n * 100, 100) for n in range(4)]
    (unseen,) = kernel_gaps.check(case(made(runs, [], steps)))
    calls = [Event("PjitFunction(step)", n * 100 - 150, 10) for n in range(4)]
    (finding,) = kernel_gaps.check(case(made(runs, calls, steps)))
    assert most(finding) == pytest.approx(0.002)
    lengths = {(gap.dur_ps // PS, gap.start_ps // PS % 100) for gap in finding.evidence[0].gaps}
    assert lengths == {(2, 48)}
    said(unseen, finding)


def test_a_virtual_devices_thread_that_waits_for_a_core_leaves_no_gap_between_kernels() -> None:
    runs = [Run(n * 1_000, 1_000, busy=((0, 400), (420, 180), (800, 200))) for n in range(4)]
    timeline = made(runs, [], [(n * 1_000, 1_000) for n in range(4)])
    (real,) = kernel_gaps.check(case(timeline))
    assert most(real) == pytest.approx(0.220)
    virtual = tuple(replace(device, kind="cpu") for device in timeline.devices)
    (handed_over,) = kernel_gaps.check(case(replace(timeline, devices=virtual)))
    assert most(handed_over) == pytest.approx(0.020)


def test_kernels_that_follow_closely() -> None:
    runs = [Run(n * 1000, 1000, busy=((0, 499), (500, 500))) for n in range(4)]
    looked = case(made(runs, [], [(n * 1000, 1000) for n in range(4)]))
    assert not list(kernel_gaps.check(looked))


def test_gaps_of_a_prediction_are_between_kernels(said: Said) -> None:
    (finding,) = kernel_gaps.check(case(replace(loop([]), basis=Basis.PREDICTED)))
    assert most(finding) == pytest.approx(0.060)
    assert {gap.dur_ps // PS for gap in finding.evidence[0].gaps} == {60}
    said(finding)


def test_the_longest_gap_comes_first() -> None:
    runs = [Run(n * 100, 100, busy=((0, 40), (42, 40), (90, 10))) for n in range(4)]
    (finding,) = kernel_gaps.check(case(made(runs, [], [(n * 100, 100) for n in range(4)])))
    lengths = [gap.dur_ps // PS for gap in finding.evidence[0].gaps]
    assert lengths == sorted(lengths, reverse=True)
    assert (lengths[0], lengths[-1]) == (8, 2)


def test_gaps_before_late_launches_are_not_the_devices() -> None:
    assert not list(kernel_gaps.check(case(loop([Event("$train.py:5 log", 0, 50)]))))
