"""Looks and arms share one rate of false positives."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoint.tune.statistics.estimate import DecisionRule, holm, looks, share, shared_as

RATES = st.lists(st.floats(min_value=1e-9, max_value=1.0), min_size=1, max_size=12)


@given(st.sets(st.integers(-2, 20)), st.integers(1, 12))
def test_the_looks_spend_the_rate_and_no_more(planned: set[int], cap: int) -> None:
    rule = DecisionRule(looks=tuple(planned), cap=cap)
    assert looks(rule)[-1] == cap
    assert sum(share(rule, it) for it in looks(rule)) == pytest.approx(1.0)


def test_most_of_the_rate_is_kept_for_the_last_look() -> None:
    rule = DecisionRule(looks=(2, 4, 6), cap=6)
    assert [share(rule, it) for it in (2, 4, 6)] == pytest.approx([1 / 9, 3 / 9, 5 / 9])


def test_between_looks_stands_the_share_of_the_next() -> None:
    rule = DecisionRule(looks=(2, 4, 6), cap=6)
    assert share(rule, 3) == share(rule, 4)
    assert share(rule, 1) == share(rule, 2)
    assert share(rule, 9) == share(rule, 6)


def test_holms_steps_are_those_of_the_textbook() -> None:
    steps = holm([0.04, 0.01, 0.03, 0.005], arms=4)
    assert [it.p for it in steps] == pytest.approx([0.06, 0.03, 0.06, 0.02])


def test_arms_without_a_figure_share_the_rate_too() -> None:
    assert holm([0.01], arms=5)[0].p == pytest.approx(0.05)


@given(RATES, st.integers(0, 5), st.floats(min_value=0.001, max_value=0.2))
def test_a_range_excludes_no_change_just_when_holm_rejects(
    ps: list[float], unseen: int, rate: float
) -> None:
    steps = holm(ps, len(ps) + unseen)
    for p, step, among in zip(ps, steps, shared_as(steps, rate), strict=True):
        if abs(p * among / rate - 1) > 1e-6:  # but for rounding
            assert (p <= rate / among) == (step.p <= rate)


@given(RATES, st.randoms())
def test_the_order_of_arms_plays_no_part(ps: list[float], chance: Random) -> None:
    shuffled = chance.sample(range(len(ps)), len(ps))
    plain = holm(ps, len(ps))
    moved = holm([ps[it] for it in shuffled], len(ps))
    for at, it in enumerate(shuffled):
        assert moved[at] == plain[it]
