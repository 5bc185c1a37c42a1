"""Collectives on TPUs: over the links of a slice, by axis, and between slices over the network.

    an axis that is a ring      two links of a chip carry its data, one each way
    an axis that is a line      the links at its middle carry everything: as one link
    several axes                each carries a part of the data at the same time

An all-gather of B bytes over n chips receives B (n - 1) / n; a reduce-scatter sends as much, an
all-reduce does both. The participants of a smaller group are assumed to lie on whole axes, as JAX's
`create_device_mesh` places them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from typing import Final

from counterpoint.core.frozen import frozen
from counterpoint.hardware import TpuSlice

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


@frozen
class Axes:
    """Axes of a slice that a group lies on: their lengths, and whether each is a ring."""

    axes: tuple[tuple[int, bool], ...]

    @property
    def chips(self) -> int:
        return math.prod(length for length, _ in self.axes)

    @property
    def links(self) -> int:
        """Links of one chip that carry data at once."""
        return sum(2 if ring else 1 for _, ring in self.axes)

    @property
    def hops(self) -> int:
        """Steps from one end to the other, along all axes."""
        return sum(length // 2 if ring else length - 1 for length, ring in self.axes)

    def __str__(self) -> str:
        return " and ".join(
            f"a {'ring' if ring else 'line'} of {length}" for length, ring in self.axes
        )


def axes_of(group: int, where: TpuSlice) -> Axes:
    """Return the axes that a group of so many devices lies on, within one slice."""
    chips = max(1, min(group, where.devices) // where.tpu.devices)
    rings = where.rings
    for count in range(1, len(rings) + 1):
        for chosen in combinations(rings, count):
            if math.prod(length for length, _ in chosen) == chips:
                return Axes(chosen)
    return Axes(_parts(chips, rings))


def _parts(chips: int, rings: Sequence[tuple[int, bool]]) -> tuple[tuple[int, bool], ...]:
    """Return whole axes as far as they divide the group, then a part of one: a line."""
    found: list[tuple[int, bool]] = []
    for length, ring in sorted(rings, reverse=True):
        common = math.gcd(chips, length)
        if common > 1:
            found.append((common, ring and common == length))
            chips //= common
    if chips > 1:
        found.append((chips, False))
    return tuple(found)


@frozen
class TransferTime:
    """Seconds of a collective: those that its size takes, those of the way, and what carries it."""

    size_s: float
    way_s: float
    how: str

    @property
    def seconds(self) -> float:
        return self.size_s + self.way_s


def within_slice(kind: str, size: int, group: int, where: TpuSlice) -> TransferTime:
    """Return the time of a collective of a group in one slice; `size` as nccl-tests count."""
    if group <= 1:
        return TransferTime(0.0, START_S, "one device")
    if group <= where.tpu.devices:
        return TransferTime(
            size * _factor(kind, group) / _ON_CHIP_BYTES_PER_S, START_S, "devices of one chip"
        )
    axes = axes_of(group, where)
    link = where.tpu.link_bytes_per_s * LINK_SHARE / where.tpu.devices
    way = START_S + HOP_S * axes.hops * (2 if kind == "all-reduce" else 1)
    if kind in ("all-to-all", "ragged-all-to-all"):
        return TransferTime(_all_to_all(size, axes, link), way, str(axes))
    if kind == "collective-permute":
        return TransferTime(size / link, START_S + HOP_S, "one link to a neighbor")
    rate = link * axes.links
    return TransferTime(size * _factor(kind, group) / rate, way, str(axes))


def _factor(kind: str, group: int) -> float:
    if kind in ("collective-permute", "collective-broadcast", "send", "recv"):
        return 1.0
    return (2 if kind == "all-reduce" else 1) * (group - 1) / group


def _all_to_all(size: int, axes: Axes, link: float) -> float:
    """Return the time of the axis whose middle carries most: half of its data crosses it."""
    return max(
        (size * length / (8 if ring else 4) / link for length, ring in axes.axes), default=0.0
    )


def between_slices(kind: str, size: int, slices: int, where: TpuSlice) -> TransferTime:
    """Return the time of a transfer of one device with those of other slices."""
    rate = where.links.nic_bytes_per_s * NETWORK_SHARE
    how = f"{slices} slices, {rate / 1e9:.3g} GB/s for each device"
    return TransferTime(size * _factor(kind, max(slices, 2)) / rate, NETWORK_START_S, how)
