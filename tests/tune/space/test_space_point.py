"""Points: what keeps choices apart, and arms that never break it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoint.core.errors import UsageError
from counterpoint.flags.settings import Settings
from counterpoint.tune.arm import BASE, Acts, ArmOrigin, merged
from counterpoint.tune.executors.executor import ProcessShape
from counterpoint.tune.space.space import (
    Space,
    arm_of,
    arm_with,
    changes_at,
    completed,
    new_fault,
    point_of,
    single_points,
    why_not,
)
from tune_spaces import gathers, named, space_of

SPACES = (
    space_of(target="4x8xB200", version="0.12.0", shape=ProcessShape()),
    space_of(target="8xA100-80GB", version="0.8.3"),
    space_of(target="8xH100", program=gathers()),
)


@st.composite
def points(draw: st.DrawFn) -> tuple[Space, dict[str, str]]:
    """Any choices of any dimensions, whether they can be together or not."""
    space = draw(st.sampled_from(SPACES))
    chosen = draw(st.lists(st.sampled_from(space.dimensions), unique_by=lambda it: it.name))
    return space, {
        it.name: draw(st.sampled_from([one.choice for one in it.choices])) for it in chosen
    }


@given(points())
def test_an_arm_is_made_of_exactly_the_points_that_nothing_speaks_against(
    found: tuple[Space, dict[str, str]],
) -> None:
    space, point = found
    why = why_not(space, point)
    if why is not None:
        with pytest.raises(UsageError, match="remove one"):
            arm_of(space, point, ArmOrigin.SEARCH)
        return
    arm = arm_of(space, point, ArmOrigin.SEARCH)
    for dimension in space.dimensions:
        if dimension.name in point:
            assert not set(dimension.excludes) & set(point)
            assert set(dimension.needs) <= set(point)
    assert not new_fault(space.base, arm.settings, space.version, space.chip)
    assert arm.settings == merged(space.base, arm.changes)
    assert point_of(space, arm) == point
    assert arm.is_base == (not point)
    runtime = any(it.acts is Acts.RUNTIME for it in arm.changes)
    assert arm.is_base or arm.acts is (Acts.RUNTIME if runtime else Acts.SCHEDULE)


@given(points(), points())
def test_names_of_different_arms_differ(
    one: tuple[Space, dict[str, str]], other: tuple[Space, dict[str, str]]
) -> None:
    space, point = one
    _, second = other
    known = {it.name: [c.choice for c in it.choices] for it in space.dimensions}
    second = {name: it for name, it in second.items() if it in known.get(name, [])}
    if why_not(space, point) or why_not(space, second) or point == second:
        return
    first = arm_of(space, point, ArmOrigin.SEARCH)
    then = arm_of(space, second, ArmOrigin.SEARCH)
    assert first.name != then.name


@given(points())
def test_the_order_of_a_point_does_not_count(found: tuple[Space, dict[str, str]]) -> None:
    space, point = found
    backwards = dict(reversed(point.items()))
    assert changes_at(space, point) == changes_at(space, backwards)
    assert why_not(space, point) == why_not(space, backwards)


def test_an_arm_has_the_name_that_people_say() -> None:
    space = SPACES[2]
    point = {"pipelined all-gather": "on", "all-gather threshold": "112 MiB"}
    arm = arm_of(space, point, ArmOrigin.SEARCH)
    assert arm.name == "all-gather threshold 112 MiB + pipelined all-gather"
    assert arm_of(space, {}, ArmOrigin.SEARCH).name == BASE


def test_an_arm_keeps_the_name_that_an_earlier_version_gave_it() -> None:
    space = space_of(target="8xH100", program=gathers())
    first, second, *_ = (arm_of(space, point, ArmOrigin.SEARCH) for point in single_points(space))
    earlier = replace(first, name="all-gather threshold 1 GiB + 3 more #0b1c2d", predicted=None)

    again = arm_with(replace(space, recorded=(earlier,)), first.changes, ArmOrigin.SEARCH)
    other = arm_with(replace(space, recorded=(earlier,)), second.changes, ArmOrigin.SEARCH)

    assert again == replace(first, name=earlier.name)
    assert other == second


def test_each_choice_alone_comes_with_what_it_needs() -> None:
    space = SPACES[1]
    alone = list(single_points(space))
    assert {"overlap limit": "2", "latency hiding scheduler": "on"} in alone
    assert {"pipelined all-gather": "on"} in alone
    covered = {(name, choice) for it in alone for name, choice in it.items()}
    for dimension in space.dimensions:
        assert {(dimension.name, it.choice) for it in dimension.choices} <= covered
    assert all(why_not(space, it) is None for it in alone)


def test_what_needs_something_says_what() -> None:
    space = SPACES[1]
    assert "latency hiding scheduler" in (why_not(space, {"overlap limit": "2"}) or "")
    whole = completed(space, {"overlap limit": "2"})
    assert whole == {"overlap limit": "2", "latency hiding scheduler": "on"}
    told = why_not(SPACES[2], {"PGLE": "on", "latency estimator": "analytical"})
    assert told == "latency estimator excludes PGLE"


def test_a_name_that_is_none_is_answered_with_a_near_one() -> None:
    space = SPACES[2]
    with pytest.raises(UsageError, match="mean PGLE"):
        why_not(space, {"PGEL": "on"})
    with pytest.raises(UsageError, match="overlap limit 2"):
        arm_of(space, {"overlap limit": "22"}, ArmOrigin.SPACE)


def test_settings_that_end_a_process_together_are_no_arm() -> None:
    asked = """
    [dimension.sends]
    choices = { on = "--xla_gpu_enable_pipelined_p2p=true" }
    [dimension.decomposer]
    choices = { on = "--xla_gpu_collective_permute_decomposer_threshold=1024" }
    """
    space = space_of(asked=asked)
    assert why_not(space, {"sends": "on"}) is None
    assert "the compiler fails" in (why_not(space, {"sends": "on", "decomposer": "on"}) or "")


def test_what_is_wrong_with_the_base_is_not_held_against_arms() -> None:
    space = space_of(Settings(xla=(("xla_foo", "1"),)))
    assert why_not(space, {"overlap limit": "2"}) is None
    assert named(space, "overlap limit")
