"""TPUs: the generations, and slices of them with their torus of links.

`tpus.toml` has the figures; a chip's peak rates are in `chips.toml`.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources
from itertools import product
from typing import Any, Final

from counterpoint.hardware.chip import find_chip
from counterpoint.hardware.links import Links

_BYTES_PER_GBIT: Final = 1e9 / 8
_FLAT_SIDES: Final = (1, 2, 4, 8, 16)
_CUBE: Final = 4
_SMALL_CUBES: Final = {1: (1, 1, 1), 4: (2, 2, 1), 8: (2, 2, 2), 16: (2, 2, 4), 32: (2, 4, 4)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tpu:
    """One generation. Rates are bytes per second in one direction."""

    name: str  # as in the names of slices: v5e, tpu7x
    aliases: tuple[str, ...]
    chip: str  # its name in chips.toml
    libtpu: str  # its name in libtpu's topologies
    kind: str  # what a device calls itself, as in profiles
    megacore: bool = False  # libtpu has to be told that the cores of a chip are one device
    counted: str  # "chips" or "cores": the number in a slice's name
    cores: int  # TensorCores of a chip
    devices: int  # of one chip, as JAX counts them
    clock_ghz: float
    product_flops: float  # of one device, in a plain product of bfloat16 by XLA's estimate
    dimensions: int  # of the torus
    wraps: int  # axes of a multiple of this length are rings
    ici_links: int  # of one chip
    ici_bytes_per_s: float  # of all links of a chip
    slice: int  # chips of the largest slice
    slice_source: str
    host: int  # chips of a host, in a slice of several
    most_host: int
    dcn_gbps: float  # of one host
    dcn_source: str
    host_bytes_per_s: float  # between a chip and its host
    hbm_usable: int  # of one device, in bytes
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
    found = [
        (a, b) for a, b in product(_FLAT_SIDES, repeat=2) if a * b == chips and a <= b <= 2 * a
    ]
    return found[0] if found and chips != 2 else None


def _cubes(chips: int) -> tuple[int, ...] | None:
    cubes, rest = divmod(chips, _CUBE**3)
    if rest:
        return None
    found = [
        (a, b, cubes // (a * b))
        for a in range(1, math.isqrt(cubes) + 1)
        for b in range(a, cubes // a + 1)
        if cubes % (a * b) == 0 and cubes // (a * b) >= b
    ]
    best = min(found, key=lambda sides: (sides[2], -sides[0]))
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


@cache
def tpus() -> tuple[Tpu, ...]:
    """Return all known generations, oldest first."""
    text = resources.files("counterpoint.hardware").joinpath("tpus.toml").read_text("utf-8")
    return tuple(_tpu(**entry) for entry in tomllib.loads(text)["tpu"])


def _tpu(aliases: list[str], **fields: Any) -> Tpu:  # noqa: ANN401  a part of the file
    return Tpu(aliases=tuple(aliases), **fields)


def find_tpu(name: str | None) -> Tpu | None:
    """Return the generation of the chip with this name in profiles; None for other chips."""
    chip = find_chip(name)
    return next((tpu for tpu in tpus() if chip is not None and tpu.chip == chip.name), None)


def tpu_named(name: str) -> Tpu | None:
    """Return the generation that slices of this name are of: v5e, v5litepod, tpu7x."""
    plain = name.casefold().removeprefix("tpu")
    return next(
        (tpu for tpu in tpus() if plain in (tpu.name.removeprefix("tpu"), *tpu.aliases)), None
    )
