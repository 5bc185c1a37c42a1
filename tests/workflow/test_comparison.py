"""Noise is no win: what may be said of runs with and without a change."""

from __future__ import annotations

import random

import pytest

from counterpoint.core.basis import Range, Unknown
from counterpoint.workflow.feedback.run_comparison import (
    RunComparison,
    SpeedVerdict,
    abba_order,
    compare_runs,
)


def compared(without: list[float], with_: list[float]) -> RunComparison:
    found = compare_runs(without, with_)
    assert isinstance(found, RunComparison)
    return found


def test_one_pair_gives_a_change_and_no_verdict() -> None:
    found = compared([1.0], [0.9])
    assert found.change == pytest.approx(-0.1)
    assert isinstance(found.range, Unknown)
    assert "1.3%" in found.range.reason
    assert found.verdict is SpeedVerdict.OPEN


def test_a_steady_gain_is_faster_and_a_steady_loss_slower() -> None:
    without = [1.000, 1.004, 0.998, 1.001]
    assert compared(without, [a * 0.97 for a in without]).verdict is SpeedVerdict.FASTER
    assert compared(without, [a * 1.03 for a in without]).verdict is SpeedVerdict.SLOWER


def test_a_change_within_half_a_percent_is_none() -> None:
    found = compared([1.0, 1.0, 1.0, 1.0], [1.0005, 0.9995, 1.0003, 0.9998])
    assert found.verdict is SpeedVerdict.SAME


def test_noise_is_not_decided() -> None:
    assert compared([1.0, 1.02, 0.99], [1.01, 1.00, 0.97]).verdict is SpeedVerdict.OPEN


def test_the_range_is_students_of_the_paired_logs() -> None:
    # By hand: logs 0.00995, 0.02956, 0.04879; mean 0.02943, sd 0.01942, t(2) 4.30265.
    found = compared([1.0, 1.0, 1.0], [1.01, 1.03, 1.05])
    assert isinstance(found.range, Range)
    assert found.change == pytest.approx(0.029870, abs=1e-5)
    assert found.range.low == pytest.approx(-0.01862, abs=2e-4)
    assert found.range.high == pytest.approx(0.08072, abs=2e-4)


def test_runs_that_differ_by_noise_alone_are_called_different_in_one_of_twenty_studies() -> None:
    chance = random.Random(7)  # noqa: S311 (no secret)
    called = 0
    for _ in range(400):
        runs = [[chance.gauss(1.0, 0.006) for _ in range(4)] for _ in range(2)]
        called += compared(*runs).verdict in (SpeedVerdict.FASTER, SpeedVerdict.SLOWER)
    assert called / 400 < 0.08


@pytest.mark.parametrize(("without", "with_"), [([], []), ([1.0], []), ([1.0], [1.0, 1.0])])
def test_without_pairs_nothing_is_known(without: list[float], with_: list[float]) -> None:
    assert isinstance(compare_runs(without, with_), Unknown)


def test_a_drift_falls_on_both_alike() -> None:
    assert abba_order(2) == (False, True, True, False)
    assert abba_order(1) == (False, True)
    turns = abba_order(4)
    drift = [place for place, turn in enumerate(turns) if turn]
    assert sum(drift) == sum(range(8)) / 2
