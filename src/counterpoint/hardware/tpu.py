"""TPUs: the generations, and slices of them with their torus of links.

The section [tpu] of a chip's file has the figures of a generation; its peak rates are its chip's.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Final, Literal

import msgspec

from counterpoint.hardware.links import Links

_BYTES_PER_GBIT: Final = 1e9 / 8
_FLAT_SIDES: Final = (1, 2, 4, 8, 16)
_CUBE: Final = 4
_SMALL_CUBES: Final = {1: (1, 1, 1), 4: (2, 2, 1), 8: (2, 2, 2), 16: (2, 2, 4), 32: (2, 4, 4)}


class Tpu(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One generation: section [tpu]. Rates are bytes per second in one direction.

    Of v4 and v5p the two cores of a chip are one device, of TPU7x each is one.
    """

    name: str  # as in the names of slices: v5e, tpu7x
    aliases: tuple[str, ...] = ()
    libtpu: str  # its name in libtpu's topologies, as in v5e:16x16
    kind: str  # what a device calls itself, as in profiles
    megacore: bool = False  # libtpu has to be told that the cores of a chip are one device
    counted: Literal["chips", "cores"]  # the number in a slice's name: v5p-128 are 128 cores
    cores: int  # TensorCores of a chip
    devices: int  # of one chip, as JAX counts them
    # Of the cycles in libtpu's estimates; its scheduler's dump says how many are a microsecond.
    clock_ghz: float
    # Of one device, in a product of two bf16[8192,8192] by the estimate of libtpu 0.0.42.1.
    product_flops: float
    dimensions: int  # of the torus
    # Axes of a multiple of this length are rings: optical switches join cubes of 4x4x4, and of 2D
    # slices only the whole side of a pod is one.
    wraps: int
    # Of one chip to its neighbors, and the rate of all of them. Google states both directions
    # together ("bidirectional"), or Gb/s of one. A group of chips along one axis of the torus has
    # two of a chip's links; a slice smaller than the torus lacks some.
    ici_links: int
    ici_bytes_per_s: float
    slice: int  # chips of the largest slice; more are several, joined by the data center's network
    slice_source: str
    host: int  # chips of a host, in a slice of several
    most_host: int  # of the largest machine sold as one
    dcn_gbps: float  # of one host, where a target names none
    dcn_source: str
    host_bytes_per_s: float  # PCIe of one chip to its host
    hbm_usable: int  # bytes that libtpu 0.0.42.1 leaves to a program of one device
    source: str

    @property
    def device_bytes_per_s(self) -> float:
        """A device's share of the links, while all devices of its chip use them."""
        return self.ici_bytes_per_s / self.devices

    @property
    def link_bytes_per_s(self) -> float:
        return self.ici_bytes_per_s / self.ici_links

    @property
    def slice_devices(self) -> int:
        """Number of devices of the largest slice."""
        return self.slice * self.devices

    @property
    def counted_per_chip(self) -> int:
        return self.cores if self.counted == "cores" else 1

    def sizes(self) -> Iterator[int]:
        """Yield the numbers of chips that slices have, in order."""
        numbers = range(1, self.slice + 1)
        yield from (chips for chips in numbers if self.shape(chips) is not None)

    def shape(self, chips: int) -> tuple[int, ...] | None:
        """Return the shape of a slice of so many chips, as Google sells it; None if there is none.

        The most compact one: of v5p, 256 chips are 4x8x8, not 4x4x16.
        """
        if not 0 < chips <= self.slice:
            return None
        if self.dimensions == 2:
            return _flat(chips)
        return _SMALL_CUBES.get(chips) or _cubes(chips)

    def accepts(self, shape: tuple[int, ...]) -> bool:
        """Return whether there can be a slice of this shape."""
        if len(shape) != self.dimensions or not 0 < math.prod(shape) <= self.slice:
            return False
        if self.dimensions == 2:
            return all(side in _FLAT_SIDES for side in shape)
        if math.prod(shape) in _SMALL_CUBES:
            return sorted(shape) == sorted(_SMALL_CUBES[math.prod(shape)])
        return all(side % _CUBE == 0 for side in shape)


def _flat(chips: int) -> tuple[int, int] | None:
    shapes = [
        (a, b) for a, b in product(_FLAT_SIDES, repeat=2) if a * b == chips and a <= b <= 2 * a
    ]
    return shapes[0] if shapes and chips != 2 else None


def _cubes(chips: int) -> tuple[int, ...] | None:
    cubes, rest = divmod(chips, _CUBE**3)
    if rest:
        return None
    shapes = [
        (a, b, cubes // (a * b))
        for a in range(1, math.isqrt(cubes) + 1)
        for b in range(a, cubes // a + 1)
        if cubes % (a * b) == 0 and cubes // (a * b) >= b
    ]
    best = min(shapes, key=lambda sides: (sides[2], -sides[0]))
    return tuple(side * _CUBE for side in best)


@dataclass(frozen=True, slots=True, kw_only=True)
class TpuSlice:
    """One or several equal slices of a generation."""

    tpu: Tpu
    shape: tuple[int, ...]
    slices: int = 1
    dcn_gbps: float | None = None  # of a host; None if not specified

    @property
    def chips(self) -> int:
        """Chips of one slice."""
        return math.prod(self.shape)

    @property
    def devices(self) -> int:
        """Devices of one slice, as JAX counts them."""
        return self.chips * self.tpu.devices

    @property
    def chips_per_host(self) -> int:
        alone = self.slices == 1 and self.chips <= self.tpu.most_host
        return self.chips if alone else min(self.tpu.host, self.chips)

    @property
    def hosts(self) -> int:
        """Hosts of one slice."""
        return self.chips // self.chips_per_host

    @property
    def rings(self) -> tuple[tuple[int, bool], ...]:
        """The axes longer than one chip: the length of each, and whether it is a ring."""
        closed = zip(self.shape, self._closed, strict=True)
        return tuple((side, ring) for side, ring in closed if side > 1)

    @property
    def device_bytes_per_s(self) -> float:
        """A device's share of the links of a chip inside the slice: not every port has one."""
        links = sum(2 if ring or side > 2 else 1 for side, ring in self.rings)
        return (links or self.tpu.ici_links) * self.tpu.link_bytes_per_s / self.tpu.devices

    @property
    def _closed(self) -> tuple[bool, ...]:
        """Whether each axis is a ring."""
        # Switches join only whole cubes of a 3D slice, and only whole sides of a 2D pod.
        multiples = tuple(side % self.tpu.wraps == 0 for side in self.shape)
        return multiples if self.tpu.dimensions == 2 else (all(multiples),) * len(multiples)

    @property
    def topology(self) -> str:
        """Its name for libtpu."""
        return f"{self.tpu.libtpu}:{'x'.join(map(str, self.shape))}"

    @property
    def topology_options(self) -> dict[str, str | int | list[int] | list[bool]]:
        """The options that libtpu needs besides the topology's name."""
        options: dict[str, str | int | list[int] | list[bool]] = {}
        # libtpu takes every axis for a line unless it is told otherwise. Without the link that
        # closes a ring of v5e, it makes every collective-permute around that ring synchronous.
        if any(self._closed):
            options["wrap"] = [*self._closed, False, False][:3]
        if self.slices > 1:
            options["num_slices"] = self.slices
        if self.tpu.megacore:
            options["chip_config_name"] = "megacore"
        if self.chips == 1:  # hosts have 2x2 chips otherwise
            options["chips_per_host_bounds"] = [1, 1, 1]
        return options

    @property
    def links(self) -> Links:
        """Its connections in the form of a Target: a slice is a domain."""
        is_given = self.dcn_gbps is not None
        gbps = self.dcn_gbps if self.dcn_gbps is not None else self.tpu.dcn_gbps
        per_host = self.chips_per_host * self.tpu.devices
        return Links(
            domain=self.devices,
            domain_bytes_per_s=self.tpu.device_bytes_per_s,
            generation="ICI",
            host_bytes_per_s=self.tpu.host_bytes_per_s / self.tpu.devices,
            nic_bytes_per_s=gbps * _BYTES_PER_GBIT / per_host,
            nics_per_host=per_host,
            source=self.tpu.source,
            network_source="as given" if is_given else self.tpu.dcn_source,
            network_is_given=is_given,
        )

    def __str__(self) -> str:
        slices = f"{self.slices}x" if self.slices > 1 else ""
        dcn = f":{self.dcn_gbps:g}G" if self.dcn_gbps is not None else ""
        size = f"-{self.chips * self.tpu.counted_per_chip}"
        if self.tpu.shape(self.chips) != self.shape:
            size = f":{'x'.join(map(str, self.shape))}"
        return f"{slices}{self.tpu.name}{size}{dcn}"
