"""An arm that trains another model is found; one that rounds in another order is not accused."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from counterpoint.tune.trial.loss_check import LEAST, check_losses
from counterpoint.tune.trial.report import Losses

STEPS = tuple(range(40))
SEEDS = range(6)


def curve(seed: int = 0, noise: float = 0.0, factor: float = 1.0) -> Losses:
    """A loss that falls from 11 towards 3, with as much noise from step to step."""
    random = np.random.default_rng(seed)
    falls = 3 + 8 * np.exp(-np.arange(len(STEPS)) / 15)
    data = 0.1 * np.sin(np.arange(len(STEPS)))  # of the batches, the same in each run
    values = (falls + data) * factor * (1 + random.normal(0, noise, len(STEPS)))
    return Losses(steps=STEPS, values=tuple(map(float, values)))


def changed(losses: Losses, step: int, value: float) -> Losses:
    values = list(losses.values)
    values[step] = value
    return replace(losses, values=tuple(values))


def test_the_same_to_the_bit_is_the_same() -> None:
    found = check_losses([curve(), curve()], curve())
    assert (found.kind, found.deviation) == ("same", 0)


@pytest.mark.parametrize("seed", SEEDS)
def test_rounding_in_another_order_does_no_harm(seed: int) -> None:
    found = check_losses([curve(), curve()], curve(seed, 0.0005))
    assert found.kind == "same"
    assert found.deviation
    assert "agree to the last digit, and rounding" in found.allowed_by


@pytest.mark.parametrize("factor", [1.009, 0.991, 1.003])
def test_less_than_one_percent_is_another_model_too(factor: float) -> None:
    found = check_losses([curve(), curve()], curve(factor=factor))
    assert found.kind == "other"
    assert "0.1% is allowed" in found.why


def test_no_more_than_the_last_printed_place_can_be_told() -> None:
    def printed(off: float) -> Losses:
        return Losses(steps=STEPS, values=tuple(round(it + off, 1) for it in curve().values))

    assert check_losses([printed(0), printed(0)], printed(0.1)).kind == "same"
    assert check_losses([printed(0), printed(0)], printed(0.2)).kind == "other"


def test_how_far_base_runs_are_apart_takes_two() -> None:
    found = check_losses([curve()], curve())
    assert found.kind == "unchecked"
    assert "one run of the base" in found.why


@pytest.mark.parametrize("seed", SEEDS)
def test_an_arm_may_be_as_far_off_as_base_runs_are(seed: int) -> None:
    base = [curve(100 + seed, 0.02), curve(200 + seed, 0.02), curve(300 + seed, 0.02)]
    assert check_losses(base, curve(seed, 0.02)).kind == "same"
    assert check_losses(base, curve(seed, 0.02, 1.5)).kind == "other"


def test_another_model_is_found_and_where() -> None:
    other = curve()
    values = (*other.values[:20], *(it * 1.1 for it in other.values[20:]))
    found = check_losses([curve(), curve()], replace(other, values=values))
    assert found.kind == "other"
    assert found.step is not None
    assert found.step >= 19
    assert found.deviation == pytest.approx(0.1)
    assert found.tolerance is not None
    assert LEAST <= found.tolerance < 2 * LEAST
    assert "10.0%" in found.why


def test_one_odd_step_is_chance() -> None:
    assert check_losses([curve(), curve()], changed(curve(), 17, 9.0)).kind == "same"


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("tolerance", [None, 0.5])
def test_what_is_no_number_is_always_another(value: float, tolerance: float | None) -> None:
    found = check_losses([curve(), curve()], changed(curve(), 39, value), tolerance)
    assert (found.kind, found.step) == ("other", 39)


def test_a_tolerance_that_is_given_decides() -> None:
    assert check_losses([curve()], curve(factor=1.04), 0.05).kind == "same"
    assert check_losses([curve()], curve(factor=1.04), 0.03).kind == "other"


def test_without_a_seed_nothing_can_be_told() -> None:
    base = [curve(1, 0.02), curve(2, 0.02, 1.4)]
    found = check_losses(base, curve(3, 0.02))
    assert found.kind == "unchecked"
    assert "seed" in found.why
    assert check_losses(base, curve(3, 0.02), 0.6).kind == "same"


def test_too_little_is_said() -> None:
    assert check_losses([curve()], None).kind == "unchecked"
    assert check_losses([curve()], Losses()).kind == "unchecked"
    assert check_losses([], curve()).kind == "unchecked"
    assert check_losses([Losses()], curve()).kind == "unchecked"
    few = Losses(steps=(0, 1, 2, 99), values=curve().values[:4])
    assert "3 steps" in check_losses([curve(), curve()], few).why


def test_only_common_steps_are_compared() -> None:
    sparse = Losses(steps=STEPS[::5], values=curve().values[::5])
    assert check_losses([curve(), curve()], sparse).kind == "same"


def test_a_loss_that_has_come_to_nothing_is_not_held_against_an_arm() -> None:
    values = [max(1.0 - 0.1 * at, 1e-6) for at in range(40)]
    other = [*values[:12], *(it * 3 for it in values[12:])]
    base = Losses(steps=STEPS, values=tuple(values))
    assert check_losses([base, base], Losses(steps=STEPS, values=tuple(other))).kind == "same"


def test_gradients_that_are_others_are_found_before_the_losses_show_it() -> None:
    norms = tuple(1.0 + 0.1 * math.sin(at) for at in STEPS)
    base = replace(curve(), norm_steps=STEPS, norms=norms)
    doubled = replace(base, norms=tuple(2 * it for it in norms))
    assert check_losses([base, base], base).kind == "same"
    found = check_losses([base, base], doubled)
    assert found.kind == "other"
    assert "gradient norms" in found.why


@given(some.lists(some.floats(-1e6, 1e6), min_size=5, max_size=60))
def test_a_run_is_the_same_as_itself(values: list[float]) -> None:
    losses = Losses(steps=tuple(range(len(values))), values=tuple(values))
    assert check_losses([losses, losses], losses).kind == "same"
