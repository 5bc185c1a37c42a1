"""What holds of every simulation: bounds, order, ranges, sameness; and what it refuses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoint.core.errors import InputError, UsageError
from counterpoint.cost.model import Contention, PriceFamily, PriceSource
from counterpoint.hlo.model.program import Program
from counterpoint.simulate.jitter import Jitter
from counterpoint.simulate.simulation import simulate
from hand_made import Told, compute, done, entry, loop, program, run_loop, start, straight


@dataclass(frozen=True)
class Drawn:
    """A random schedule with random costs."""

    program: Program
    costs: Mapping[str, float]
    contention: Contention


def lines_of(tokens: list[int], prefix: str) -> tuple[list[str], list[str]]:
    """A schedule from numbers: computes, starts (some made synchronous), and dones of any open."""
    lines: list[str] = []
    names: list[str] = []
    waiting: list[str] = []
    for at, token in enumerate(tokens):
        name = f"{prefix}{at}"
        if token >= 7 and waiting:
            lines.append(done(waiting.pop(token % len(waiting))))
        elif token in (4, 5, 6):
            names.append(name)
            lines.append(start(name, sync=token == 6))
            waiting.append(name)
        else:
            names.append(name)
            lines.append(compute(name))
    return [*lines, *map(done, waiting)], names


@st.composite
def drawn(draw: st.DrawFn) -> Drawn:
    tokens = st.lists(st.integers(0, 12), max_size=12)
    before, names = lines_of(draw(tokens), "v")
    turn, inside = lines_of(draw(tokens), "w")
    after, more = lines_of(draw(tokens), "z")
    trips = draw(st.integers(0, 5))
    made = program(loop(*turn) + entry(*before, run_loop(trips), *after))
    cost = st.floats(0, 5)
    names = [*names, *inside, *more, "result"]
    return Drawn(
        made,
        {name: draw(cost) for name in names},
        Contention(draw(st.floats(0, 1)), draw(st.floats(0, 1))),
    )


@given(drawn())
def test_no_step_is_shorter_than_its_bounds(case: Drawn) -> None:
    simulation = simulate(case.program, Told(case.costs, case.contention, launch_s=1e-3))
    least = simulation.step_s * (1 + 1e-9) + 1e-9
    assert simulation.critical_path_s <= least
    assert simulation.busiest_lane_s <= least
    assert simulation.exposed_s <= least


@given(drawn(), st.data())
def test_nothing_that_gets_cheaper_makes_a_step_slower(case: Drawn, data: st.DataObject) -> None:
    cheaper = {
        name: cost * data.draw(st.sampled_from([1.0, 0.7, 0.0]))
        for name, cost in case.costs.items()
    }
    before = simulate(case.program, Told(case.costs, case.contention)).step_s
    after = simulate(case.program, Told(cheaper, case.contention)).step_s
    assert after <= before * (1 + 1e-9) + 1e-9


@given(drawn())
def test_the_same_question_has_the_same_answer(case: Drawn) -> None:
    model = Told(case.costs, case.contention, reach=0.1)
    one, other = (simulate(replace(case.program, answers={}), model) for _ in range(2))
    assert (one.step_s, one.low_s, one.high_s) == (other.step_s, other.low_s, other.high_s)
    assert one.timeline.spans.equals(other.timeline.spans)


@given(drawn())
def test_spans_on_one_stream_follow_each_other_and_end_with_the_step(case: Drawn) -> None:
    simulation = simulate(case.program, Told(case.costs, case.contention, launch_s=1e-3))
    spans = simulation.timeline.spans
    assert simulation.rests_on.get(PriceSource.ANALYTIC, 0.0) == pytest.approx(
        simulation.compute_s + simulation.communication_s
    )
    for (_,), mine in spans.group_by("line"):
        ends = mine["start_ps"] + mine["dur_ps"]
        assert (mine["start_ps"][1:] - ends[:-1] >= -8).all()
        assert (ends <= simulation.step_s * 1e12 + 1).all()
    if not case.contention.compute and not case.contention.collective:
        total = float(spans["dur_ps"].sum()) / 1e12
        assert total == pytest.approx(simulation.compute_s + simulation.communication_s)


def test_errors_of_families_are_independent_and_alike_within_one() -> None:
    made = straight(compute("a"), compute("b"), start("gather"), done("gather"))
    simulation = simulate(made, Told({"a": 3, "b": 3, "gather": 8, "result": 0}, reach=0.1))
    assert simulation.step_s == pytest.approx(14)
    assert simulation.reach_s[PriceFamily.MATMUL] == pytest.approx((-0.6, 0.6))
    assert simulation.reach_s[PriceFamily.NETWORK] == pytest.approx((-0.8, 0.8))
    assert simulation.low_s == pytest.approx(13)
    assert simulation.high_s == pytest.approx(15)


def test_how_much_slower_compute_is_beside_collectives_has_a_range_too() -> None:
    made = straight(start("gather"), compute("a"), done("gather"))
    contention = Contention(compute=0.1, reach=0.5)
    simulation = simulate(made, Told({"a": 10, "gather": 10, "result": 0}, contention))
    assert simulation.step_s == pytest.approx(10 + 10 * (1 - 1 / 1.1))
    assert simulation.low_s == pytest.approx(10 + 10 * (1 - 1 / 1.05))
    assert simulation.high_s == pytest.approx(10 + 10 * (1 - 1 / 1.15))
    assert list(simulation.reach_s) == [PriceFamily.CONTENTION]


def test_what_nothing_prices_is_listed_with_its_share() -> None:
    made = program(loop(compute("a")) + entry(run_loop(4)))
    model = Told({"a": 1, "result": 0}, reach=0.5, source=PriceSource.BOUND)
    simulation = simulate(made, model)
    [unpriced] = [one for one in simulation.unpriced if one.high_s]
    assert (simulation.step_s, simulation.high_s) == pytest.approx((4, 6))
    assert (unpriced.instruction, unpriced.times) == ("a", 4)
    assert (unpriced.low_s, unpriced.high_s) == pytest.approx((2, 6))
    assert unpriced.share == pytest.approx(1.0)  # of the longest step, never more than it


def test_collectives_wait_for_the_slowest_of_many_ranks() -> None:
    lines = [line for k in range(20) for line in (compute(f"a{k}"), start(f"g{k}"), done(f"g{k}"))]
    made = straight(*lines)

    def median(ranks: int, noise: float = 0.0, straggling: float = 0.0) -> float:
        jitter = Jitter(ranks=ranks, noise=noise, straggling=straggling)
        jittered = simulate(made, Told(), jitter=jitter).jittered
        assert jittered is not None
        assert jittered.p10_s <= jittered.median_s <= jittered.p90_s
        return jittered.median_s

    still = simulate(made, Told()).step_s
    assert median(1, noise=0.0) == pytest.approx(still)
    assert still < median(8, noise=0.02) < median(1024, noise=0.02) < 1.1 * still
    # The slowest of a thousand is about 3.2 standard deviations slow; half the step is compute.
    assert median(1024, straggling=0.01) == pytest.approx(still * 1.017, rel=0.005)
    assert median(8, noise=0.02) == median(8, noise=0.02)
    with pytest.raises(UsageError):
        Jitter(ranks=0)


def test_a_program_that_was_not_scheduled_is_refused() -> None:
    with pytest.raises(InputError, match="is not scheduled"):
        simulate(program(entry(compute("a")), scheduled=False), Told())


def test_a_program_that_launches_nothing_is_refused() -> None:
    empty = program("ENTRY main {\n  ROOT p = f32[8] parameter(0)\n}\n")
    with pytest.raises(InputError, match="launches no work"):
        simulate(empty, Told())


def test_times_that_no_timeline_holds_are_refused() -> None:
    with pytest.raises(InputError, match="longer than a"):
        simulate(straight(compute("a")), Told({"a": 1e9}))
