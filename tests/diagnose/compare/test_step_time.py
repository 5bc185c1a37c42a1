"""Noise is no win: what the times of steps allow to be said."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from counterpoint.core.basis import Basis, Range, Unknown
from counterpoint.diagnose.compare.step_time import RunSteps, StepChange, StepVerdict, step_change


def run(*seconds: float, basis: Basis = Basis.MEASURED) -> RunSteps:
    return RunSteps(seconds, "annotation", basis)


def changed(a: Sequence[RunSteps], b: Sequence[RunSteps]) -> StepChange:
    found = step_change(a, b)
    assert isinstance(found, StepChange)
    return found


STEADY = (1.000, 1.001, 0.999, 1.000, 1.002, 0.998, 1.000, 1.001)


def scaled(by: float) -> RunSteps:
    return run(*(by * it for it in STEADY))


@pytest.mark.parametrize(
    ("by", "verdict"),
    [
        (1.0, StepVerdict.SAME),
        (1.001, StepVerdict.WITHIN),
        (1.012, StepVerdict.WITHIN),
        (0.99, StepVerdict.WITHIN),
        (1.05, StepVerdict.SLOWER),
        (0.95, StepVerdict.FASTER),
    ],
)
def test_one_run_each_is_judged_with_what_identical_runs_differ_by(
    by: float, verdict: StepVerdict
) -> None:
    found = changed([scaled(1.0)], [scaled(by)])
    assert found.change == pytest.approx(by - 1)
    assert found.verdict is verdict


def test_steps_that_scatter_decide_nothing() -> None:
    wide = run(1.00, 1.04, 0.97, 1.05, 0.96)
    assert changed([wide], [replace(wide, each_s=wide.each_s[1:])]).verdict is StepVerdict.OPEN


def test_steps_alone_would_have_called_noise_a_loss() -> None:
    found = changed([scaled(1.0)], [scaled(1.012)])
    assert isinstance(found.of_steps, Range)
    assert isinstance(found.range, Range)
    assert found.of_steps.low > 0 > found.range.low
    assert "1.3%" in found.how


def test_the_range_is_the_quadrature_of_both() -> None:
    found = changed([run(*[1.0] * 8)], [run(*[1.02] * 8)])
    assert isinstance(found.range, Range)
    assert found.range.low == pytest.approx(1.02 / 2.718281828**0.013 - 1, abs=1e-6)
    assert isinstance(found.of_steps, Range)
    assert (found.of_steps.low, found.of_steps.high) == pytest.approx((0.02, 0.02))


def test_slow_steps_that_come_together_widen_the_range() -> None:
    apart = [1.0, 1.1] * 30
    together = [1.0] * 30 + [1.1] * 30
    widths: list[float] = []
    for steps in (apart, together):
        found = changed([run(*steps)], [run(*[1.0] * 60)])
        assert isinstance(found.of_steps, Range)
        widths.append(found.of_steps.high - found.of_steps.low)
    assert widths[1] >= widths[0]


def test_a_long_run_is_no_matter_of_memory() -> None:
    assert changed([run(*STEADY * 20_000)], [scaled(1.05)]).verdict is StepVerdict.SLOWER


def test_several_runs_tell_their_own_noise() -> None:
    # By hand: logs differ by 0.03; spread of both sides 0.01, t(4) 2.776, error 0.00816.
    a = [run(*[2.718281828**it] * 3) for it in (-0.01, 0.0, 0.01)]
    b = [run(*[2.718281828**it] * 3) for it in (0.02, 0.03, 0.04)]
    found = changed(a, b)
    assert isinstance(found.range, Range)
    assert found.change == pytest.approx(0.030455, abs=1e-5)
    assert found.range.low == pytest.approx(0.0073575, abs=2e-5)
    assert found.verdict is StepVerdict.SLOWER


def test_runs_of_one_thing_are_called_different_in_one_of_twenty_studies() -> None:
    chance = random.Random(3)  # noqa: S311 (no secret)
    called = 0
    for _ in range(400):
        sides = [[run(*[chance.gauss(1.0, 0.006)] * 3) for _ in range(3)] for _ in range(2)]
        called += changed(*sides).verdict in (StepVerdict.FASTER, StepVerdict.SLOWER)
    assert called / 400 < 0.08


def test_two_predictions_that_are_close_are_tied() -> None:
    def predicted(seconds: float) -> list[RunSteps]:
        return [run(seconds, basis=Basis.PREDICTED)]

    assert changed(predicted(1.0), predicted(1.0)).verdict is StepVerdict.SAME
    assert changed(predicted(1.0), predicted(1.01)).verdict is StepVerdict.TIED
    assert changed(predicted(1.0), predicted(1.03)).verdict is StepVerdict.SLOWER


def test_measured_against_predicted_has_no_range_and_no_verdict() -> None:
    found = changed([scaled(1.0)], [run(1.5, basis=Basis.PREDICTED)])
    assert found.change == pytest.approx(0.5)
    assert isinstance(found.range, Unknown)
    assert found.verdict is StepVerdict.OPEN


def test_few_steps_have_no_range() -> None:
    assert isinstance(changed([run(1.0, 1.1)], [scaled(2.0)]).range, Unknown)


@pytest.mark.parametrize(("a", "b"), [([], [run(1.0)]), ([run(1.0)], [])])
def test_without_steps_nothing_is_known(a: list[RunSteps], b: list[RunSteps]) -> None:
    assert isinstance(step_change(a, b), Unknown)


def like_a_shared_host(steps: int, chance: random.Random) -> RunSteps:
    """A slow step has slow neighbors, and a whole run is off by as much as its steps scatter."""
    scatter = 0.07
    moved, log, found = chance.gauss(0, scatter), chance.gauss(0, scatter), list[float]()
    for _ in range(steps):
        log = 0.5 * log + chance.gauss(0, scatter * 0.75**0.5)
        found.append(math.exp(moved + log))
    return run(*found)


@pytest.mark.parametrize("steps", [8, 17, 97])
def test_one_program_on_a_noisy_machine_is_called_slower_in_one_of_twenty_at_most(
    steps: int,
) -> None:
    chance = random.Random(5)  # noqa: S311 (no secret)
    pairs = [[like_a_shared_host(steps, chance) for _ in range(2)] for _ in range(80)]
    called = sum(
        changed([a], [b]).verdict in (StepVerdict.FASTER, StepVerdict.SLOWER) for a, b in pairs
    )
    assert called <= 4


def test_a_noisy_machine_still_tells_what_is_much_slower() -> None:
    chance = random.Random(5)  # noqa: S311 (no secret)
    noisy = like_a_shared_host(97, chance)
    twice = run(*(3 * it for it in noisy.each_s[::-1]))
    found = changed([noisy], [twice])
    assert found.verdict is StepVerdict.SLOWER
    assert "noisy machine" in found.how


def test_a_run_that_drifts_is_no_quiet_one() -> None:
    drifting = run(*(1 + 0.1 * it / 40 for it in range(40)))
    assert changed([drifting], [scaled(1.1)]).verdict is StepVerdict.OPEN


def test_virtual_devices_decide_nothing_with_one_run_each() -> None:
    a, b = (replace(scaled(by), on_host=True) for by in (1.0, 1.3))
    found = changed([a], [b])
    assert found.verdict is StepVerdict.OPEN
    assert isinstance(found.range, Unknown)
    assert "several runs" in found.range.reason
    several = [[replace(scaled(by + it), on_host=True) for it in (0, 0.01)] for by in (1.0, 1.3)]
    assert changed(*several).verdict is StepVerdict.SLOWER


def predicted_for(target: str, seconds: float, *reach: float) -> RunSteps:
    made = run(seconds, basis=Basis.PREDICTED)
    return replace(made, target=target, range_s=Range(*reach) if reach else None)


def test_errors_of_predictions_cancel_on_one_target_alone() -> None:
    a, b = predicted_for("8xH100", 1.0, 0.9, 1.2), predicted_for("8xA100", 1.1, 0.95, 1.3)
    found = changed([a], [b])
    assert isinstance(found.range, Range)
    # By hand: logs of 1.1 are 0.0953; of 0.95/1.1 -0.1466, of 1.2 0.1823; of 1.3/1.1 0.1671.
    assert found.range.low == pytest.approx(
        math.exp(0.0953 - math.hypot(0.1466, 0.1823)) - 1, abs=1e-3
    )
    assert found.range.high == pytest.approx(
        math.exp(0.0953 + math.hypot(0.1671, 0.1054)) - 1, abs=1e-3
    )
    assert found.verdict is StepVerdict.OPEN
    near = changed([a], [replace(b, target="8xH100")])
    assert near.verdict is StepVerdict.SLOWER


def test_predictions_for_other_targets_have_no_range_where_theirs_are_not_known() -> None:
    found = changed([predicted_for("8xH100", 1.0)], [predicted_for("8xA100", 2.0)])
    assert isinstance(found.range, Unknown)
    assert found.verdict is StepVerdict.OPEN


def test_medians_that_agree_by_chance_are_not_surer_than_the_steps_they_are_of() -> None:
    two_paces = [1.0] * 12 + [1.4] * 12
    a = [run(*two_paces, 1.0), run(*two_paces[::-1], 1.0)]
    b = [run(*two_paces, 1.4), run(*two_paces[::-1], 1.4)]
    assert changed(a, b).verdict is StepVerdict.OPEN
    assert changed([scaled(1.0), scaled(1.0)], [scaled(1.4)] * 2).verdict is StepVerdict.SLOWER
