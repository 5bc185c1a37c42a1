"""Which of two predictions is better, and when it is unknown whether."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import cast

import pytest

from counterpoint.core.errors import UsageError
from counterpoint.cost.model import PriceFamily
from counterpoint.flags.settings import Settings
from counterpoint.hlo.model.program import Program
from counterpoint.hlo.reader import read_program
from counterpoint.simulate.simulation import Simulation
from counterpoint.timeline.model import Timeline
from counterpoint.workflow.forecast.ranking import (
    Forecast,
    MemoryFit,
    RankedCandidate,
    difference,
    ranked,
    simplest,
)
from timelines import HLO

PROGRAM = read_program(HLO.encode())
OTHER = read_program(HLO.replace("fusion.2", "fusion.22").encode())


def simulated(step_s: float, reach: Mapping[PriceFamily, tuple[float, float]]) -> Simulation:
    return Simulation(
        draw=lambda: cast(Timeline, None),
        step_s=step_s,
        low_s=0.9 * step_s,
        high_s=1.1 * step_s,
        reach_s=reach,
        rests_on={},
        exposed_s=0.0,
        communication_s=0.0,
        communicating_s=0.0,
        compute_s=step_s,
        unpriced=(),
        uncounted=(),
        critical_path_s=step_s,
        busiest_lane_s=step_s,
        jittered=None,
        notes=(),
    )


def standing(
    name: str,
    step_s: float,
    reach: Mapping[PriceFamily, tuple[float, float]],
    *,
    program: Program = OTHER,
    peak: int = 10,
) -> RankedCandidate:
    memory = MemoryFit(peak_bytes=peak, memory_bytes=100, fraction=0.75, fraction_source="a test")
    made = Forecast(
        name=name,
        settings=Settings(),
        program=program,
        simulation=simulated(step_s, reach),
        memory=memory,
    )
    return RankedCandidate(name=name, settings=Settings(), forecast=made, is_base=name == "base")


def test_errors_that_both_share_cancel() -> None:
    gemms = {PriceFamily.MATMUL: (-0.1, 0.1)}
    found = difference(simulated(1.05, gemms), simulated(1.0, gemms))
    assert (found.low, found.high) == pytest.approx((0.05, 0.05))


def test_errors_of_what_only_one_does_count_in_full() -> None:
    found = difference(simulated(1.05, {PriceFamily.NETWORK: (-0.04, 0.03)}), simulated(1.0, {}))
    assert (found.low, found.high) == pytest.approx((0.01, 0.08))


def test_a_clear_difference_within_wide_ranges_is_no_tie() -> None:
    gemms = {PriceFamily.MATMUL: (-0.1, 0.1)}
    order = ranked([standing("slow", 1.05, gemms), standing("fast", 1.0, gemms)])
    assert [(it.name, it.tied) for it in order] == [("fast", True), ("slow", False)]
    assert order[1].behind == pytest.approx(0.05)


def test_a_difference_that_may_be_nothing_is_a_tie() -> None:
    order = ranked(
        [standing("fast", 1.0, {}), standing("slow", 1.03, {PriceFamily.NETWORK: (-0.02, 0.02)})]
    )
    assert [it.tied for it in order] == [True, True]


def test_what_does_not_fit_comes_behind_and_errors_come_last() -> None:
    broken = replace(standing("broken", 0.1, {}), forecast=None, error=UsageError("no such flag"))
    order = ranked([broken, standing("large", 0.5, {}, peak=90), standing("slow", 1.0, {})])
    assert [it.name for it in order] == ["slow", "large", "broken"]
    assert not order[1].tied


def test_the_same_schedule_is_said_to_be_the_same_program() -> None:
    order = ranked(
        [
            standing("base", 1.0, {}, program=PROGRAM),
            standing("idle flag", 1.0, {}, program=PROGRAM),
        ]
    )
    assert order[1].same_as == "base"
    assert order[1].tied


def test_of_tied_candidates_the_one_that_changes_least_is_named() -> None:
    def with_flags(name: str, step_s: float, count: int) -> RankedCandidate:
        flags = tuple((f"xla_gpu_{at}", "1") for at in range(count))
        return replace(standing(name, step_s, {}), settings=Settings(flags))

    base = replace(standing("base", 1.0, {}), is_base=True)
    found = ranked([base, with_flags("three", 0.900, 3), with_flags("one", 0.902, 1)])
    assert [it.name for it in found] == ["three", "one", "base"]
    named = simplest(found)
    assert named is not None
    assert named.name == "one"
    assert simplest(ranked([base, with_flags("one", 0.9, 1)])) is None, "nothing is tied"
