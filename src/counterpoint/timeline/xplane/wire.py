"""Protobuf's wire format read by column: one numpy operation for thousands of messages.

A profile holds millions of small messages; a Python object for each would cost seconds and
gigabytes. Here a block of bytes is scanned in lanes that advance in lockstep, and a field is
decoded for all messages at once from unaligned eight-byte loads.

Reference: https://protobuf.dev/programming-guides/encoding.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from counterpoint.core.wire import Malformed, varint

Positions = NDArray[np.int64]
Words = NDArray[np.uint64]
Pairs = NDArray[np.uint16]

PAD: Final = 24
"""Number of zero bytes after the end of every block, so that a load near it stays inside."""

_CONTINUES = np.uint64(0x8080808080808080)
_PAYLOAD = np.uint64(0x7F7F7F7F7F7F7F7F)
_ODD = (
    (np.uint64(0x7F007F007F007F00), np.uint64(1)),
    (np.uint64(0x3FFF00003FFF0000), np.uint64(2)),
    (np.uint64(0x0FFFFFFF00000000), np.uint64(4)),
)
_ONE = np.uint64(1)

_LANE_BYTES: Final = 8192
_SEARCHED_BYTES: Final = 256
"""Bytes at the head of each lane to search for an entry; a lane without one joins the previous."""

_STRIDE: Final = 24
"""Number of hops between checks for lanes that have finished."""

# More hops than any entry has nested entries of the same tag: by then a lane that starts inside an
# entry has left it and joined the true chain.
_SYNC_HOPS: Final = 48


class WireBlock:
    """A piece of a file: its bytes, padded, and the same bytes as overlapping eight-byte words."""

    def __init__(self, data: bytes | bytearray | memoryview) -> None:
        self.size = len(data)
        self.bytes = np.zeros(self.size + PAD, np.uint8)
        self.bytes[: self.size] = np.frombuffer(data, np.uint8)
        self.words: Words = np.ndarray((self.size + PAD - 8,), "<u8", self.bytes.data, strides=(1,))
        self._pairs: Pairs = np.ndarray(
            (self.size + PAD - 8,), "<u2", self.bytes.data, strides=(1,)
        )

    def varints(self, at: Positions) -> tuple[Words, Positions]:
        """Return the varint at each position, and its size in bytes."""
        word = self.words[at]
        stop = ~word
        stop &= _CONTINUES
        mask = stop - _ONE
        mask ^= stop
        size = (np.bitwise_count(mask) >> 3).astype(np.int64)
        value = mask
        value &= word
        value &= _PAYLOAD
        for odd, shift in _ODD:
            high = value & odd
            value ^= high
            high >>= shift
            value |= high
        if not stop.all():
            self._finish_long(at, stop == 0, value, size)
        return value, size

    def _finish_long(
        self, at: Positions, long: NDArray[np.bool_], value: Words, size: Positions
    ) -> None:
        """Complete varints of nine or ten bytes (negative int64, hashes) from the next word."""
        tail = self.words[at[long] + 8]
        second = (tail >> np.uint64(7)) & _ONE
        value[long] |= (tail & np.uint64(0x7F)) << np.uint64(56)
        value[long] |= (second & (tail >> np.uint64(8)) & _ONE) << np.uint64(63)
        size[long] = 9 + second.astype(np.int64)

    def entries(self, tag: int) -> tuple[Positions, int]:
        """Return where each entry of a repeated message field starts, from the first byte on.

        Also return where the run of whole entries ends: at another tag, or at an entry that is cut
        off.
        """
        return self._lockstep(tag) or self._one_by_one(tag)

    def _lockstep(self, tag: int) -> tuple[Positions, int] | None:
        """Scan many lanes at once; return None if a lane's guessed start was not on the chain."""
        begin = self._lane_starts(tag)
        if len(begin) < 2:
            return None
        target = np.append(begin[1:], self.size)
        landed = np.empty(len(begin), np.int64)
        visited: list[tuple[Positions, Positions, Positions]] = []
        lane, at = np.arange(len(begin)), begin
        while len(lane):
            # One row per hop. A finished lane keeps hopping until the stride ends: that is cheaper
            # than checking after each hop.
            trail = np.empty((_STRIDE + 1, len(lane)), np.int64)
            trail[0] = at
            for hop in range(_STRIDE):
                at = self._hop_on(at, tag, trail[hop + 1])
            inside = (trail[:-1] < target[lane]) & (trail[1:] > trail[:-1])
            own = inside.sum(axis=0)
            visited.append((trail[:-1].T[inside.T], lane, own))
            ended = own < _STRIDE
            landed[lane[ended]] = trail[own[ended], np.flatnonzero(ended)]
            lane, at = lane[~ended], at[~ended]
        # Each lane must end exactly where the next began: then, by induction from the block's first
        # byte, every position visited is a true start.
        if (landed[:-1] != target[:-1]).any():
            return None
        return _in_order(visited, len(begin)), int(landed[-1])

    def _lane_starts(self, tag: int) -> Positions:
        lanes = self.size // _LANE_BYTES
        rows = self.bytes[: lanes * _LANE_BYTES].reshape(lanes, _LANE_BYTES)[1:]
        looks = (rows[:, :_SEARCHED_BYTES] == tag) & (rows[:, 2 : _SEARCHED_BYTES + 2] == 0x08)
        marked = np.flatnonzero(looks.any(axis=1))
        if not len(marked):
            return np.zeros(1, np.int64)
        at = before = (marked + 1) * _LANE_BYTES + looks[marked].argmax(axis=1)
        for _ in range(_SYNC_HOPS):
            before, at = at, self._hop_on(at, tag, np.empty_like(at))
        return np.unique(np.append(at[at > before], 0))

    def _hop_on(self, at: Positions, tag: int, out: Positions) -> Positions:
        """Return the position after each entry, or the position itself if no whole entry starts."""
        step = _short_steps(tag)[self._pairs[at]]
        np.add(at, step, out=out)
        doubtful = np.flatnonzero((step == 0) | (out > self.size))
        if len(doubtful):
            doubtful_at = at[doubtful]
            after, whole = self._hop(doubtful_at, tag)
            out[doubtful] = np.where(whole, after, doubtful_at)
        return out

    def _hop(self, at: Positions, tag: int) -> tuple[Positions, NDArray[np.bool_]]:
        """Return the position after each entry, and whether it is a whole entry of that tag."""
        word = self.words[at]
        length = ((word >> np.uint64(8)) & np.uint64(0x7F)).astype(np.int64)
        after = at + 2 + length
        long = (word & np.uint64(0x8000)) != 0
        if long.any():
            sizes, taken = self.varints(at[long] + 1)
            too_long = sizes > np.uint64(self.size)
            sizes[too_long] = self.size + 1
            after[long] = at[long] + 1 + taken + sizes.astype(np.int64)
        whole = ((word & np.uint64(0xFF)) == tag) & (after <= self.size)
        return after, whole

    def _one_by_one(self, tag: int) -> tuple[Positions, int]:
        """Scan in plain Python, for short blocks and for chains that the lanes misread."""
        data, size = self.bytes.tobytes(), self.size
        starts: list[int] = []
        at = 0
        while at < size and data[at] == tag:
            length = data[at + 1]
            after = at + 2
            if length > 0x7F:
                length, after = varint(data, at + 1)
            if after + length > size:
                break
            starts.append(at)
            at = after + length
        return np.array(starts, np.int64), at


@cache
def _short_steps(tag: int) -> Positions:
    """Return the distance to the next entry, by an entry's first two bytes.

    The distance is 0 if these do not determine it.
    """
    steps = np.zeros(1 << 16, np.int64)
    lengths = np.arange(0x80)
    steps[tag | lengths << 8] = 2 + lengths
    return steps


def _in_order(visited: Sequence[tuple[Positions, Positions, Positions]], lanes: int) -> Positions:
    """Return positions in block order, from strides of (positions, lanes, hops of each)."""
    hops = np.zeros(lanes, np.int64)
    for _, lane, own in visited:
        hops[lane] += own
    place = np.cumsum(hops) - hops
    result = np.empty(int(hops.sum()), np.int64)
    for positions, lane, own in visited:
        shift = place[lane] - (np.cumsum(own) - own)
        result[np.arange(len(positions)) + np.repeat(shift, own)] = positions
        place[lane] += own
    return result


def text_at(data: NDArray[np.uint8], at: int, end: int) -> str:
    """Return the text whose length is at this position."""
    length, begin = varint(data.data, at)
    if begin + length > end:
        raise Malformed("the text of a stat is damaged")
    return data[begin : begin + length].tobytes().decode("utf-8", "replace")


def signed(value: int) -> int:
    """Return a varint as the signed number that it encodes."""
    return value - (1 << 64) if value >> 63 else value
