"""Shapes: sizes of odd types, and every spelling of HLO text."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoint.core.errors import InputError
from counterpoint.hlo.model.instruction import Shape, element_bits
from counterpoint.hlo.proto_reader import ELEMENT_TYPES
from counterpoint.hlo.text_reader import Shapes

ARRAYS = st.builds(
    lambda dtype, dims: Shape(dtype, tuple(dims)),
    st.sampled_from(["f32", "bf16", "s4", "pred", "f8e4m3fn", "u1", "c64", "f4e2m1fn"]),
    st.lists(st.integers(0, 50), max_size=4),
)
SHAPES = st.recursive(
    ARRAYS, lambda inner: st.lists(inner, max_size=4).map(lambda p: Shape("tuple", parts=tuple(p)))
)


@given(SHAPES)
def test_a_shape_is_read_as_it_is_written(shape: Shape) -> None:
    assert Shapes().read(str(shape)) == shape


@given(SHAPES)
def test_a_tuple_is_the_sum_of_its_leaves(shape: Shape) -> None:
    leaves = list(shape.leaves)
    assert shape.elements == sum(math.prod(leaf.dims) for leaf in leaves)
    assert shape.bytes == sum(leaf.bytes for leaf in leaves)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("f32[]", 4), ("bf16[3,5]", 30), ("pred[7]", 7), ("s4[3]", 2), ("u4[4]", 2), ("u1[9]", 2),
        ("f4e2m1fn[5]", 3), ("f8e5m2[5]", 5), ("f8e4m3b11fnuz[2]", 2), ("f8e8m0fnu[2]", 2),
        ("f6e2m3fn[4]", 3), ("c128[2]", 32), ("token[]", 0), ("opaque[]", 0), ("f32[0,4]", 0),
        ("f32[<=8,2]", 64), ("(f32[2], (s4[3], token[]))", 10), ("()", 0), ("b(f32[2]{0})", 8),
    ],
)  # fmt: skip
def test_sizes(text: str, size: int) -> None:
    assert Shapes().read(text).bytes == size


def test_layouts_say_order_and_memory_space() -> None:
    shape = Shapes().read("bf16[8,128]{1,0:T(8,128)(2,1)S(5)}")
    assert shape == Shape("bf16", (8, 128), minor_to_major=(1, 0), memory_space=5)
    assert Shapes().read("s4[8]{0:E(4)}").minor_to_major == (0,)
    assert Shapes().read("s32[]{:S(2)}").memory_space == 2
    tuple_shape = Shapes().read("(f32[2]{0}, /*index=1*/s32[], /*index=2*/u8[3]{0})")
    assert [part.dtype for part in tuple_shape.parts] == ["f32", "s32", "u8"]


def test_every_element_type_of_xla_has_a_width() -> None:
    held = {name for name in ELEMENT_TYPES.values() if element_bits(name)}
    assert set(ELEMENT_TYPES.values()) - held == {"tuple", "token", "opaque", "buffer"}


@pytest.mark.parametrize("text", ["", "f32", "f32[2", "[2]", "quaternion[2]", "f32[2]{0} junk"])
def test_what_is_no_shape_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        Shapes().read(text)


@pytest.mark.parametrize(
    "shape",
    [
        Shape("f32", (-8, 2)),
        Shape("f32", (2**40, 2**40)),
        Shape("f32", (8, 2), minor_to_major=(2, 0)),
    ],
)
def test_no_array_has_such_a_shape(shape: Shape) -> None:
    with pytest.raises(ValueError, match="shape f32"):
        shape.sound()
