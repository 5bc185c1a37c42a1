"""Collectives on TPUs: over the links of a slice, by axis, and between slices over the network.

    an axis that is a ring      two links of a chip carry its data, one each way
    an axis that is a line      the links at its middle carry everything: as one link
    several axes                each carries a part of the data at the same time
    every second chip of one    the groups in between have the links, too: half of the rate
    pairs of chips              along one axis after another; those that meet on a link share it

An all-gather of B bytes over n chips receives B (n - 1) / n; a reduce-scatter sends as much, an
all-reduce does both. libtpu numbers the devices of a slice along its first axis first, so a group's
numbers tell where it lies. If they fill no box of the slice, it is assumed to lie on whole axes, as
JAX's `create_device_mesh` places it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Final, TypeAlias

from counterpoint.hardware.tpu import TpuSlice
from counterpoint.hlo.collectives import PAIRWISE

LINK_SHARE: Final = 0.9
"""Share of a link's rate that transfers reach: 45 of 50 GB/s, 90 of 100 (JAX scaling book)."""
NETWORK_SHARE: Final = 0.8
"""Share of the network's rate between slices; a rule of thumb."""
HOP_S: Final = 1e-6
"""From a chip to its neighbor (JAX scaling book)."""
START_S: Final = 2e-6
NETWORK_START_S: Final = 50e-6
"""From HBM over the host, the network and the other host; a rule of thumb."""
_ON_CHIP_BYTES_PER_S: Final = 370e9
"""Between the two devices of a TPU7x: 10.5 MB in 28.4 us (a public trace of vLLM)."""


Pairs: TypeAlias = tuple[tuple[int, int], ...]
Axis: TypeAlias = tuple[int, bool, int]
"""Its length in chips of a group, whether it is a ring, and the links from one to the next."""


@dataclass(frozen=True, slots=True)
class Axes:
    """Axes of a slice that a group lies on."""

    axes: tuple[Axis, ...]

    @property
    def links(self) -> float:
        """Links of one chip that carry data at once; groups in between share them."""
        return sum((2 if ring else 1) / apart for _, ring, apart in self.axes)

    @property
    def hops(self) -> int:
        """Steps from one end to the other, along all axes."""
        lengths = (
            (length // 2 if ring else length - 1, apart) for length, ring, apart in self.axes
        )
        return sum(steps * apart for steps, apart in lengths)

    def __str__(self) -> str:
        return " and ".join(
            f"a {'ring' if ring else 'line'} of {length}{f', {apart} apart' if apart > 1 else ''}"
            for length, ring, apart in self.axes
        )


def placed(devices: Sequence[int], where: TpuSlice) -> Axes | None:
    """Return the axes that a group lies on by its devices' numbers; None if they fill no box."""
    chips = {device // where.tpu.devices for device in devices}
    axes: list[Axis] = []
    before = 1
    for side, ring in where.rings:
        at = sorted({chip // before % side for chip in chips})
        before *= side
        apart = (at[-1] - at[0]) // max(len(at) - 1, 1) or 1
        if at != [*range(at[0], at[-1] + 1, apart)]:
            return None
        if len(at) > 1:
            axes.append((len(at), ring and len(at) * apart == side, apart))
    is_box = math.prod(length for length, _, _ in axes) == len(chips) and max(chips) < before
    return Axes(tuple(axes)) if is_box else None


def assumed(group: int, where: TpuSlice) -> Axes:
    """Return whole axes as far as they divide a group of so many, then a part of one: a line."""
    chips = max(1, min(group, where.devices) // where.tpu.devices)
    axes: list[Axis] = []
    for length, ring in sorted(where.rings, reverse=True):
        common = math.gcd(chips, length)
        if common > 1:
            axes.append((common, ring and common == length, 1))
            chips //= common
    return Axes((*axes, (chips, False, 1)) if chips > 1 else tuple(axes))


@dataclass(frozen=True, slots=True)
class TransferTime:
    """Seconds of a collective: those that its size takes, those of the way, and what carries it."""

    size_s: float
    way_s: float
    how: str

    @property
    def seconds(self) -> float:
        return self.size_s + self.way_s


def within_slice(
    kind: str, size: int, group: int, where: TpuSlice, devices: Sequence[int] = ()
) -> TransferTime:
    """Return the time of a collective of a group in one slice; `size` as nccl-tests count.

    `devices` are the numbers of the group's, if they are known.
    """
    if group <= 1:
        return TransferTime(0.0, START_S, "one device")
    by_numbers = placed(devices, where) if devices else None
    if group <= where.tpu.devices and not (by_numbers and by_numbers.axes):
        return TransferTime(
            size * _factor(kind, group) / _ON_CHIP_BYTES_PER_S, START_S, "devices of one chip"
        )
    axes = by_numbers or assumed(group, where)
    link = where.tpu.link_bytes_per_s * LINK_SHARE / where.tpu.devices
    way = START_S + HOP_S * axes.hops * (2 if kind == "all-reduce" else 1)
    if kind in ("all-to-all", "ragged-all-to-all"):
        return TransferTime(_all_to_all(size, axes, link), way, str(axes))
    if kind in PAIRWISE:
        return TransferTime(size / link, START_S + HOP_S, "a link to a neighbor, which is assumed")
    rate = link * axes.links
    return TransferTime(size * _factor(kind, group) / rate, way, str(axes))


def of_pairs(size: int, pairs: Pairs, where: TpuSlice) -> TransferTime:
    """Return the time in which the first of each pair sends to the second, in one slice."""
    shared, hops = busiest(pairs, where)
    if not hops:
        return TransferTime(size / _ON_CHIP_BYTES_PER_S, START_S, "devices of one chip")
    links = f"a link that {shared:g} pairs share" if shared > 1 else "links of one pair each"
    how = "a link to a neighbor" if shared <= hops == 1 else f"{links}, {hops} hops"
    rate = where.tpu.link_bytes_per_s * LINK_SHARE
    return TransferTime(size * shared / rate, START_S + HOP_S * hops, how)


@lru_cache(maxsize=64)
def busiest(pairs: Pairs, where: TpuSlice) -> tuple[float, int]:
    """Return how many pairs the busiest link carries in one direction, and the hops of the longest.

    Data goes along the first axis, then along the next; on a ring it goes the shorter way, and half
    of it each way if both are equally long, as in `_all_to_all`.
    """
    halves: Counter[tuple[int, int]] = Counter()
    longest = 0
    for source, target in pairs:
        chip, to = source // where.tpu.devices, target // where.tpu.devices
        hops, stride = 0, 1
        for side, ring in where.rings if chip // where.chips == to // where.chips else ():
            at, end, around = chip // stride % side, to // stride % side, side * (2 - ring)
            steps = min((end - at) % around, (at - end) % around)
            ways = [way for way in (1, -1) if way * (end - at) % around == steps]
            for way, step in product(ways, range(steps)):
                passed = (at + way * step) % side
                halves[chip + (passed - at) * stride, way * stride] += 2 // len(ways)
            chip += (end - at) * stride
            hops += steps
            stride *= side
        longest = max(longest, hops)
    return max(halves.values(), default=0) / 2, longest


def _factor(kind: str, group: int) -> float:
    if kind in (*PAIRWISE, "collective-broadcast"):
        return 1.0
    return (2 if kind == "all-reduce" else 1) * (group - 1) / group


def _all_to_all(size: int, axes: Axes, link: float) -> float:
    """Return the time of the axis whose middle carries most: half of its data crosses it."""
    return max(
        (size * length * apart / (8 if ring else 4) / link for length, ring, apart in axes.axes),
        default=0.0,
    )


def between_slices(kind: str, size: int, slices: int, where: TpuSlice) -> TransferTime:
    """Return the time of a transfer of one device with those of other slices."""
    rate = where.links.nic_bytes_per_s * NETWORK_SHARE
    how = f"{slices} slices, {rate / 1e9:.3g} GB/s for each device"
    return TransferTime(size * _factor(kind, max(slices, 2)) / rate, NETWORK_START_S, how)
