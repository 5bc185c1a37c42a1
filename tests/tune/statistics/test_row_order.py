"""Rows run in random orders, some of them there and back, so that no load has their rhythm."""

from __future__ import annotations

import math
from collections import Counter

import pytest

from counterpoint.tune.arm import BASE
from counterpoint.tune.race.rows import row_order
from counterpoint.tune.statistics.estimate import ArmVerdict, DecisionRule, Observation
from counterpoint.tune.statistics.fit import estimates

NAMES = ["x", "y", "z"]


def test_a_row_has_everybody_once() -> None:
    assert sorted(row_order(["x", BASE, "y"], 0, seed=0)) == sorted([BASE, "x", "y"])


def test_the_seed_and_the_row_make_the_order() -> None:
    orders = {(seed, row): row_order(NAMES, row, seed) for seed in range(9) for row in range(9)}
    assert orders == {(seed, row): row_order(NAMES, row, seed) for seed, row in orders}
    assert len(set(orders.values())) > 20  # of 24


def test_half_of_the_even_rows_run_back() -> None:
    back = [
        row_order(NAMES, row + 1, seed=4) == row_order(NAMES, row, seed=4)[::-1]
        for row in range(200)
    ]
    assert 40 < sum(back[1::2]) < 65
    assert sum(back[::2]) < 12  # by chance


def test_all_places_are_as_likely() -> None:
    first = Counter(row_order(NAMES, row, seed=1)[0] for row in range(1000))
    assert all(200 < first[name] < 300 for name in (BASE, *NAMES))


@pytest.mark.parametrize("row", range(20))
def test_an_arm_that_leaves_does_not_move_the_others(row: int) -> None:
    left = tuple(name for name in row_order(NAMES, row, seed=3) if name != "y")
    assert row_order(["x", "z"], row, seed=3) == left


def seen(load: list[float], seed: int) -> list[Observation]:
    """Six rows of equal arms, under a load of each trial."""
    trials = iter(load)
    return [
        Observation(name, row, math.exp(next(trials)))
        for row in range(1, 7)
        for name in row_order(["x"], row, seed)
    ]


@pytest.mark.parametrize("period", range(2, 10))
def test_no_rhythm_makes_a_gain(period: int) -> None:
    """With a fixed order, each of these studies would say the same."""
    load = [0.02 * math.sin(2 * math.pi * (trial + 0.5) / period) for trial in range(12)]
    verdicts = [estimates(seen(load, seed), DecisionRule())[0].verdict for seed in range(60)]
    assert sum(it is ArmVerdict.FASTER for it in verdicts) <= 5
    gains = [estimates(seen(load, seed), DecisionRule())[0].gain for seed in range(60)]
    assert abs(sum(gains) / len(gains)) < 0.006


def test_no_arm_gains_by_a_drift_on_average() -> None:
    load = [0.01 * trial for trial in range(12)]
    gains = [estimates(seen(load, seed), DecisionRule())[0].gain for seed in range(60)]
    assert abs(sum(gains) / len(gains)) < 0.003
