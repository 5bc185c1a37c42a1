"""Base and arms take turns so that a steady drift of the machine cancels."""

from __future__ import annotations

import pytest

from counterpoint.tune.arm import BASE
from counterpoint.tune.race.rows import row_order
from counterpoint.tune.statistics.estimate import DecisionRule, Observation
from counterpoint.tune.statistics.fit import estimates


def test_two_rows_of_one_arm_are_abba() -> None:
    assert (*row_order(["x"], 0), *row_order(["x"], 1)) == (BASE, "x", "x", BASE)


def test_two_rows_of_several_arms_are_a_palindrome() -> None:
    both = (*row_order(["x", "y"], 4), *row_order(["x", "y"], 5))
    assert both == (BASE, "x", "y", "y", "x", BASE)


def test_the_base_leads_wherever_it_is_named() -> None:
    assert row_order(["x", BASE], 0) == (BASE, "x")


def test_no_arm_gains_by_a_drift() -> None:
    names, slower, seen = ["x", "y", "z"], 1.0, list[Observation]()
    for row in range(4):
        for name in row_order(names, row):
            seen.append(Observation(name, row, slower))
            slower *= 1.01
    for it in estimates(seen, DecisionRule(arms=3)):
        assert it.gain == pytest.approx(0.0, abs=1e-12)
