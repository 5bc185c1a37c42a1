"""Merging: one key, one cost by the stated statistic; modules stay apart."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoint.core.errors import InputError, UsageError
from counterpoint.pgle.making.merge import merge_profiles
from counterpoint.pgle.profiles.files import read_profile, write_profile
from counterpoint.pgle.profiles.profile import InstructionCost, Latency, Profile

A = "0123456789abcdef0123456789abcdef"
B = "fedcba9876543210fedcba9876543210"


def of(*costs: InstructionCost, **origin: str) -> Profile:
    return Profile(costs, origin=origin)


def test_a_key_costs_the_statistic_over_the_profiles_that_have_it() -> None:
    parts = [
        of(InstructionCost("dot", us, A), InstructionCost("add", 1.0, A)) for us in (1.0, 10.0, 4.0)
    ]
    parts.append(of(InstructionCost("add", 3.0, A)))
    merged = merge_profiles(parts)
    assert merged.costs == (InstructionCost("dot", 4.0, A), InstructionCost("add", 1.0, A))
    assert merge_profiles(parts, 100).costs == (
        InstructionCost("dot", 10.0, A),
        InstructionCost("add", 3.0, A),
    )
    assert merge_profiles(parts, 25).costs[0].us == 2.5


def test_modules_stay_apart() -> None:
    merged = merge_profiles(
        [of(InstructionCost("dot", 1.0, A)), of(InstructionCost("dot", 9.0, B))]
    )
    assert merged.costs == (InstructionCost("dot", 1.0, A), InstructionCost("dot", 9.0, B))


def test_of_a_duplicate_the_last_counts_as_for_xla() -> None:
    merged = merge_profiles(
        [
            of(InstructionCost("dot", 1.0), InstructionCost("dot", 5.0)),
            of(InstructionCost("dot", 7.0)),
        ]
    )
    assert merged.costs == (InstructionCost("dot", 6.0),)
    assert not merge_profiles(
        [of(InstructionCost("dot", 1.0), InstructionCost("dot", 5.0))]
    ).duplicates
    clones = of(
        InstructionCost("dot", 1.0, A),
        InstructionCost("dot.remat2", 5.0, A),
        InstructionCost("dot", 9.0, B),
    )
    assert merge_profiles([clones]).costs == (
        InstructionCost("dot", 3.0, A),
        InstructionCost("dot", 9.0, B),
    )


def test_bare_names_and_keyed_ones_are_not_mixed() -> None:
    with pytest.raises(InputError, match="are not merged") as refused:
        merge_profiles([of(InstructionCost("dot", 1.0)), of(InstructionCost("add", 1.0, A))])
    assert "(dot)" in refused.value.what
    assert f"({A}::add)" in refused.value.what
    with pytest.raises(InputError, match="no profiles"):
        merge_profiles([])
    with pytest.raises(UsageError, match="between 0 and 100"):
        merge_profiles([of(InstructionCost("dot", 1.0))], 101)


def test_costs_of_two_chips_are_not_merged() -> None:
    named = ("NVIDIA A100-SXM4-40GB", "NVIDIA H100 80GB HBM3", "a chip of next year")
    one, other, unknown = (
        Profile((InstructionCost("a", 1.0),), origin={"devices": it}) for it in named
    )
    with pytest.raises(InputError, match=r"A100 40GB .* H100 SXM"):
        merge_profiles([one, other])
    merged = merge_profiles([one, one, unknown])
    with pytest.raises(InputError):
        merge_profiles([merged, other])


def test_latencies_are_merged_like_costs() -> None:
    parts = [Profile((InstructionCost("dot", 1.0),), (Latency("a", "b", us),)) for us in (1.0, 2.0)]
    assert merge_profiles(parts).latencies == (Latency("a", "b", 1.5),)


def test_the_head_says_what_was_merged(tmp_path: Path) -> None:
    first = of(
        InstructionCost("dot", 1.0, A), statistic="median", jaxlib="0.10.2", **{f"module {A}": "a"}
    )
    second = of(
        InstructionCost("dot", 2.0, B), statistic="median", jaxlib="0.10.2", **{f"module {B}": "b"}
    )
    merged = merge_profiles([first, second], 90, ["runs/a.pbtxt", "runs/b.pbtxt"])
    assert dict(merged.origin) | {"made by": ""} == {
        "made by": "",
        "merged from": "a.pbtxt, b.pbtxt",
        "statistic": "percentile 90 over 2 profiles",
        "statistic of each": "median",
        "jaxlib": "0.10.2",
        f"module {A}": "a",
        f"module {B}": "b",
    }
    assert read_profile(write_profile(merged, tmp_path / "merged.pbtxt")) == merged


costs = st.builds(
    InstructionCost,
    st.sampled_from(["a", "b", "c"]),
    st.floats(0, 1e9, allow_nan=False),
    st.sampled_from([A, B]),
)


@given(st.lists(st.lists(costs, min_size=1).map(lambda it: of(*it)), min_size=1))
def test_a_merged_cost_lies_between_those_it_was_made_of(profiles: list[Profile]) -> None:
    merged = merge_profiles(profiles)
    given_: dict[str, list[float]] = {}
    for profile in profiles:
        for cost in profile.costs:
            given_.setdefault(cost.key, []).append(cost.us)
    assert {cost.key for cost in merged.costs} == set(given_)
    for cost in merged.costs:
        assert min(given_[cost.key]) - 1e-6 <= cost.us <= max(given_[cost.key]) + 1e-6
    assert merge_profiles([merged]).costs == merged.costs
