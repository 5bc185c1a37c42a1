"""Which of many predicted arms are worth real time."""

from __future__ import annotations

import pytest

from counterpoint.core.basis import Range
from counterpoint.tune.arm import BASE, ArmOrigin
from counterpoint.tune.search.shortlist import Shortlist, shortlist
from counterpoint.tune.study.records import CandidateSeen
from tune_search_spaces import seen

START = seen(BASE, 0.0, origin=ArmOrigin.BASE)


def listed(*candidates: CandidateSeen, most: int = 8, base: CandidateSeen = START) -> Shortlist:
    """With the first one as the winner."""
    return shortlist(base, candidates, candidates[0], most=most, indifferent=0.005)


def names(found: Shortlist) -> list[str]:
    return [it.name for it in found.arms]


def test_the_best_is_first_and_equal_programs_are_one() -> None:
    best = seen("best", 0.1, ("a", "on"), ("b", "on"))
    longer = seen("longer", 0.1, ("a", "on"), ("b", "on"), ("c", "on"), program="best")
    other = seen("other", 0.06, ("d", "on"))
    assert names(listed(best, longer, other)) == ["best", "other"]


def test_near_copies_of_the_best_are_left_out_for_what_differs() -> None:
    best = seen("best", 0.1, ("a", "on"), ("b", "on"), ("c", "on"))
    copies = [
        seen(f"copy {at}", 0.0995, ("a", "on"), ("b", "on"), ("c", "on"), (at, "on"))
        for at in "efghijkl"
    ]
    others = [seen(f"other {at}", 0.05, (at, "on")) for at in "mno"]
    found = names(listed(best, *copies, *others, most=4))
    assert found[0] == "best"
    assert set(found[1:]) == {"other m", "other n", "other o"}


def test_changes_weigh_what_they_bring() -> None:
    """Idle changes make no other arm of a copy."""
    best = seen("best", 0.1, ("a", "on"), ("b", "on"))
    copy = seen("copy", 0.0995, ("a", "on"), ("b", "on"), ("idle", "1"), ("idle_too", "1"))
    other = seen("other", 0.04, ("c", "on"))
    weights = {("a", "on"): 0.06, ("b", "on"): 0.04}
    found = shortlist(START, [best, copy, other], best, most=8, indifferent=0.005, weights=weights)
    assert names(found) == ["best", "other"]


def test_there_are_at_most_so_many() -> None:
    many = [seen(f"arm {at}", 0.1 - at / 1000, (f"d{at}", "on")) for at in range(20)]
    assert len(listed(*many, most=5).arms) == 5


def test_ties_are_named_and_those_of_fewer_changes_come_first() -> None:
    best = seen("best", 0.1, ("a", "on"), ("b", "on"), ("c", "on"))
    two = seen("two", 0.095, ("d", "on"), ("e", "on"))
    one = seen("one", 0.094, ("f", "on"))
    behind = seen("behind", 0.05, ("g", "on"))
    found = listed(best, two, one, behind)
    assert names(found) == ["best", "one", "two", "behind"]
    assert set(found.tied) == {"best", "one", "two"}


def test_errors_that_two_arms_share_make_no_tie() -> None:
    shared = (("matmul", -0.2, 0.2),)
    own = (("collective across domains", -0.05, 0.05),)
    best = seen("best", 0.1, ("a", "on"), reach=shared)
    apart = seen("apart", 0.06, ("b", "on"), reach=shared)
    near = seen("near", 0.07, ("c", "on"), reach=own)
    assert set(listed(best, apart, near).tied) == {"best", "near"}


def test_what_is_too_large_or_brings_little_is_not_listed() -> None:
    best = seen("best", 0.1, ("a", "on"))
    large = seen("large", 0.3, ("b", "on"), fits=False)
    little = seen("little", 0.01, ("c", "on"))
    assert names(listed(best, large, little)) == ["best"]


def test_no_effect_is_said_and_only_what_may_have_one_is_listed() -> None:
    small = seen("small", 0.004, ("a", "on"), gain_range=Range(0.001, 0.004))
    maybe = seen("maybe", 0.003, ("b", "on"), gain_range=Range(-0.01, 0.02))
    same = seen("same", 0.0, ("c", "on"), program=BASE)
    found = listed(small, maybe, same)
    assert not found.effect
    assert names(found) == ["maybe"]
    assert names(listed(small)) == []


def test_a_base_that_does_not_fit_makes_all_that_fit_worth_a_look() -> None:
    base = seen(BASE, 0.0, origin=ArmOrigin.BASE, fits=False)
    slow = seen("slow", -0.05, ("a", "on"))
    found = listed(slow, seen("large", 0.2, ("b", "on"), fits=False), base=base)
    assert found.effect
    assert names(found)[0] == "slow"


@pytest.mark.parametrize("most", [0, 1])
def test_a_list_may_be_short(most: int) -> None:
    assert len(listed(seen("best", 0.1, ("a", "on")), most=most).arms) == most
