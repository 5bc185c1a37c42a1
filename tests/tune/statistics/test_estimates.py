"""What runs say of arms: the fit against textbooks, what must not matter, and the verdicts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from counterpoint.core.basis import Range, Unknown
from counterpoint.tune.arm import BASE
from counterpoint.tune.statistics.estimate import (
    ArmVerdict,
    DecisionRule,
    GainEstimate,
    Observation,
)
from counterpoint.tune.statistics.fit import confirmed, estimates, noise

SEEDS = st.integers(0, 2**32 - 1)
LEAST = 2e-4  # where runs agree better than any do, the fit does not believe it
ONE_LOOK = DecisionRule(looks=(), cap=1)


def drawn(
    seed: int, rows: int, arms: int, *, missing: float = 0.0, sigma: float = 0.003
) -> list[Observation]:
    """Base and arms by row, some missing, the base twice in the first row."""
    rng = np.random.default_rng(seed)
    seen = [Observation(BASE, 0, float(np.exp(rng.normal(0, sigma))))]
    for row in range(rows):
        level = rng.normal(0, 0.02)
        for arm in (BASE, *map(str, range(1, arms + 1))):
            figure = float(np.exp(level + rng.normal(0, sigma)))
            if rng.random() >= missing:
                seen.append(Observation(arm, row, figure))
    return seen


def paired(base: Sequence[float], arm: Sequence[float]) -> list[Observation]:
    return [
        *(Observation(BASE, row, it) for row, it in enumerate(base)),
        *(Observation("x", row, it) for row, it in enumerate(arm)),
    ]


def by_arm(found: Sequence[GainEstimate]) -> dict[str, GainEstimate]:
    return {it.arm: it for it in found}


def ends(it: GainEstimate) -> tuple[float, float]:
    assert isinstance(it.range, Range)
    return it.range.low, it.range.high


@given(SEEDS, st.integers(2, 8))
def test_one_arm_in_full_rows_is_the_paired_t_test(seed: int, rows: int) -> None:
    seen = drawn(seed, rows, 1)[1:]
    (found,) = estimates(seen, ONE_LOOK)
    with_it, without = (np.log([it.seconds for it in seen if it.arm == arm]) for arm in ("1", BASE))
    assume(np.std(with_it - without, ddof=1) > LEAST)
    textbook = stats.ttest_rel(with_it, without)
    assert found.p == pytest.approx(textbook.pvalue, rel=1e-6)
    reach = textbook.confidence_interval(0.95)
    assert ends(found) == pytest.approx((-math.expm1(reach.high), -math.expm1(reach.low)))
    assert found.gain == pytest.approx(-math.expm1(float(np.mean(with_it - without))))


@given(SEEDS, st.integers(2, 6), st.integers(2, 6))
def test_several_arms_in_full_rows_are_the_two_way_analysis(
    seed: int, rows: int, arms: int
) -> None:
    seen = drawn(seed, rows, arms)[1:]
    table = np.log([it.seconds for it in seen]).reshape(rows, arms + 1)
    apart = table - table.mean(1, keepdims=True) - table.mean(0) + table.mean()
    freedom = (rows - 1) * arms
    mean_square = float((apart**2).sum()) / freedom
    assume(mean_square > LEAST**2)
    assert noise(seen).freedom == freedom
    assert noise(seen).sigma == pytest.approx(math.sqrt(2 * mean_square))
    error = math.sqrt(2 * mean_square / rows)
    half = float(stats.t.ppf(1 - 0.05 / 2 / arms, freedom)) * error
    found = estimates(seen, DecisionRule(looks=(), cap=1, arms=arms))
    none_differs = all((it.p or 0) > 0.05 for it in found)  # so that all share as arms
    for it in found:
        pairs = table[:, int(it.arm)] - table[:, 0]
        log = float(pairs.mean())
        assert it.gain == pytest.approx(-math.expm1(log))
        scatters = float(np.var(pairs, ddof=1)) / 2 > mean_square
        if none_differs and not scatters:
            assert ends(it) == pytest.approx((-math.expm1(log + half), -math.expm1(log - half)))


@given(SEEDS, st.integers(2, 5), st.integers(1, 5), st.floats(1e-6, 1e6))
def test_the_unit_of_time_plays_no_part(seed: int, rows: int, arms: int, unit: float) -> None:
    seen = drawn(seed, rows, arms, missing=0.2)
    scaled = [replace(it, seconds=it.seconds * unit) for it in seen]
    same(estimates(seen, DecisionRule(arms=arms)), estimates(scaled, DecisionRule(arms=arms)))


@given(SEEDS, st.integers(2, 5), st.integers(1, 5))
def test_what_a_row_shares_plays_no_part(seed: int, rows: int, arms: int) -> None:
    seen = drawn(seed, rows, arms, missing=0.2)
    levels = np.exp(np.random.default_rng(seed).normal(0, 0.5, rows))
    moved = [replace(it, seconds=it.seconds * float(levels[it.row])) for it in seen]
    same(estimates(seen, DecisionRule(arms=arms)), estimates(moved, DecisionRule(arms=arms)))


@given(SEEDS, st.integers(2, 5), st.integers(1, 5))
def test_names_and_order_play_no_part(seed: int, rows: int, arms: int) -> None:
    seen = drawn(seed, rows, arms, missing=0.2)
    names = {str(it): str(arms + 1 - it) for it in range(1, arms + 1)}
    moved = [replace(it, arm=names.get(it.arm, it.arm)) for it in reversed(seen)]
    renamed = by_arm(estimates(moved, DecisionRule(arms=arms)))
    plain = estimates(seen, DecisionRule(arms=arms))
    same(plain, [replace(renamed[names[it.arm]], arm=it.arm) for it in plain])


def same(these: Sequence[GainEstimate], those: Sequence[GainEstimate]) -> None:
    assert len(these) == len(those)
    for it, other in zip(these, those, strict=True):
        assert (it.arm, it.rows) == (other.arm, other.rows)
        assert it.gain == pytest.approx(other.gain, abs=1e-8, nan_ok=True)
        assert isinstance(it.range, Unknown) == isinstance(other.range, Unknown)
        if isinstance(it.range, Range):
            assert it.range.low == pytest.approx(ends(other)[0], rel=1e-5, abs=1e-8)
            assert it.range.high == pytest.approx(ends(other)[1], rel=1e-5, abs=1e-8)


@given(SEEDS, st.integers(2, 6), st.integers(1, 6))
def test_a_gain_is_the_mean_log_ratio_of_the_rows_in_which_both_ran(
    seed: int, rows: int, arms: int
) -> None:
    seen = drawn(seed, rows, arms, missing=0.3)
    means = {
        (row, arm): math.exp(float(np.mean(logs)))
        for row in range(rows)
        for arm in [BASE, *map(str, range(1, arms + 1))]
        if (logs := [math.log(it.seconds) for it in seen if (it.row, it.arm) == (row, arm)])
    }
    for it in estimates(seen, DecisionRule(arms=arms)):
        both = [row for row in range(rows) if {(row, it.arm), (row, BASE)} <= means.keys()]
        assert [pair.row for pair in it.pairs] == both
        assert it.rows == len(both)
        if both:
            ratios = [math.log(means[row, it.arm] / means[row, BASE]) for row in both]
            assert it.gain == pytest.approx(1 - math.exp(float(np.mean(ratios))), abs=1e-9)
            assert it.step_s is not None
            assert it.base_s is not None
            assert it.gain == pytest.approx(1 - it.step_s / it.base_s, abs=1e-9)


@given(SEEDS, st.integers(2, 6), st.integers(1, 6))
def test_the_noise_is_what_rows_and_arms_leave_over(seed: int, rows: int, arms: int) -> None:
    seen = drawn(seed, rows, arms, missing=0.3)
    names = [BASE, *map(str, range(1, arms + 1))]
    columns = np.zeros((len(seen), rows + len(names)))
    for number, it in enumerate(seen):
        columns[number, [it.row, rows + names.index(it.arm)]] = 1
    assert noise(seen).freedom == len(seen) - np.linalg.matrix_rank(columns)


def test_the_pair_of_the_base_moves_no_gain() -> None:
    """Its mean stands for it: weighed as two, a drift would favour the arms or the base."""
    seen = drawn(9, 4, 5)
    first = [it for it in seen if (it.arm, it.row) == (BASE, 0)]
    middle = math.sqrt(first[0].seconds * first[1].seconds)
    single = [Observation(BASE, 0, middle), *(it for it in seen if it not in first)]
    for it, other in zip(
        estimates(seen, DecisionRule()), estimates(single, DecisionRule()), strict=True
    ):
        assert it.gain == pytest.approx(other.gain, abs=1e-12)
    assert noise(seen).freedom == noise(single).freedom + 1


def test_a_row_without_partner_tells_nothing() -> None:
    seen = drawn(3, 4, 2)
    same(
        estimates(seen, DecisionRule()),
        estimates([*seen, Observation("1", 9, 5.0)], DecisionRule()),
    )


def test_an_arm_that_never_meets_the_base_is_unknown() -> None:
    seen = [*drawn(3, 4, 1), Observation("y", 9, 1.0), Observation("z", 9, 1.0)]
    found = by_arm(estimates(seen, DecisionRule(arms=3)))
    assert isinstance(found["y"].range, Unknown)
    assert "same row" in found["y"].range.reason
    assert math.isnan(found["y"].gain)
    assert found["y"].verdict is ArmVerdict.OPEN
    assert found["y"].rows == 0
    assert isinstance(found["1"].range, Range)


def test_without_the_base_nothing_is_known() -> None:
    (found,) = estimates([Observation("x", 0, 1.0)], DecisionRule())
    assert isinstance(found.range, Unknown)
    assert "no run" in found.range.reason


def test_one_row_has_a_gain_and_no_range() -> None:
    (found,) = estimates(paired([1.0], [0.9]), DecisionRule())
    assert found.gain == pytest.approx(0.1)
    assert isinstance(found.range, Unknown)
    assert not found.decided


def test_nothing_at_all() -> None:
    assert estimates([], DecisionRule()) == ()
    assert isinstance(noise([]).sigma, Unknown)


def test_the_pair_of_the_base_tells_of_noise() -> None:
    found = noise([Observation(BASE, 0, 1.0), Observation(BASE, 0, 1.01)])
    assert found.sigma == pytest.approx(math.log(1.01))
    assert found.freedom == 1
    # Student's t of the first pair would be 12.7: it is taken as of two degrees of freedom.
    assert found.floor == pytest.approx(math.expm1(4.303 * math.log(1.01)), rel=1e-3)


@pytest.mark.parametrize("rows", [2, 3, 20])
def test_the_floor_allows_for_how_little_is_known_of_the_noise(rows: int) -> None:
    found = noise(drawn(3, rows, 1)[1:])
    assert not isinstance(found.sigma, Unknown)
    t = float(stats.t.ppf(0.975, max(rows - 1, 2)))
    assert found.floor == pytest.approx(max(0.005, math.expm1(t * found.sigma)))


def test_the_floor_is_never_below_what_is_indifferent() -> None:
    assert noise([Observation(BASE, 0, 1.0), Observation(BASE, 0, 1.0001)]).floor == 0.005


def test_a_gain_far_above_the_noise_is_decided_at_the_first_look_that_can_tell() -> None:
    seen = drawn(1, 2, 8, sigma=0.002)
    seen = [replace(it, seconds=it.seconds * (0.9 if it.arm == "3" else 1.0)) for it in seen]
    found = by_arm(estimates(seen, DecisionRule(arms=8)))["3"]
    assert (found.verdict, found.decided) == (ArmVerdict.FASTER, True)
    assert found.gain == pytest.approx(0.1, abs=0.01)


def test_between_looks_nothing_is_decided() -> None:
    seen = drawn(1, 3, 8, sigma=0.002)
    seen = [replace(it, seconds=it.seconds * (0.9 if it.arm == "3" else 1.0)) for it in seen]
    assert not any(it.decided for it in estimates(seen, DecisionRule(arms=8)))


def test_a_slower_arm_gets_no_more_rows() -> None:
    seen = drawn(1, 2, 8, sigma=0.002)
    seen = [replace(it, seconds=it.seconds * (1.1 if it.arm == "3" else 1.0)) for it in seen]
    found = by_arm(estimates(seen, DecisionRule(arms=8)))["3"]
    assert (found.verdict, found.decided) == (ArmVerdict.SLOWER, True)


def test_an_arm_that_can_not_win_gets_no_more_rows() -> None:
    """Too few rows to call it slower among so many; enough to see that it gains nothing."""
    seen = paired([1.0, 1.0, 1.0, 1.0], [1.001, 1.011, 1.002, 1.009])
    (found,) = estimates(seen, DecisionRule(arms=20))
    assert ends(found)[1] > 0
    assert found.decided
    assert found.verdict is not ArmVerdict.FASTER


def test_a_range_within_the_indifference_is_no_effect_even_if_it_excludes_none() -> None:
    base = [1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    (found,) = estimates(
        paired(base, [0.998, 0.9981, 0.9979, 0.998, 0.9981, 0.9979]), DecisionRule()
    )
    assert ends(found)[0] > 0
    assert (found.verdict, found.decided) == (ArmVerdict.SAME, True)


def test_no_effect_at_the_cap_says_how_large_one_could_be() -> None:
    rng = np.random.default_rng(5)
    base, arm = np.exp(rng.normal(0, 0.01, (2, 6)))
    (found,) = estimates(paired(base, arm), DecisionRule())
    assert (found.verdict, found.decided) == (ArmVerdict.SAME, True)
    assert found.why.startswith("no effect beyond ")
    assert f"{max(map(abs, ends(found))):.2%}" in found.why


def test_a_real_gain_inside_the_floor_is_not_called_none() -> None:
    """Identical runs differ by 2%; many rows show a gain of 1% all the same."""
    rng = np.random.default_rng(2)
    base, arm = np.exp(rng.normal([[0.0], [math.log(0.99)]], 0.007, (2, 40)))
    seen = paired(base, arm)
    (found,) = estimates(seen, DecisionRule(looks=(), cap=40))
    assert max(map(abs, ends(found))) < noise(seen).floor
    assert ends(found)[0] > 0
    assert found.verdict is ArmVerdict.FASTER


def test_an_arm_that_scatters_does_not_profit_from_the_pool() -> None:
    seen = drawn(4, 4, 10, sigma=0.001)
    rng = np.random.default_rng(8)
    wild = [
        replace(it, seconds=it.seconds * float(np.exp(rng.normal(0, 0.02))))
        if it.arm == "1"
        else it
        for it in seen
    ]
    found = by_arm(estimates(wild, DecisionRule(arms=10)))
    low, high = ends(found["1"])
    other_low, other_high = ends(found["2"])
    assert high - low > 2 * (other_high - other_low)


def test_equal_figures_are_no_proof() -> None:
    """Two equal pairs are rounded figures, not runs without noise."""
    (found,) = estimates(paired([1.0, 1.0], [0.9999, 0.9999]), DecisionRule())
    assert ends(found)[0] < 0 < ends(found)[1]


def test_few_rows_and_little_freedom_never_overflow() -> None:
    (found,) = estimates(
        paired([1.0, 1.0], [0.5, 2.0]), DecisionRule(arms=500, looks=(2, 200), cap=200)
    )
    assert all(map(math.isfinite, ends(found)))


def test_more_arms_that_share_make_wider_ranges() -> None:
    seen = drawn(6, 4, 1)
    one, many = (estimates(seen, DecisionRule(arms=it))[0] for it in (1, 20))
    assert ends(many)[0] < ends(one)[0] < ends(one)[1] < ends(many)[1]


def test_a_confirmation_is_looked_at_once_and_decided() -> None:
    base, arm = [1.0, 1.002, 0.999, 1.001], [0.97, 0.973, 0.968, 0.972]
    (found,) = confirmed(paired(base, arm), DecisionRule(arms=20))
    textbook = stats.ttest_rel(np.log(arm), np.log(base))
    assert found.p == pytest.approx(textbook.pvalue, rel=1e-6)
    assert (found.verdict, found.decided) == (ArmVerdict.FASTER, True)


def test_fresh_rows_that_agree_but_not_with_the_race_have_noise() -> None:
    raced = paired([1.0] * 6, [1.02, 1.021, 1.019] * 2)
    fresh = [replace(run, row=run.row + 6) for run in paired([1.0] * 4, [0.98, 0.981] * 2)]
    (disagrees,) = confirmed(fresh, DecisionRule(), noise_of=raced)
    assert ends(disagrees)[0] < 0 < ends(disagrees)[1]
    raced = paired([1.0] * 6, [0.98, 0.981, 0.979] * 2)
    (agrees,) = confirmed(fresh, DecisionRule(), noise_of=raced)
    assert agrees.verdict is ArmVerdict.FASTER
    assert agrees.gain == disagrees.gain


def test_finalists_share_a_confirmation() -> None:
    seen = drawn(7, 4, 2)[1:]
    found = confirmed(seen, DecisionRule(arms=20))
    shared = estimates(seen, DecisionRule(looks=(), cap=1, arms=2))
    assert [it.p for it in found] == [it.p for it in shared]
    assert all(it.decided for it in found)


@pytest.mark.system
def test_runs_after_the_first_look_do_not_make_the_rate_larger() -> None:
    """Three arms without effect, looked at three times: any claim, at any look, is a false one."""
    rng = np.random.default_rng(11)
    rule, studies, wrong = DecisionRule(arms=3), 400, 0
    for _ in range(studies):
        times = np.exp(rng.normal(0, 0.003, (6, 4)))
        names = (BASE, "1", "2", "3")
        wrong += any(
            it.p is not None and it.p <= 0.05
            for look in (2, 4, 6)
            for it in estimates(
                [
                    Observation(name, row, float(times[row, at]))
                    for row in range(look)
                    for at, name in enumerate(names)
                ],
                rule,
            )
        )
    assert wrong / studies <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / studies)


def test_an_arm_that_may_be_within_the_indifference_is_out_but_not_slower() -> None:
    base = [1.0, 1.0, 1.0, 1.0]
    seen = paired(base, [1.0060, 1.0092, 1.0070, 1.0088])
    (found,) = estimates(seen, DecisionRule(looks=(4,), cap=8))
    assert -0.005 < ends(found)[1] < 0
    assert (found.verdict, found.decided, found.futile) == (ArmVerdict.OPEN, True, True)
    (last,) = estimates(seen, DecisionRule(looks=(4,), cap=4))
    assert last.verdict is ArmVerdict.SLOWER
    (far,) = estimates(paired(base, [1.050, 1.053, 1.051, 1.052]), DecisionRule(looks=(4,), cap=8))
    assert (far.verdict, far.decided) == (ArmVerdict.SLOWER, True)
