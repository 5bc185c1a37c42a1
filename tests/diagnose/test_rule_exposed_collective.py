"""STEP101: asynchronous collectives that their device waits for.

Milliseconds; the reduce takes 8, of which 5 run beside work.2:

              0      5       10   13     18 20
    compute   work.1 work.2       work.3 work.4
    reduce           =============
"""

from __future__ import annotations

import pytest
from made_step import Work, hlo, made, negate, reduce_done, reduce_start, told

from counterpoint.core.basis import Basis, Range
from counterpoint.diagnose.collectives.requirement import Bound
from counterpoint.diagnose.explanation import judge
from counterpoint.diagnose.finding import Finding
from counterpoint.diagnose.rules import exposed_collective
from counterpoint.diagnose.step_data import StepData
from golden_sections import Said

HLO = hlo(
    negate("work.1", "p"),
    reduce_start("start", "work.1"),
    negate("work.2", "work.1"),
    reduce_done("done", "start"),
    negate("work.3", "done"),
    root=negate("work.4", "work.3"),
)
LHS = "xla_gpu_enable_latency_hiding_scheduler"


def step(reduce_ms: float) -> list[Work]:
    ready = max(10.0, 5 + reduce_ms)
    return [
        ("work.1", 0, 5),
        ("start", 5, reduce_ms),
        ("work.2", 5, 5),
        ("work.3", ready, 5),
        ("work.4", ready + 5, 2),
    ]


def case(reduce_ms: float = 8, movable_ms: float | None = None, text: str | None = HLO) -> StepData:
    found = made(text, step(reduce_ms), 20, beside=["start"])
    return told(found, start={"movable_ms": movable_ms, "bound": Bound.SCHEDULE})


def ask(case: StepData) -> list[Finding]:
    return list(exposed_collective.check(case))


def test_what_is_not_hidden_is_found_with_what_it_costs(said: Said) -> None:
    (found,) = ask(case())
    assert found.saves_ms == Range(0.0, 3.0)
    assert found.basis is Basis.PREDICTED
    assert [(it.what, it.ms) for it in found.evidence] == [("start", pytest.approx(3))]
    assert found.evidence[0].spans
    said(found)


def test_independent_work_that_could_go_on_meanwhile_bounds_the_saving(said: Said) -> None:
    # 2 ms of other work stand behind the done: that much could be hidden, of 3 exposed.
    text = HLO.replace("negate(%work.3)", "negate(%p)")
    found = made(text, step(8), 20, beside=["start"])
    (one,) = ask(told(found, start={"movable_ms": 2.0, "bound": Bound.SCHEDULE}))
    assert isinstance(one.saves_ms, Range)
    assert (one.saves_ms.low, one.saves_ms.high) == (0.0, pytest.approx(2))
    assert "would gain 1.90 to 2.00 ms" in one.detail
    said(one)


def test_a_single_execution_has_no_mean() -> None:
    found = made(HLO, step(8), 20, steps=1, beside=["start"])
    (one,) = ask(told(found, start={"movable_ms": 0.0, "bound": Bound.SCHEDULE}))
    assert "in one execution" in one.detail
    assert "Its transfer, 8 ms, is longer" in one.detail


def test_where_all_behind_it_needs_it_no_scheduler_is_called_for(said: Said) -> None:
    (found,) = ask(case(movable_ms=0.0))
    assert "fewer bytes" in found.remedy.text
    assert "earlier" not in found.remedy.text
    assert found.remedy.flags == ()
    said(found)


def test_the_scheduler_is_asked_for_where_nobody_knows_that_it_ran() -> None:
    (found,) = ask(case())
    assert found.remedy.flags == ((LHS, "true"),)


def test_without_hlo_the_saving_is_bounded_by_what_is_exposed() -> None:
    found = ask(case(text=None))
    assert all(it.doubt for it in found)
    assert [it.basis for it in found] == [Basis.MEASURED] * len(found)


def test_what_is_hidden_is_not_found() -> None:
    assert not ask(case(reduce_ms=5))


def test_a_hundredth_of_the_step_is_not_worth_a_word() -> None:
    assert not [it for it in judge(case(reduce_ms=5.15))[0] if it.code == exposed_collective.CODE]


def test_waiting_for_a_late_device_is_no_exposure_of_the_schedule() -> None:
    def late(device: int, number: int) -> list[Work]:
        del number
        shift = 3 * device
        return [
            ("work.1", shift, 5),
            ("start", 5 + shift, 8 - shift),
            ("work.2", 5 + shift, 5),
            ("work.3", 13, 5),
            ("work.4", 18, 2),
        ]

    assert not ask(made(HLO, late, 20, beside=["start"]))


def test_waits_for_devices_that_were_not_read_are_no_transfer(said: Said) -> None:
    """The program runs on four devices, and the profile of one process has two of them."""
    (found,) = ask(case(text=HLO.replace("num_partitions=2", "num_partitions=4")))
    assert "may be waiting for one that comes late" in found.detail
    assert found.basis is Basis.MEASURED
    (whole,) = ask(case())
    assert "comes late" not in whole.detail
    said(found)
