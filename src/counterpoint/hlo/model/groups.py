"""Replica groups: the devices that communicate in a collective, in XLA's notations.

    {{0,1},{2,3}}                              listed
    [4,2]<=[2,4]T(1,0)                         iota: count devices, reshape, transpose, cut
    mesh['x'=4,'y'=2] {'x'}                    axes of a named mesh, also parts of one: 'x':(2)2
    {}                                         all devices in one group

The compact notations are stored as they are and expanded on demand, so that a thousand devices cost
nothing until then. See xla/hlo/ir/replica_group.cc.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from counterpoint.core import InputError

Groups = tuple[tuple[int, ...], ...]

# Larger counts indicate a damaged profile.
_MOST_DEVICES = 1 << 24


@dataclass(frozen=True, slots=True)
class ListedGroups:
    """Groups written out; no group at all means one group of all devices."""

    groups: Groups


@dataclass(frozen=True, slots=True)
class Iota:
    """`[count,size]<=[reshape]T(permutation)`."""

    count: int
    size: int
    reshape: tuple[int, ...]
    permutation: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        # Protos write out the identity permutation, text omits it.
        if self.permutation == tuple(range(len(self.reshape))):
            object.__setattr__(self, "permutation", ())


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis of a mesh, or the part of `size` below `pre_size` of it."""

    index: int
    pre_size: int = 0
    size: int = 0


@dataclass(frozen=True, slots=True)
class Mesh:
    """Devices along some axes of a mesh. `devices` is empty for 0, 1, 2, ... in order."""

    sizes: tuple[int, ...]
    axes: tuple[Axis, ...]
    devices: tuple[int, ...] | Iota = ()


ReplicaGroups = ListedGroups | Iota | Mesh


def group_size(groups: ReplicaGroups) -> int | None:
    """Return devices per group without expanding; None if groups differ or there are none."""
    if isinstance(groups, Iota):
        return groups.size
    if isinstance(groups, Mesh):
        return math.prod(axis.size or groups.sizes[axis.index] for axis in groups.axes)
    sizes = {len(group) for group in groups.groups}
    return sizes.pop() if len(sizes) == 1 else None


@lru_cache(maxsize=256)
def expand(groups: ReplicaGroups) -> Groups:
    """Return the device ids of every group."""
    if isinstance(groups, ListedGroups):
        return groups.groups
    try:
        ids = _iota(groups) if isinstance(groups, Iota) else _along_axes(groups)
    except (ValueError, LookupError, ZeroDivisionError) as error:
        raise InputError(f"replica groups {groups} can't be expanded", why=str(error)) from error
    return tuple(tuple(row) for row in ids.tolist())


def _iota(groups: Iota) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    total = math.prod(groups.reshape)
    if not 0 <= total <= _MOST_DEVICES:
        raise ValueError(f"{total} devices")
    ids = np.arange(total, dtype=np.int64).reshape(groups.reshape)
    permutation = groups.permutation or tuple(range(len(groups.reshape)))
    return ids.transpose(permutation).reshape(groups.count, groups.size)


def _along_axes(groups: Mesh) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    total = math.prod(groups.sizes)
    if not 0 < total <= _MOST_DEVICES:
        raise ValueError(f"{total} devices")
    dims, grouped = _split_axes(groups)
    rest = [dim for dim in range(len(dims)) if dim not in grouped]
    size = math.prod(dims[dim] for dim in grouped)
    ids = _mesh_devices(groups, total).reshape(dims)
    return ids.transpose(*rest, *grouped).reshape(-1, size)


def _mesh_devices(groups: Mesh, total: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    if isinstance(groups.devices, Iota):
        return _iota(groups.devices)
    return np.array(groups.devices or range(total), np.int64)


def _split_axes(groups: Mesh) -> tuple[list[int], list[int]]:
    """Split each axis where a part of it is used; return all dimensions, and those of a group."""
    dims: list[int] = []
    place: dict[Axis, int] = {}
    for index, full in enumerate(groups.sizes):
        used = sorted((a for a in groups.axes if a.index == index), key=lambda a: a.pre_size)
        before = 1
        for axis in used:
            pre, size = max(axis.pre_size, 1), axis.size or full
            if pre != before:
                dims.append(pre // before)
            place[axis] = len(dims)
            dims.append(size)
            before = pre * size
        if before != full or not used:
            dims.append(full // before)
    return dims, [place[axis] for axis in groups.axes]


_IOTA = re.compile(r"\[(\d+),(\d+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?")
_MESH = re.compile(r"@?mesh\[([^\]]*)\](?:,\s*device_ids=\(([^{}]*)\))?\s*\{([^{}]*)\}")
_MESH_AXIS = re.compile(r"'?([^',=\s]++)'?=(\d+)")
_AXIS_USE = re.compile(r"'?([^',:\s]+)'?(?::\((\d+)\)(\d+))?")
_MESH_IOTA = re.compile(r"(?:\[[\d,]*\]<=)?\[([\d,]+)\](?:T\(([\d,]+)\))?")
_LISTED = re.compile(r"\{(?:\s*+\{[\d,\s]*+\}\s*+,?)*+\s*\}")
_GROUP = re.compile(r"\{([\d,\s]*)\}")


def parse_groups(text: str) -> ReplicaGroups:
    """Parse replica groups in any notation."""
    text = text.strip()
    iota = _IOTA.fullmatch(text)
    if iota:
        return Iota(int(iota[1]), int(iota[2]), _numbers(iota[3]), _numbers(iota[4]))
    mesh = _MESH.fullmatch(text)
    if mesh:
        return _parse_mesh(mesh[1], mesh[2], mesh[3], text)
    if _LISTED.fullmatch(text):
        return ListedGroups(tuple(_numbers(match[1]) for match in _GROUP.finditer(text[1:-1])))
    raise _unreadable(text)


def _parse_mesh(axes: str, devices: str | None, used: str, text: str) -> Mesh:
    named = [_MESH_AXIS.fullmatch(axis.strip()) for axis in axes.split(",")]
    sizes = {axis[1]: int(axis[2]) for axis in named if axis}
    index = {name: position for position, name in enumerate(sizes)}
    uses = _AXIS_USE.findall(used)
    if len(sizes) < len(named) or any(name not in index for name, _, _ in uses):
        raise _unreadable(text)
    return Mesh(
        sizes=tuple(sizes.values()),
        axes=tuple(Axis(index[name], int(pre or 0), int(size or 0)) for name, pre, size in uses),
        devices=_parse_mesh_devices(devices),
    )


def _parse_mesh_devices(text: str | None) -> tuple[int, ...] | Iota:
    iota = _MESH_IOTA.fullmatch((text or "").strip())
    if not iota:
        return _numbers(text)
    reshape = _numbers(iota[1])
    return Iota(1, math.prod(reshape), reshape, _numbers(iota[2]))


def _numbers(text: str | None) -> tuple[int, ...]:
    return tuple(int(word) for word in (text or "").split(",") if word.strip())


def _unreadable(text: str) -> InputError:
    shown = text if len(text) <= 80 else f"{text[:77]}..."
    return InputError(
        f"replica groups {shown!r} can't be read",
        why="supported forms: {{0,1},{2,3}}, [2,4]<=[8], [2,4]<=[4,2]T(1,0), mesh['x'=8] {'x'}",
    )
