"""Simulated studies under loads of the machine; benchmarks/tune_loads.py makes many more."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from counterpoint.tune.plan import StudyPlan

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

from simulated_loads import IID, LOADS, Load
from simulated_races import FIRST, raced


def winners(load: Load, gains: tuple[float, ...], studies: int) -> list[str | None]:
    return [
        raced(load, gains, StudyPlan(seed=number), np.random.default_rng((5, number))).winner
        for number in range(studies)
    ]


def named(name: str) -> Load:
    return next(load for load in LOADS if load.name == name)


@pytest.mark.system
def test_a_load_with_the_rhythm_of_the_rows_makes_no_winner() -> None:
    """In a fixed order, 5 of 12 such studies confirmed a gain."""
    won = winners(named("sine, 2%, 4 trials"), (0.0,), 20)
    assert sum(it is not None for it in won) <= 1


@pytest.mark.system
def test_five_per_cent_are_found_where_runs_differ_by_two() -> None:
    assert winners(IID, (0.05, 0.0, 0.0), 30).count(FIRST) >= 25
