"""A fleet's collectives: how long they take without waiting, who is last, which groups are slow.

Who arrives last at a collective waits for none, so the shortest stay in a group is what the
transfer takes at most. A group whose shortest stay exceeds that of the other groups in more steps
than by chance has a slow link: a NIC, a cable, an axis of the torus. One group of all devices has
no other to compare with: its slowest link slows all of it alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counterpoint.core.field import Field, Form
from counterpoint.fleet.extract import group_numbers
from counterpoint.fleet.fleet import Fleet, Matrix
from counterpoint.fleet.stragglers import often_late
from counterpoint.hlo.collectives import bus_factor

_PS_PER_MS = 1e9
_WORTH = 0.02
"""A group counts as slow from this share of the collective's time on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowGroup:
    """Devices whose collective takes `more_ms` longer than that of the other groups."""

    devices: Annotated[tuple[str, ...], Field("the devices of the group")]
    hosts: Annotated[tuple[str, ...], Field("their hosts")]
    more_ms: Annotated[
        float,
        Field(
            "by how much its collective takes longer than that of the other groups",
            "longer ms",
            Form.MS,
        ),
    ]
    steps: Annotated[int, Field("in so many steps")]  # in which it does
    of_steps: Annotated[int, Field("of so many")]
    chance: Annotated[float, Field("the probability of that by chance")]


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetCollective:
    """A collective in a median step: all its executions, mean over devices.

    `least_ms` and what follows from it are None if its groups are not known.
    """

    op: str
    kind: str | None
    group_size: int | None
    bytes: int | None
    count: int
    ms: float
    least_ms: float | None  # of the member that stays shortest, median over groups
    last: str | None  # that member, if it is the same one in most steps
    last_steps: int
    steps: int
    slow: tuple[SlowGroup, ...]

    @property
    def waits_ms(self) -> float | None:
        """How long a device waits in it at least."""
        return None if self.least_ms is None else max(0.0, self.ms - self.least_ms)

    @property
    def busbw_gbps(self) -> float | None:
        """What a device sends in it per second of `least_ms`, as in `explain` and `network`."""
        factor = bus_factor(self.kind, self.group_size)
        if not self.least_ms or self.bytes is None or factor is None:
            return None
        return self.bytes * self.count * factor / self.least_ms / 1e6


def find_collectives(fleet: Fleet) -> tuple[FleetCollective, ...]:
    """Return the collectives of a fleet, those that take longest first."""
    collectives = [
        _collective(fleet, str(op), rows)
        for (op,), rows in fleet.collectives.group_by("op", maintain_order=True)
    ]
    return tuple(sorted(collectives, key=lambda each: (-each.ms, each.op)))


def _collective(fleet: Fleet, op: str, rows: pl.DataFrame) -> FleetCollective:
    stays = np.full((len(fleet.host_of), len(fleet.steps)), np.nan)
    stays[rows["row"].to_numpy(), rows["column"].to_numpy()] = (
        rows["total_ps"].to_numpy() / _PS_PER_MS
    )
    stays = stays[:, np.isfinite(stays).any(axis=0)]
    first = rows.row(0, named=True)
    group = _groups(fleet, rows)
    least = last = None
    last_steps, slow = 0, ()
    if group is not None:
        shortest = np.array(
            [np.nanmin(stays[group == at], axis=0) for at in range(group.max() + 1)]
        )
        least = float(np.nanmedian(shortest))
        slow = _slow(fleet, shortest, group)
        if len(shortest) == 1:
            by_row = np.bincount(np.argmin(np.nan_to_num(stays, nan=np.inf), axis=0))
            last_steps = int(by_row.max())
            waits = float(np.nanmedian(stays)) - least > _WORTH * least
            if waits and last_steps * 2 > stays.shape[1]:
                last = _name(fleet, int(by_row.argmax()))
    return FleetCollective(
        op=op,
        kind=first["kind"],
        group_size=first["group_size"],
        bytes=first["bytes"],
        count=first["count"],
        ms=float(np.nanmedian(np.nanmean(stays, axis=0))),
        least_ms=least,
        last=last,
        last_steps=last_steps,
        steps=stays.shape[1],
        slow=slow,
    )


def _groups(fleet: Fleet, rows: pl.DataFrame) -> NDArray[np.int64] | None:
    """Return the group of each device; None if a host is missing or groups have no pattern.

    Devices are numbered host by host, as JAX does on GPUs. Where hosts run different programs,
    or only some devices take part, the numbers would be wrong.
    """
    told = rows.select("group_size", "stride", "members").unique()
    devices = np.arange(len(fleet.host_of), dtype=np.int64)
    if len(told) != 1 or None in told.row(0) or rows["row"].n_unique() < len(devices):
        return None
    size, stride, members = (int(each) for each in told.row(0))
    if members != len(devices) or members % (size * stride):
        return None
    return devices * 0 if size == members else group_numbers(devices, size, stride)


def _slow(fleet: Fleet, shortest: Matrix, group: NDArray[np.int64]) -> tuple[SlowGroup, ...]:
    if len(shortest) < 3:
        return ()  # of two, which one differs is not known
    more = shortest - np.nanmedian(shortest, axis=0)
    groups: list[SlowGroup] = []
    for number, often in often_late(more, _WORTH * float(np.nanmedian(shortest))):
        rows = np.flatnonzero(group == number).tolist()
        hosts = dict.fromkeys(fleet.hosts[int(fleet.host_of[row])].machine for row in rows)
        groups.append(
            SlowGroup(
                devices=tuple(_name(fleet, row) for row in rows),
                hosts=tuple(hosts),
                more_ms=float(np.nanmedian(more[number])),
                steps=often.steps,
                of_steps=often.of_steps,
                chance=min(1.0, often.chance),
            )
        )
    return tuple(sorted(groups, key=lambda each: -each.more_ms))


def _name(fleet: Fleet, row: int) -> str:
    return f"{fleet.hosts[int(fleet.host_of[row])].name} device {fleet.ordinals[row]}"
