"""Simulated studies with fixed seeds, few of them: benchmarks/tune_statistics.py makes many."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from counterpoint.core.basis import Range
from counterpoint.tune.statistics.estimate import ArmVerdict, DecisionRule

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

from simulated_runs import MACHINES, Machine
from simulated_studies import Outcome, full_rows, naive, study

SHARED, UNSHARED = MACHINES[0], MACHINES[1]


def studies(machine: Machine, arms: int, gain: float, number: int) -> list[Outcome]:
    gains = [gain, *[0.0] * (arms - 1)]
    return [
        study(machine, gains, DecisionRule(arms=arms), np.random.default_rng((arms, seed)))
        for seed in range(number)
    ]


@pytest.mark.system
@pytest.mark.parametrize("machine", [SHARED, UNSHARED], ids=lambda it: it.name)
def test_noise_is_hardly_ever_called_a_win(machine: Machine) -> None:
    outcomes = studies(machine, 8, 0.0, 150)
    assert sum(it.claimed is not None for it in outcomes) <= 7
    raced = [any(e.verdict is ArmVerdict.FASTER for e in it.raced.values()) for it in outcomes]
    assert sum(raced) <= 12


@pytest.mark.parametrize("arms", [1, 8])
def test_two_per_cent_are_found_with_four_rows(arms: int) -> None:
    outcomes = studies(SHARED, arms, 0.02, 60)
    assert sum(it.claimed == "1" for it in outcomes) >= 57
    assert not any(it.raced["1"].verdict is ArmVerdict.SAME for it in outcomes)


def test_no_effect_is_what_most_studies_of_nothing_say() -> None:
    outcomes = studies(SHARED, 1, 0.0, 60)
    assert sum(it.raced["1"].verdict is ArmVerdict.SAME for it in outcomes) >= 40


@pytest.mark.system
def test_no_effect_within_so_much_is_true() -> None:
    said = [it.raced["1"] for it in studies(UNSHARED, 8, 0.01, 100)]
    same = [it for it in said if it.verdict is ArmVerdict.SAME]
    assert same
    wrong = [it for it in same if isinstance(it.range, Range) and it.range.high < 0.01]
    assert len(wrong) <= 5


def test_tests_on_steps_call_noise_a_win() -> None:
    """On the same runs; so that the tables beside ours compare what they say they do."""
    gains, rule = [0.0] * 8, DecisionRule(arms=8)
    found = naive(
        [full_rows(UNSHARED, gains, rule, np.random.default_rng((8, seed))) for seed in range(20)]
    )
    for test in ("step Welch", "step Mann-Whitney"):
        assert int((found[test] < 0.025 / 8).any(axis=1).sum()) >= 8
