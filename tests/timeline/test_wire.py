"""The wire decoder: what it reads is what was written, whatever road the bytes take."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xspace_builder import Value, field_bytes, message, varint

from counterpoint.core import wire
from counterpoint.core.wire import Malformed, fields
from counterpoint.timeline.xplane.wire import WireBlock

EVENT = 0x22

numbers = st.one_of(
    st.integers(0, 2**64 - 1),
    st.integers(0, 63).map(lambda bit: 1 << bit),
    st.integers(0, 63).map(lambda bit: (1 << bit) - 1),
)


def starts_of(pieces: list[bytes]) -> list[int]:
    return [0, *itertools.accumulate(len(piece) for piece in pieces)][:-1]


@given(st.lists(numbers, min_size=1))
def test_varints_of_every_length_are_read_at_once(values: list[int]) -> None:
    pieces = [varint(value) for value in values]
    read, sizes = WireBlock(b"".join(pieces)).varints(np.array(starts_of(pieces)))
    assert read.tolist() == values
    assert sizes.tolist() == [len(piece) for piece in pieces]


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1))
def test_negative_numbers_keep_their_sign(values: list[int]) -> None:
    pieces = [varint(value) for value in values]
    read, _ = WireBlock(b"".join(pieces)).varints(np.array(starts_of(pieces)))
    assert read.view(np.int64).tolist() == values


@given(numbers)
def test_the_scalar_varint_agrees_with_the_column(value: int) -> None:
    raw = varint(value)
    assert wire.varint(raw, 0) == (value, len(raw))


def test_bits_beyond_the_last_are_dropped() -> None:
    raw = b"\xff" * 9 + b"\x7f"
    assert wire.varint(raw, 0) == (2**64 - 1, 10)
    value, size = WireBlock(raw).varints(np.array([0]))
    assert (value.tolist(), size.tolist()) == ([2**64 - 1], [10])


# Bodies of events: some are full of what looks like the start of further events.
stats = st.one_of(
    st.binary(max_size=200),
    st.integers(0, 40).map(lambda times: b"\x22\x02\x08\x01" * times),
    st.tuples(st.integers(1, 500), numbers).map(lambda s: message((1, s[0]), (4, s[1]))),
    st.integers(0, 90).map(lambda times: message((1, 3), (5, b"\x22\x04\x08\x01\x22\x00" * times))),
)
bodies = st.builds(
    lambda metadata, offset, duration, kept: (
        message((1, metadata), (2, offset), (3, duration))
        + b"".join(field_bytes(4, stat) for stat in kept)
    ),
    st.integers(0, 2**20),
    numbers,
    st.integers(0, 2**40),
    st.lists(stats, max_size=6),
)


@st.composite
def chains(draw: st.DrawFn) -> list[bytes]:
    """Enough entries for several lanes, in an order of their own."""
    kinds = [field_bytes(4, body) for body in draw(st.lists(bodies, min_size=1, max_size=8))]
    order = np.random.default_rng(draw(st.integers(0, 2**32)))
    count = 40_000 // min(len(kind) for kind in kinds)
    return [kinds[one] for one in order.integers(len(kinds), size=min(count, 4_000))]


@given(chains())
def test_walking_in_lanes_finds_the_same_entries_as_one_by_one(chain: list[bytes]) -> None:
    data = b"".join(chain)
    starts, stop = WireBlock(data).entries(EVENT)
    assert starts.tolist() == starts_of(chain)
    assert stop == len(data)
    slow, slow_stop = WireBlock(data)._one_by_one(EVENT)
    assert slow.tolist() == starts.tolist()
    assert slow_stop == stop


@given(chains(), st.integers(0, 40_000))
def test_an_entry_that_is_cut_off_is_left(chain: list[bytes], cut: int) -> None:
    data = b"".join(chain)[:cut]
    starts, stop = WireBlock(data).entries(EVENT)
    whole = [
        at for at, piece in zip(starts_of(chain), chain, strict=True) if at + len(piece) <= cut
    ]
    assert starts.tolist() == whole
    assert stop == (whole[-1] + len(chain[len(whole) - 1]) if whole else 0)


@given(chains(), chains(), st.sampled_from([(9, 5), (11, "name"), (10, -1)]))
def test_another_field_ends_the_run(
    before: list[bytes], after: list[bytes], other: tuple[int, Value]
) -> None:
    data = b"".join(before)
    starts, stop = WireBlock(data + message(other) + b"".join(after)).entries(EVENT)
    assert starts.tolist() == starts_of(before)
    assert stop == len(data)


def test_ordinary_events_are_walked_in_lanes() -> None:
    event = field_bytes(
        4, message((1, 5), (2, 10**12), (3, 1000)) + message((4, b"\x08\x01\x20\x02"))
    )
    block = WireBlock(event * 2000)
    walked = block._lockstep(EVENT)
    assert walked is not None
    assert walked[0].tolist() == list(range(0, 2000 * len(event), len(event)))


@given(st.binary(max_size=300))
def test_arbitrary_bytes_are_read_or_refused(data: bytes) -> None:
    starts, stop = WireBlock(data).entries(EVENT)
    assert 0 <= stop <= len(data)
    assert (starts < max(stop, 1)).all()
    try:
        found = list(fields(memoryview(data), 0, len(data)))
    except Malformed:
        return
    assert not found or found[-1][3] == len(data)


@given(st.lists(st.tuples(st.integers(1, 2**28), st.one_of(numbers, st.binary(), st.floats()))))
def test_fields_are_found_where_they_were_written(written: list[tuple[int, Value]]) -> None:
    data = memoryview(message(*written))
    found = list(fields(data, 0, len(data)))
    assert [number for number, _, _, _ in found] == [number for number, _ in written]
    for (_, kind, start, end), (_, value) in zip(found, written, strict=True):
        if isinstance(value, int):
            assert kind == wire.VARINT
            assert wire.varint(data, start) == (value, end)
        elif isinstance(value, bytes):
            assert kind == wire.LENGTH
            assert data[start:end] == value
        else:
            assert (kind, end - start) == (wire.FIXED64, 8)


@pytest.mark.parametrize(
    "damage",
    [
        b"\x0b",  # a group
        b"\x00\x01",  # field number 0
        b"\x08",  # no value
        b"\x08" + b"\xff" * 11,  # a number without an end
        b"\x12\x05abc",  # reaches behind the file
        b"\x11\x01\x02",  # half a double
        field_bytes(2, b"")[:-1] + varint(1 << 60),  # an exabyte
    ],
)
def test_damaged_fields_are_refused(damage: bytes) -> None:
    with pytest.raises(Malformed):
        list(fields(memoryview(damage), 0, len(damage)))


def test_a_length_beyond_the_file_ends_the_run() -> None:
    whole = field_bytes(4, message((1, 1), (2, 5)))
    starts, stop = WireBlock(whole * 3 + b"\x22" + varint(1 << 62) + bytes(9000)).entries(EVENT)
    assert (len(starts), stop) == (3, 3 * len(whole))
