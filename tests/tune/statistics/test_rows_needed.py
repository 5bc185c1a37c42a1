"""How many rows a gain takes: against simulated paired tests."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from counterpoint.core.basis import Unknown
from counterpoint.tune.statistics.estimate import DecisionRule, RunNoise, rows_needed

ONCE = DecisionRule(looks=(), arms=1)


def of(sigma: float) -> RunNoise:
    return RunNoise(sigma=sigma, freedom=5, floor=2 * sigma)


@pytest.mark.parametrize(("sigma", "gain"), [(0.002, 0.005), (0.009, 0.02), (0.013, 0.01)])
def test_nine_of_ten_studies_see_it_and_no_fewer_rows_do(sigma: float, gain: float) -> None:
    rows = rows_needed(of(sigma), gain, ONCE)
    assert isinstance(rows, int)
    rng = np.random.default_rng(1)
    seen: list[float] = []
    for number in (rows - 1, rows):
        logs = rng.normal(math.log1p(-gain), sigma, (20000, number))
        t = logs.mean(1) / (logs.std(1, ddof=1) / math.sqrt(number))
        seen.append(float((t < stats.t.ppf(0.025, number - 1)).mean()))
    assert seen[0] < 0.9 + 0.01
    assert seen[1] > 0.9 - 0.01


def test_more_arms_more_looks_less_gain_and_more_noise_take_more_rows() -> None:
    plain = rows_needed(of(0.01), 0.01, ONCE)
    assert isinstance(plain, int)
    for noise, gain, rule in (
        (of(0.01), 0.01, DecisionRule(looks=(), arms=20)),
        (of(0.01), 0.01, DecisionRule(looks=(2, 4, 6), arms=1)),
        (of(0.01), 0.005, ONCE),
        (of(0.02), 0.01, ONCE),
    ):
        more = rows_needed(noise, gain, rule)
        assert isinstance(more, int)
        assert more > plain


def test_a_large_gain_takes_two_rows() -> None:
    assert rows_needed(of(0.001), 0.3, ONCE) == 2


def test_a_loss_takes_as_many() -> None:
    assert rows_needed(of(0.01), -0.0101, ONCE) == rows_needed(of(0.01), 0.01, ONCE)


def test_what_can_not_be_said() -> None:
    unknown = RunNoise(sigma=Unknown("no run was repeated"), freedom=0, floor=0.013)
    for noise, gain in ((unknown, 0.01), (of(0.01), 0.0), (of(0.01), 1e-5), (of(0.01), 1.5)):
        assert isinstance(rows_needed(noise, gain, ONCE), Unknown)
