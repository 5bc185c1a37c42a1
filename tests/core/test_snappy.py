"""Snappy: what it compresses comes back, and damage is told."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoint.core.snappy import from_snappy
from counterpoint.core.wire import Malformed, written_varint

LITERALS = st.lists(st.binary(min_size=1, max_size=60), max_size=20)


def compressed(parts: list[bytes]) -> bytes:
    """Return the parts as literals."""
    body = b"".join(bytes([(len(part) - 1) << 2]) + part for part in parts)
    return written_varint(sum(map(len, parts))) + body


@given(LITERALS)
def test_literals_come_back(parts: list[bytes]) -> None:
    content = b"".join(parts)
    assert from_snappy(memoryview(compressed(parts)), len(content)) == content


def test_a_copy_may_overlap_what_it_writes() -> None:
    data = written_varint(10) + bytes([1 << 2]) + b"ab" + bytes([(8 - 4) << 2 | 1, 2])
    assert from_snappy(memoryview(data), 10) == b"ababababab"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        written_varint(3) + bytes([2 << 2]) + b"ab",  # ends too early
        written_varint(1) + bytes([1 << 2]) + b"ab",  # longer than it says
        written_varint(9) + bytes([1 << 2]) + b"ab" + bytes([1, 9]),  # from before the beginning
    ],
)
def test_damage_is_told(data: bytes) -> None:
    with pytest.raises(Malformed):
        from_snappy(memoryview(data), 100)


@given(st.binary(max_size=200))
def test_any_bytes_are_content_or_damage(data: bytes) -> None:
    with suppress(Malformed):
        assert len(from_snappy(memoryview(data), 1000)) <= 1000
