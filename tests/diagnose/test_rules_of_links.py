"""STEP106 and STEP107: what the links rule out. The network analysis tells it, and is tested apart.

          0      5      9      13
main      work.1 reduce work.2
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from made_step import Work, hlo, made, negate, reduce, told

from counterpoint.core.basis import Basis, Range
from counterpoint.diagnose.collectives.requirement import Bound
from counterpoint.diagnose.rules import bandwidth_bound, latency_bound
from counterpoint.diagnose.step_data import StepData
from golden_sections import Said

HLO = hlo(negate("work.1", "p"), reduce("reduce", "work.1"), root=negate("work.2", "reduce"))
STEP: list[Work] = [("work.1", 0, 5), ("reduce", 5, 4), ("work.2", 9, 4)]
WHY = "48 of 50 GB/s"


def case(bound: Bound | None, movable_ms: float = 0.0) -> StepData:
    found = made(HLO, STEP, 13, flags={}, jaxlib="0.10.2")
    row = {"bound": bound, "why": WHY, "movable_ms": movable_ms}
    return told(found, reduce=row)


def in_environment(environment: Mapping[str, str]) -> StepData:
    found = case(Bound.LATENCY)
    context = replace(found.context, environment=environment)
    return told(replace(found, context=context), reduce={"bound": Bound.LATENCY, "why": WHY})


def test_half_the_bytes_save_at_most_half_of_what_bandwidth_binds(said: Said) -> None:
    (found,) = bandwidth_bound.check(case(Bound.BANDWIDTH))
    assert WHY in found.detail
    assert isinstance(found.saves_ms, Range)
    assert (found.saves_ms.low, found.saves_ms.high) == (0.0, pytest.approx(2.0, rel=0.06))
    assert found.basis is Basis.PREDICTED
    assert [it.what for it in found.evidence] == ["reduce"]
    said(found)


def test_of_what_latency_binds_all_may_be_saved(said: Said) -> None:
    (found,) = latency_bound.check(case(Bound.LATENCY))
    assert WHY in found.detail
    assert found.saves_ms == Range(0.0, 4.0)
    said(found)


@pytest.mark.parametrize("bound", [None, Bound.SCHEDULE, Bound.HIDDEN, Bound.UNKNOWN])
def test_without_such_a_bound_both_are_silent(bound: Bound | None) -> None:
    assert not [*bandwidth_bound.check(case(bound)), *latency_bound.check(case(bound))]


def test_each_speaks_of_its_own() -> None:
    assert not list(latency_bound.check(case(Bound.BANDWIDTH)))
    assert not list(bandwidth_bound.check(case(Bound.LATENCY)))


def test_what_the_scheduler_could_hide_is_left_to_another_rule() -> None:
    assert not list(bandwidth_bound.check(case(Bound.BANDWIDTH, movable_ms=3.0)))


@pytest.mark.parametrize(("name", "value"), [("NCCL_NVLS_ENABLE", "0"), ("NCCL_PROTO", "Simple")])
def test_variables_that_forbid_fast_paths_are_named(name: str, value: str) -> None:
    (found,) = latency_bound.check(in_environment({name: value}))
    assert f"{name}={value} " in found.remedy.text


def test_large_ones_are_not_called_small_and_need_fewer_ranks(said: Said) -> None:
    size = 1 << 20
    text = hlo(
        negate("work.1", "p", size),
        reduce("reduce", "work.1", size),
        root=negate("work.2", "reduce", size),
        size=size,
    )
    found = told(made(text, STEP, 13, flags={}), reduce={"bound": Bound.LATENCY, "why": WHY})
    (found,) = latency_bound.check(found)
    assert "small" not in found.title
    said(found)


def test_of_a_chain_nothing_can_be_merged(said: Said) -> None:
    text = hlo(
        reduce("reduce.1", "p"),
        negate("work.1", "reduce.1"),
        reduce("reduce.2", "work.1", channel=2),
        root=negate("work.2", "reduce.2"),
    )
    step = [("reduce.1", 0, 4.0), ("work.1", 4, 5.0), ("reduce.2", 9, 4.0), ("work.2", 13, 5.0)]
    bound = {"bound": Bound.LATENCY, "why": WHY, "wire_bytes": 512.0}
    case = told(made(text, step, 18, flags={}), **{"reduce.1": bound, "reduce.2": bound})
    (found,) = latency_bound.check(case)
    assert "2 of them form a chain" in found.detail
    said(found)


def test_the_rest_of_a_tiny_one_that_waits_is_bound_by_latency() -> None:
    row = {
        "bound": Bound.LATE_RANK,
        "own_bound": Bound.LATENCY,
        "why": WHY,
        "wire_bytes": 512.0,
    }
    assert list(latency_bound.check(told(made(HLO, STEP, 13, flags={}), reduce=row)))
    large = {**row, "wire_bytes": 5e8}
    assert not list(latency_bound.check(told(made(HLO, STEP, 13, flags={}), reduce=large)))


def test_it_is_not_latency_where_another_of_that_size_is_far_faster() -> None:
    text = hlo(
        negate("work.1", "p"),
        reduce("slow", "work.1"),
        negate("work.2", "slow"),
        reduce("quick", "work.2", channel=2),
        root=negate("work.3", "quick"),
    )
    work: list[Work] = [("work.1", 0, 5), ("slow", 5, 4), ("work.2", 9, 4), ("quick", 13, 0.1),
                        ("work.3", 14, 4)]  # fmt: skip
    row = {"bound": Bound.LATENCY, "why": "its start takes the time"}
    (found,) = latency_bound.check(told(made(text, work, 18, flags={}), slow=row))
    assert "quick sends no less among as many ranks in 0.1" in found.detail
    assert "its start takes the time" not in found.detail
