"""Where a warm-up ends, on simulated step times whose answer is known."""

from __future__ import annotations

import math
import re

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as some

from counterpoint.core.basis import Unknown
from counterpoint.runs.steady import ENOUGH, Steady, steady

Series = npt.NDArray[np.float64]
SEEDS = range(8)


def noise(seed: int, count: int, sigma: float = 0.004, spikes: float = 0.03) -> Series:
    """Steps that depend on the one before (0.6), some of them stalled."""
    random = np.random.default_rng(seed)
    wander = np.zeros(count)
    for at in range(1, count):
        wander[at] = 0.6 * wander[at - 1] + random.normal(0, 0.8 * sigma)
    stalled = random.random(count) < spikes
    return np.exp(wander + stalled * random.exponential(0.3, count))


def of(series: Series) -> Steady:
    found = steady([float(it) for it in series], "annotation")
    assert isinstance(found, Steady), found
    return found


def why_not(series: Series) -> str:
    found = steady([float(it) for it in series], "annotation")
    assert isinstance(found, Unknown), found
    return found.reason


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("count", [20, 50, 300])
def test_a_run_without_warm_up_is_used_whole(seed: int, count: int) -> None:
    found = of(noise(seed, count))
    assert (found.warm_up, found.steps, found.notes) == (0, count, ())
    assert found.median_s == pytest.approx(1, rel=0.01)
    assert found.source == "annotation"


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("count", "slower"), [(8, 1.3), (20, 1.1), (30, 3.0)])
def test_a_warm_up_is_left_out(seed: int, count: int, slower: float) -> None:
    series = noise(seed, 60)
    series[:count] *= slower
    found = of(series)
    assert abs(found.warm_up - count) <= 1
    assert found.median_s == pytest.approx(1, rel=0.01)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_better_program_in_the_middle_counts_from_there(seed: int) -> None:
    """As AutoPGLE makes one, a few steps into the run."""
    series = noise(seed, 80)
    series[:40] *= 1.04
    found = of(series)
    assert abs(found.warm_up - 40) <= 1
    assert found.median_s == pytest.approx(1, rel=0.01)


@pytest.mark.parametrize("seed", SEEDS)
def test_single_spikes_begin_no_level(seed: int) -> None:
    series = noise(seed, 60, spikes=0)
    series[[9, 30, 45, 46]] *= 6
    found = of(series)
    assert (found.warm_up, found.steps) == (0, 60)
    assert found.median_s == pytest.approx(1, rel=0.01)
    assert found.spread < 0.02


@pytest.mark.parametrize("seed", SEEDS)
def test_steps_of_two_kinds_are_no_levels(seed: int) -> None:
    random = np.random.default_rng(seed)
    found = of(noise(seed, 60) * np.where(random.random(60) < 0.4, 1.3, 1.0))
    assert found.warm_up == 0
    assert 1 <= found.median_s <= 1.31


@pytest.mark.parametrize("seed", SEEDS)
def test_a_warm_up_that_fades_is_left_out_as_far_as_it_counts(seed: int) -> None:
    found = of(noise(seed, 80, spikes=0) * (1 + np.exp(-np.arange(80) / 4)))
    assert found.warm_up >= 5
    assert found.median_s == pytest.approx(1, rel=0.015)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("drift", [0.1, -0.1, 0.3])
@pytest.mark.parametrize("count", [60, 200])
def test_what_drifts_on_has_no_step_time(seed: int, drift: float, count: int) -> None:
    assert "settle" in why_not(noise(seed, count) * np.exp(np.linspace(0, drift, count)))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_small_drift_does_not_count(seed: int) -> None:
    found = of(noise(seed, 60) * np.exp(np.linspace(0, 0.01, 60)))
    assert found.median_s == pytest.approx(1.005, rel=0.01)


def test_another_pace_at_the_end_did_not_settle() -> None:
    series = noise(1, 60)
    series[52:] *= 1.3
    reason = why_not(series)
    assert "did not settle" in reason
    assert "8 steps" in reason
    assert "slower" in reason


def test_a_slightly_other_pace_at_the_end_is_said() -> None:
    series = noise(1, 60, spikes=0)
    series[54:] *= 1.03
    found = of(series)
    assert found.warm_up == 0
    assert (
        "its last 6 steps are 3." in found.notes[0] or "its last 6 steps are 2." in found.notes[0]
    )


class TestShort:
    def test_a_change_is_believed(self) -> None:
        series = noise(3, 18, spikes=0)
        series[:8] *= 1.4
        found = of(series)
        assert (found.warm_up, found.steps) == (8, 10)
        assert [re.findall(r"\d+", it) for it in found.notes] == [["10", "8"]]

    @pytest.mark.parametrize(("count", "skipped"), [(14, 5), (10, 5), (8, 2), (7, 2)])
    def test_without_one_the_first_steps_are_left_out_by_rule(
        self, count: int, skipped: int
    ) -> None:
        found = of(noise(3, count, spikes=0))
        assert (found.warm_up, found.steps) == (skipped, count - skipped)
        assert "by rule" in found.notes[0]

    @pytest.mark.parametrize("count", range(7))
    def test_too_few_are_none(self, count: int) -> None:
        assert "few" in why_not(noise(3, count)) or "at least" in why_not(noise(3, count))


@given(
    some.lists(some.floats(1e-6, 1e4), max_size=120),
    some.floats(0.1, 1000),
)
def test_it_holds_whatever_the_steps_are(seconds: list[float], factor: float) -> None:
    found = steady(seconds, "log")
    if isinstance(found, Unknown):
        assert found.reason
        return
    assert found.warm_up + found.steps == len(seconds)
    assert min(seconds) <= found.median_s <= max(seconds)
    assert found.spread >= 0
    assert found.steps >= ENOUGH or found.notes
    scaled = steady([it * factor for it in seconds], "log")
    if isinstance(scaled, Steady):
        assert min(seconds) * factor <= scaled.median_s * (1 + 1e-9)


@given(some.lists(some.sampled_from([0.0, -1.0, math.inf, math.nan, 1.0]), max_size=40))
def test_what_is_no_time_is_passed_over(seconds: list[float]) -> None:
    found = steady(seconds, "log")
    assert isinstance(found, Unknown) == (seconds.count(1.0) < 7)


def test_very_long_runs_are_judged_by_their_end() -> None:
    found = of(np.concatenate([noise(1, 3000) * 2, noise(2, 5000)]))
    assert found.warm_up + found.steps == 8000
    assert found.median_s == pytest.approx(1, rel=0.01)


def wandering(seed: int, count: int) -> npt.NDArray[np.float64]:
    """Steps on a busy machine: each resembles the one before it."""
    random = np.random.default_rng((seed, count))
    logs = random.normal(0, 0.1, count)
    for at in range(1, count):
        logs[at] = 0.9 * logs[at - 1] + logs[at] * (1 - 0.9**2) ** 0.5
    return np.exp(logs)


def test_the_scatter_of_a_busy_machine_is_no_slope() -> None:
    """18 of these 200 had one."""
    found = [steady(list(wandering(seed, 45)), "log") for seed in range(200)]
    slopes = [it for it in found if isinstance(it, Unknown) and "they became" in it.reason]
    assert len(slopes) <= 5
