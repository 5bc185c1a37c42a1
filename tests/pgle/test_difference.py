"""Comparing two profiles: each key in its place, and the sums of what both have."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from counterpoint.pgle.checking.difference import CostDifference, diff_profiles
from counterpoint.pgle.profiles.profile import InstructionCost, Profile

A = "0123456789abcdef0123456789abcdef"
B = "fedcba9876543210fedcba9876543210"


def of(**us: float) -> Profile:
    return Profile(tuple(InstructionCost(name, cost, A) for name, cost in us.items()))


def test_the_largest_change_comes_first() -> None:
    diff = diff_profiles(of(dot=1, add=10, mul=5, old=3), of(dot=2, add=4, mul=5, new=7))
    assert diff.changes == (
        CostDifference(f"{A}::add", 10, 4),
        CostDifference(f"{A}::dot", 1, 2),
        CostDifference(f"{A}::mul", 5, 5),
    )
    assert [change.ratio for change in diff.changes] == [0.4, 2, 1]
    assert (diff.a_us, diff.b_us, diff.equal) == (16, 11, 1)
    assert [cost.name for cost in diff.only_a] == ["old"]
    assert [cost.name for cost in diff.only_b] == ["new"]
    assert not diff.by_name


def test_what_cost_nothing_has_no_ratio() -> None:
    (change,) = diff_profiles(of(dot=0), of(dot=2)).changes
    assert (change.difference_us, change.ratio) == (2, None)


def test_of_a_duplicate_the_last_is_compared() -> None:
    twice = Profile((InstructionCost("dot", 1), InstructionCost("dot", 3)))
    assert diff_profiles(twice, Profile((InstructionCost("dot", 3),))).equal == 1


def test_two_builds_of_a_module_are_compared_by_name() -> None:
    other = Profile((InstructionCost("dot", 2, B),))
    diff = diff_profiles(of(dot=1), other)
    assert diff.by_name
    assert diff.changes == (CostDifference("dot", 1, 2),)
    assert diff_profiles(of(dot=1), Profile((InstructionCost("dot", 2),))).by_name


def test_profiles_of_several_modules_are_never_compared_by_name() -> None:
    several = Profile((InstructionCost("dot", 2, B), InstructionCost("dot", 3, "0" * 32)))
    diff = diff_profiles(of(dot=1), several)
    assert not diff.by_name
    assert (diff.changes, len(diff.only_a), len(diff.only_b)) == ((), 1, 2)


some = st.dictionaries(st.sampled_from("abcdef"), st.floats(0, 1e9), min_size=1).map(
    lambda it: of(**it)
)


@given(some, some)
def test_every_key_is_accounted_for_and_turning_it_round_changes_signs(
    a: Profile, b: Profile
) -> None:
    there, back = diff_profiles(a, b), diff_profiles(b, a)
    assert len(there.changes) + len(there.only_a) == len(a.costs)
    assert len(there.changes) + len(there.only_b) == len(b.costs)
    assert {(it.key, it.difference_us) for it in there.changes} == {
        (it.key, -it.difference_us) for it in back.changes
    }
    assert (there.only_a, there.only_b) == (back.only_b, back.only_a)
