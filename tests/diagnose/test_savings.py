"""Savings, on a step whose truth is counted by hand.

Milliseconds; the gather runs 8 beside 5 of compute, then 3 alone; the reduce runs alone:

              0    5    8        13   16   18
    compute   ====      ========           ==
    gather    =========
    reduce                       ====

Without the gather the step is 3 shorter, without the reduce 3, without both 6; without fusion.1
nothing is gained, for the gather takes that long anyhow.
"""

from __future__ import annotations

import pytest

from counterpoint.core.basis import Range
from counterpoint.diagnose.savings import Savings, savings_of
from counterpoint.diagnose.selection import select
from counterpoint.diagnose.step_data import Context, StepData
from counterpoint.timeline.hosts.assemble import assemble
from counterpoint.timeline.model import EmbeddedProgram
from recordings import Span, recording

MS = 1_000_000  # nanoseconds
HLO = """\
HloModule jit_step, is_scheduled=true, num_partitions=2

%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %sum = f32[] add(%a, %b)
}

ENTRY %main (p: f32[256]) -> f32[512] {
  %p = f32[256]{0} parameter(0)
  %gather = (f32[256]{0}, f32[512]{0}) all-gather-start(%p), channel_id=1, \
replica_groups={{0,1}}, dimensions={0}, use_global_device_ids=true
  %fusion.1 = f32[256]{0} negate(%p)
  %gather-done = f32[512]{0} all-gather-done(%gather)
  %fusion.2 = f32[512]{0} negate(%gather-done)
  %reduce = f32[512]{0} all-reduce(%fusion.2), channel_id=2, \
replica_groups={{0,1}}, use_global_device_ids=true, to_apply=%add
  ROOT %fusion.3 = f32[512]{0} negate(%reduce)
}
"""
STEP = (
    ("gather", 0, 8),
    ("fusion.1", 0, 5),
    ("fusion.2", 8, 5),
    ("reduce", 13, 3),
    ("fusion.3", 16, 2),
)


def savings(idle: float = 0.0, late: float = 0.0, hlo: str | None = HLO) -> Savings:
    """Of three such steps on two devices, of which one comes late to the reduce."""
    period = 18 + idle + late
    spans = [
        Span(
            op,
            round((step * period + at + (late if at > 13 or (at == 13 and device) else 0)) * MS),
            round((length + (late if op == "reduce" and not device else 0)) * MS),
            device,
            line=2 * device + (op == "gather"),
        )
        for step in range(3)
        for device in (0, 1)
        for op, at, length in STEP
    ]
    markers = [
        (device, step, round(step * period * MS), round(period * MS))
        for device in (0, 1)
        for step in range(3)
    ]
    programs = {"jit_step": EmbeddedProgram("jit_step", hlo.encode)} if hlo else {}
    made = recording(spans, markers=markers, programs=programs)
    return StepData(selection=select(assemble([made], ["made"])), context=Context()).cached(
        savings_of
    )


def middle(found: Range | None) -> float:
    assert found is not None
    return (found.low + found.high) / 2


def test_a_device_as_quick_as_the_others_saves_what_nothing_hides_of_its_delay() -> None:
    # fusion.1 may take 3 longer without anybody's waiting: the gather takes that long.
    assert middle(savings().as_quick({"fusion.1": 3, "fusion.2": 2})) == pytest.approx(2)
    assert middle(savings().as_quick({"fusion.1": 4, "fusion.2": -1})) == pytest.approx(0)
    assert savings(hlo=None).as_quick({"fusion.2": 2}) is None


def test_what_nothing_hides_is_saved() -> None:
    assert middle(savings().without(["reduce"])) == pytest.approx(3)


def test_of_what_is_hidden_in_part_the_rest_is_saved() -> None:
    found = savings().without(["gather"])
    assert found is not None
    assert found.low == pytest.approx(3 * 0.95)
    # At most, 5 of compute run freely then: a collective slows down what runs beside it by 12%.
    assert found.high == pytest.approx(3 * 1.05 + 5 * 0.12)


def test_two_save_together_what_each_saves() -> None:
    found = savings().without(["gather", "reduce"])
    assert found is not None
    assert found.low == pytest.approx(6 * 0.95)


def test_compute_under_which_something_longer_runs_saves_nothing() -> None:
    assert savings().without(["fusion.1"]) == Range(0.0, 0.0)


def test_the_range_holds_the_truth_and_is_narrow_where_the_simulation_fits() -> None:
    found = savings().without(["reduce"])
    assert found is not None
    assert found.low < 3 < found.high < 3.3


def test_waiting_for_a_late_device_is_no_part_of_the_transfer() -> None:
    assert middle(savings(late=4).without(["reduce"])) == pytest.approx(3)


def test_idle_time_behind_the_program_changes_nothing() -> None:
    assert middle(savings(idle=9).without(["reduce"])) == pytest.approx(3)


def test_nobody_can_tell_of_an_instruction_that_is_not_there() -> None:
    assert savings().without(["elsewhere"]) is None


def test_nobody_can_tell_without_the_program() -> None:
    assert savings(hlo=None).without(["reduce"]) is None


def test_a_simulation_that_misses_the_measured_step_is_not_believed() -> None:
    # By this program the gather is waited for before fusion.1 starts: 23 ms instead of 18.
    started_late = list[str](HLO.replace("negate(%p)", "negate(%gather-done)").splitlines())
    done = next(line for line in started_late if "%gather-done =" in line)
    fusion = next(line for line in started_late if "%fusion.1 =" in line)
    started_late.remove(done)
    started_late.insert(started_late.index(fusion), done)
    text = "\n".join(started_late).replace("f32[256]{0} negate", "f32[512]{0} negate")
    assert savings(hlo=text).without(["reduce"]) is None


def test_beside_what_does_not_need_it_a_collective_costs_less() -> None:
    # The last piece of work needs nothing of the reduce: 2 of its 3 could go on meanwhile.
    text = HLO.replace("negate(%reduce)", "negate(%fusion.2)")
    assert middle(savings(hlo=text).beside(["reduce"])) == pytest.approx(2)


def test_work_that_needs_it_can_not_go_on() -> None:
    assert savings().beside(["reduce"]) == Range(0.0, 0.0)


def test_of_an_asynchronous_one_what_stands_behind_its_done_can_go_on() -> None:
    # fusion.2 reads the parameter instead: 3 of its 5 fit beside the rest of the gather.
    text = HLO.replace("negate(%gather-done)", "negate(%p2)").replace(
        "  %fusion.1", "  %p2 = f32[512]{0} broadcast(%p), dimensions={}\n  %fusion.1"
    )
    assert middle(savings(hlo=text).beside(["gather"])) == pytest.approx(3)


def test_of_two_the_second_of_which_needs_the_first_each_can_hide() -> None:
    # Beside the reduce fusion.3 can go on, 2 long; beside the gather nothing more.
    text = HLO.replace("negate(%reduce)", "negate(%fusion.2)")
    assert middle(savings(hlo=text).beside(["gather", "reduce"])) == pytest.approx(2)
