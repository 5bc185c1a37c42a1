"""Sharding: how an array is cut into tiles, and which tile each device holds.

    {replicated}                                        whole on every device
    {devices=[4,1]<=[4]}                                four parts of the first dimension
    {devices=[2,1,4]<=[8] last_tile_dim_replicate}      two parts, each on four devices
    {mesh['x'=4,'y'=2], [{'x'}, {}]}                    axes for each dimension; since jaxlib 0.12
    {mesh['x'=4,'y'=2], replicated}

What is partly manual or not yet reduced, or on one device alone, has no Sharding here: it can't be
said which devices hold the same. See xla/hlo/ir/named_sharding.cc.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from counterpoint.core import InputError
from counterpoint.hlo.model.groups import Axis, Iota, Mesh, expand, parse_groups

_TILED: Final = re.compile(
    r"\{devices=\[([\d,]+)\](?:<=\[([\d,]+)\](?:T\(([\d,]+)\))?|([\d,]+))"
    r"( last_tile_dim_replicate)?(?: metadata=.*)?\}"
)
_WHOLE: Final = re.compile(r"\{replicated(?: metadata=.*)?\}")
_NAMED: Final = re.compile(
    r"\{(@?mesh\[[^\]]*\](?:, *device_ids=\([^{}]*\))?), (?:replicated|\[([^\[\]]*)\]"
    r"(?:, replicated=\{[^{}]*\})?)(?:, metadata=.*)?\}"
)
_AXES: Final = re.compile(r"\{([^{}]*)\}")
_OPEN: Final = re.compile(r",? ?\?$")
"""What follows the axes of a dimension that XLA may cut further."""
_MOST_DEVICES: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Sharding:
    """The parts of each dimension, and the tile of each device, in row-major order.

    Without parts, every device holds the whole array.
    """

    parts: tuple[int, ...] = ()
    tile_of: tuple[int, ...] = ()

    @property
    def devices(self) -> int:
        """The number of devices that it states; 0 if the array is whole everywhere."""
        return len(self.tile_of)

    def parts_of(self, dimension: int) -> int:
        return self.parts[dimension] if dimension < len(self.parts) else 1

    def position(self, device: int, dimension: int) -> int:
        """Return which part of a dimension a device holds."""
        if not self.tile_of:
            return 0
        after = math.prod(self.parts[dimension + 1 :])
        return self.tile_of[device] // after % self.parts_of(dimension)


def parse_sharding(text: str) -> Sharding | None:
    """Return the sharding in the notation of HLO text; None if it is of another kind."""
    if _WHOLE.fullmatch(text):
        return Sharding()
    if named := _NAMED.fullmatch(text):
        return _named(named[1], named[2] or "")
    match = _TILED.fullmatch(text)
    if match is None:
        return None
    dims, reshape, order, listed, replicated = match.groups()
    return tiled(
        _numbers(dims),
        _numbers(listed or ""),
        _numbers(reshape or ""),
        _numbers(order or ""),
        replicated=bool(replicated),
    )


def _named(mesh: str, dimensions: str) -> Sharding | None:
    try:
        groups = [
            parse_groups(f"{mesh} {{{_OPEN.sub('', axes)}}}")
            for axes in ("", *_AXES.findall(dimensions))
        ]
    except InputError:  # an axis that the mesh does not have
        return None
    whole, *cut = (along for along in groups if isinstance(along, Mesh))
    return on_mesh(whole, [along.axes for along in cut])


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(","))) if text else ()


def tiled(
    dims: Sequence[int],
    listed: Sequence[int],
    reshape: Sequence[int],
    order: Sequence[int],
    *,
    replicated: bool,
) -> Sharding | None:
    """Return the sharding by a grid of devices, listed or as a transposed iota.

    Along the last dimension of the grid the tile may be `replicated`. None if the grid is unsound.
    """
    count = math.prod(dims)
    if not 0 < count <= _MOST_DEVICES:
        return None
    iota = Iota(1, count, tuple(reshape) or (count,), tuple(order))
    devices = tuple(listed) or expand(iota)[0]
    if sorted(devices) != list(range(count)):
        return None
    copies = dims[-1] if replicated else 1
    tile_of = [0] * count
    for place, device in enumerate(devices):
        tile_of[device] = place // copies
    return Sharding(tuple(dims[:-1] if replicated else dims), tuple(tile_of))


def on_mesh(mesh: Mesh, dimensions: Sequence[tuple[Axis, ...]]) -> Sharding | None:
    """Return the sharding of an array whose dimensions are cut along these axes of a mesh.

    None if the mesh is unsound.
    """
    count = math.prod(mesh.sizes)
    if not 0 < count <= _MOST_DEVICES:
        return None
    tile_of = [0] * count
    parts: list[int] = []
    for axes in dimensions:
        try:
            groups = expand(Mesh(mesh.sizes, axes, mesh.devices)) if axes else ()
        except InputError:
            return None
        parts.append(len(groups[0]) if groups else 1)
        tile_of = [tile * parts[-1] for tile in tile_of]
        for group in groups:
            for part, device in enumerate(group):
                if not 0 <= device < count:
                    return None
                tile_of[device] += part
    return Sharding(tuple(parts), tuple(tile_of)) if max(parts, default=1) > 1 else Sharding()
