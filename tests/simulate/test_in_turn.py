"""Programs that run in turn are one step, with the sum of their times."""

from __future__ import annotations

import pytest

from counterpoint.cost.model import PriceFamily
from counterpoint.diagnose.explanation import explain
from counterpoint.simulate.in_turn import ProgramRuns, in_turn
from counterpoint.simulate.jitter import Jitter
from counterpoint.simulate.simulation import Simulation, simulate
from hand_made import Told, compute, done, start, straight


def gradient() -> Simulation:
    made = straight(compute("a"), start("gather"), done("gather"))
    told = Told({"a": 3, "gather": 2, "result": 0}, reach=0.1)
    return simulate(made, told, jitter=Jitter(noise=0.1, samples=8))


def update() -> Simulation:
    told = Told({"b": 1, "result": 0}, reach=0.1)
    return simulate(straight(compute("b")), told, jitter=Jitter(noise=0.1, samples=8))


def step() -> Simulation:
    runs = ProgramRuns(simulations=(gradient(), update()), order=(0, 0, 1), main=0, launch_s=0.5)
    return in_turn(runs)


def test_times_are_added_with_a_launch_between_two() -> None:
    made = step()
    assert made.step_s == pytest.approx(3 + 2 + 3 + 2 + 1 + 2 * 0.5)
    assert made.exposed_s == pytest.approx(4)
    assert made.compute_s == pytest.approx(7)
    assert made.critical_path_s == pytest.approx(8)


def test_prices_of_a_family_err_alike_in_all_programs() -> None:
    made = step()
    assert made.reach_s[PriceFamily.MATMUL] == pytest.approx((-0.7, 0.7))
    assert made.low_s == pytest.approx(made.step_s - (0.7**2 + 0.4**2) ** 0.5)


def test_the_timeline_has_the_runs_in_their_order() -> None:
    timeline = step().timeline
    runs = timeline.runs.select("program", "index", "start_ps", "end_ps").rows()
    ps = 10**12
    assert runs == [
        (0, 0, 0, 5 * ps),
        (0, 1, 5.5 * ps, 10.5 * ps),
        (1, 0, 11 * ps, 12 * ps),
    ]
    found = explain(timeline)
    assert found.steps.median_ms == pytest.approx(12_000)
    assert sorted(program.runs_per_step for program in found.programs) == [1, 2]
    assert found.breakdown is not None
    assert found.breakdown.compute_ms == pytest.approx(7_000)
    assert found.breakdown.collective_exposed_ms == pytest.approx(4_000)


def test_disturbed_steps_are_sums_too() -> None:
    made = step()
    assert made.jittered is not None
    assert made.jittered.median_s == pytest.approx(made.step_s, rel=0.3)
