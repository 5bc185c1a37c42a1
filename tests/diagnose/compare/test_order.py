"""The order of runs: a drift of the machine is no change of the program."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import permutations

import pytest

from counterpoint.core.basis import Basis, Range
from counterpoint.diagnose.compare.order import order_of
from counterpoint.diagnose.compare.step_time import RunSteps, StepChange, StepVerdict, step_change

NOISE = (0.0005, -0.001, 0.0008, 0.0, -0.0006, 0.0003)


def study(order: str, *, drift: float = 0.0, change: float = 0.0, noise: float = 1.0) -> StepChange:
    """Runs in this order, each so much slower than the one before, and B's by the change."""
    sides: dict[str, list[RunSteps]] = {"A": [], "B": []}
    for at, side in enumerate(order):
        level = 1 + drift * at + NOISE[at % 6] * noise + change * (side == "B")
        sides[side].append(RunSteps((level,) * 3, "log", Basis.MEASURED, started=60.0 * at))
    found = step_change(sides["A"], sides["B"])
    assert isinstance(found, StepChange)
    return found


def test_blocks_under_a_drift_are_not_decided() -> None:
    for drift in (0.003, 0.02, -0.02):
        found = study("AAABBB", drift=drift)
        assert found.verdict is StepVerdict.OPEN
        assert not found.slower_by_more_than(0.0, "")
    assert found.order is not None
    assert found.order.in_blocks


@pytest.mark.parametrize("order", ["ABBAAB", "ABAB", "ABBA", "AABB", "AAABBB", "AAAB"])
def test_the_order_alone_decides_how_much_a_drift_may_add(order: str) -> None:
    found = study(order)
    assert found.order is not None
    assert found.order.text == order
    assert found.order.later == pytest.approx(
        {"ABBAAB": 1 / 3, "ABBA": 0, "ABAB": 1, "AABB": 2, "AAABBB": 3, "AAAB": 2}[order]
    )
    assert found.order.in_blocks is (order in {"AABB", "AAABBB", "AAAB"})


def test_a_change_is_found_in_blocks_too_where_it_is_larger_than_a_drift() -> None:
    assert study("AAABBB", change=0.05).slower_by_more_than(0.02, "")
    assert study("BBBAAA", change=-0.05).verdict is StepVerdict.FASTER


def test_a_drift_hides_no_change_from_the_gate_in_turns() -> None:
    for drift in (0.02, -0.02):
        assert study("ABBAAB", change=0.05, drift=drift).slower_by_more_than(0.02, "")
        assert not study("ABBAAB", drift=drift).slower_by_more_than(0.0, "")
        assert not study("AAABBB", change=0.05, drift=drift).slower_by_more_than(0.02, "")


def test_the_range_is_wider_by_the_least_drift() -> None:
    # No noise at all: B is three runs later, so 0.3% a run are 0.9%.
    found = study("AAABBB", change=0.05, noise=0.0)
    assert isinstance(found.range, Range)
    assert found.range.low == pytest.approx(1.05 * (1 - 0.009) - 1, abs=1e-4)
    assert study("ABBA", change=0.05, noise=0.0).surely_above == pytest.approx(0.05)


def test_runs_whose_start_is_not_known_have_no_order() -> None:
    assert order_of([1.0, None], [2.0, 3.0]) is None
    assert order_of([1.0, 2.0], [2.0, 3.0]) is None
    runs = [RunSteps((1.0,) * 3, "profile", Basis.MEASURED)] * 2
    found = step_change(runs, runs)
    assert isinstance(found, StepChange)
    assert found.order is None


ORDERS = sorted({"".join(it) for it in permutations("AAABBB")})


@pytest.mark.parametrize("drift", [0.0, 0.003])
def test_equal_pairs_fail_a_gate_in_one_of_fifty_at_most_in_each_order(drift: float) -> None:
    chance = random.Random(1)  # noqa: S311 (no secret)
    pairs = 100
    failed = 0
    for order in ORDERS:
        for _ in range(pairs):
            sides: dict[str, list[RunSteps]] = {"A": [], "B": []}
            for at, side in enumerate(order):
                level = 1 + drift * at + chance.gauss(0, 0.006)
                steps = RunSteps((level,) * 3, "log", Basis.MEASURED)
                sides[side].append(replace(steps, started=60.0 * at))
            found = step_change(sides["A"], sides["B"])
            assert isinstance(found, StepChange)
            failed += found.slower_by_more_than(0.0, "")
    assert failed / pairs / len(ORDERS) <= 0.02
