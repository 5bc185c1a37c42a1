"""Replica groups: every way of writing them, expanded as XLA does."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoint.core.errors import InputError
from counterpoint.hlo.model.groups import (
    Axis,
    Iota,
    ListedGroups,
    Mesh,
    expand,
    group_size,
    parse_groups,
)

SIZES = st.lists(st.integers(1, 5), min_size=1, max_size=4)


def comma(numbers: list[int]) -> str:
    return ",".join(map(str, numbers))


@given(sizes=SIZES, data=st.data())
def test_iota_groups_are_reshape_transpose_and_cut(sizes: list[int], data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(len(sizes))))
    total = math.prod(sizes)
    count = data.draw(st.sampled_from([n for n in range(1, total + 1) if total % n == 0]))
    text = f"[{count},{total // count}]<=[{comma(sizes)}]T({comma(order)})"
    groups = parse_groups(text)
    expected = np.arange(total).reshape(sizes).transpose(order).reshape(count, -1)
    assert expand(groups) == tuple(map(tuple, expected.tolist()))
    assert group_size(groups) == total // count


@given(groups=st.lists(st.lists(st.integers(0, 2000), min_size=1, max_size=9), max_size=9))
def test_listed_groups_are_read_as_written(groups: list[list[int]]) -> None:
    text = "{" + ",".join("{" + comma(group) + "}" for group in groups) + "}"
    assert expand(parse_groups(text)) == tuple(map(tuple, groups))


@given(sizes=SIZES, data=st.data())
def test_mesh_groups_run_along_their_axes(sizes: list[int], data: st.DataObject) -> None:
    used = data.draw(st.permutations(range(len(sizes))))
    used = used[: data.draw(st.integers(1, len(sizes)))]
    devices = data.draw(st.permutations(range(math.prod(sizes))))
    axes = ",".join(f"'a{index}'={size}" for index, size in enumerate(sizes))
    names = ",".join(f"'a{index}'" for index in used)
    groups = parse_groups(f"mesh[{axes}], device_ids=({comma(devices)}) {{{names}}}")
    array = np.array(devices).reshape(sizes)
    rest = [dim for dim in range(len(sizes)) if dim not in used]
    width = math.prod(sizes[dim] for dim in used)
    expected = array.transpose(rest + used).reshape(-1, width)
    assert expand(groups) == tuple(map(tuple, expected.tolist()))
    assert group_size(groups) == width


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{}", ()),
        ("{{0,1},{2,3}}", ((0, 1), (2, 3))),
        ("[2,2]<=[4]", ((0, 1), (2, 3))),
        ("[2,2]<=[2,2]T(1,0)", ((0, 2), (1, 3))),
        ("mesh['x'=4,'y'=2] {'y'}", ((0, 1), (2, 3), (4, 5), (6, 7))),
        ("mesh['x'=4,'y'=2] {'x'}", ((0, 2, 4, 6), (1, 3, 5, 7))),
        ("mesh['x'=2,'y'=2], device_ids=([2,2]T(1,0)) {'y'}", ((0, 2), (1, 3))),
        # The examples of xla/hlo/ir/replica_group.cc: parts of an axis of eight.
        ("mesh['x'=8] {'x':(1)2}", ((0, 4), (1, 5), (2, 6), (3, 7))),
        ("mesh['x'=8] {'x':(1)2,'x':(4)2}", ((0, 1, 4, 5), (2, 3, 6, 7))),
        ("@mesh[x=8] {x:(4)2}", ((0, 1), (2, 3), (4, 5), (6, 7))),
    ],
)
def test_ways_of_writing(text: str, expected: tuple[tuple[int, ...], ...]) -> None:
    assert expand(parse_groups(text)) == expected


def test_a_permutation_that_changes_nothing_is_no_difference() -> None:
    assert Iota(2, 2, (2, 2), (0, 1)) == Iota(2, 2, (2, 2))


def test_a_size_is_known_without_expanding() -> None:
    assert group_size(Iota(1 << 40, 1 << 10, (1 << 50,))) == 1 << 10
    assert group_size(ListedGroups(((0, 1), (2,)))) is None


def test_a_thousand_devices_expand_once() -> None:
    groups = Mesh((128, 8), (Axis(0),))
    first = expand(groups)
    assert len(first) == 8
    assert len(first[0]) == 128
    assert expand(Mesh((128, 8), (Axis(0),))) is first


@pytest.mark.parametrize("text", ["", "nonsense", "[2]<=[4]", "mesh['x'=4] {'y'}", "{{0,1}"])
def test_what_is_no_group_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="replica groups"):
        parse_groups(text)


@pytest.mark.parametrize(
    "groups",
    [
        Iota(2, 3, (4,)),
        Iota(1, 4, (2, 2), (0, 5)),
        Iota(1, 1 << 60, (1 << 60,)),
        Mesh((4,), (Axis(3),)),
        Mesh((4,), (Axis(0, 3, 2),)),
        Mesh((4,), (Axis(0),), (1, 2)),
    ],
)
def test_groups_that_do_not_add_up_are_refused(groups: Iota | Mesh) -> None:
    with pytest.raises(InputError, match="can't be expanded"):
        expand(groups)
