"""Who makes the others wait: devices, hosts, racks and pods that arrive late, and at what cost.

Who arrives last at its collectives waits least. So in each step a device's exposed communication
is compared with the median of the devices that run the same program; no clock is needed. A unit is
late in a step if it waits less by more than half a percent of the step, and by more than three
standard deviations of the others. It is reported if it is
late in more steps than by chance, were lateness spread over all units alike, with a probability
of at most 5% that there is any false one among all of a kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import comb
from typing import Final

import numpy as np
from numpy.typing import NDArray

from counterpoint.core import Range
from counterpoint.core.columns import at_least, column_medians
from counterpoint.fleet.fleet import Fleet, Matrix

_WORTH: Final = 0.005
_BY_CHANCE: Final = 0.05
_CONFIDENCE: Final = 0.95
_MOSTLY: Final = 0.5
LEAST_STEPS: Final = 3
_FEW: Final = 3
_DEVIATIONS: Final = 3 * 1.4826
"""Of a normal distribution, the median deviation times 1.48 is the standard deviation."""

Bools = NDArray[np.bool_]
Longs = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Late:
    """A unit that makes the others wait.

    `waits_less_ms` is by how much the others wait longer in a median step, with the interval that
    holds the median of all steps with 95% confidence; None: too few steps for one. `gain_ms` is
    what a step gains at most without it and without all before it in the list, with its interval.
    """

    kind: str  # device, process, host, rack or pod
    name: str
    hosts: tuple[str, ...]
    late_steps: int
    steps: int
    chance: float  # of so many late steps or more, for any of the units of its kind
    waits_less_ms: float
    interval_ms: Range | None
    more_compute_ms: float
    more_idle_ms: float
    gain_ms: float = 0.0
    gain_interval_ms: Range | None = None

    @property
    def is_slow(self) -> bool:
        """True if its longer compute explains most of its lateness."""
        return self.more_compute_ms >= _MOSTLY * self.waits_less_ms


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Units:
    """Devices in groups: `of` is the number of each device's unit, -1 for none."""

    kind: str
    names: tuple[str, ...]
    of: Longs


def find_late(fleet: Fleet) -> tuple[Late, ...]:
    """Return the units that make the others wait; a device only if its host does not as a whole."""
    known = np.isfinite(fleet.exposed)
    if fleet.exposed.shape[1] < LEAST_STEPS or len(fleet.exposed) < 2:
        return ()
    deficit = _deficit(fleet, known)
    explained = np.zeros(len(fleet.host_of), bool)
    late_units: list[tuple[Late, Bools]] = []
    for units in _kinds(fleet):
        for late, members in _late_units(fleet, units, deficit, explained):
            late_units.append((late, members))
        for _, members in late_units:
            explained |= members
    return _with_gains(fleet, late_units)


def _deficit(fleet: Fleet, known: Bools) -> Matrix:
    """Return by how much each device waits less than the median of those with its program."""
    programs = [host.program or "" for host in fleet.hosts]
    number = {name: at for at, name in enumerate(dict.fromkeys(programs))}
    of_device = np.array([number[programs[host]] for host in fleet.host_of])
    deficit = np.full_like(fleet.exposed, np.nan)
    for program in range(len(number)):
        own = of_device == program
        if own.sum() > 1:
            deficit[own] = column_medians(fleet.exposed[own]) - fleet.exposed[own]
    return np.where(known, deficit, np.nan)


def _kinds(fleet: Fleet) -> list[_Units]:
    """Return the kinds of units, widest first; a kind with one unit compares with nothing."""
    hosts = [host.name for host in fleet.hosts]
    of_device = fleet.host_of
    places: list[int] = of_device.tolist()
    one = "process" if fleet.of_processes else "host"
    kinds: list[_Units] = []
    for kind in ("pod", "rack", "host"):
        of_host = [
            host.machine if kind == "host" else getattr(host.place, kind) for host in fleet.hosts
        ]
        names = tuple(sorted({name for name in of_host if name is not None}))
        number = np.array([-1 if name is None else names.index(name) for name in of_host])
        if len(names) > 1 and len(names) < len(hosts):
            kinds.append(_Units(kind=kind, names=names, of=number[of_device]))
    if len(hosts) > 1 and len(hosts) < len(of_device):
        kinds.append(_Units(kind=one, names=tuple(hosts), of=of_device))
    single = len(hosts) == len(of_device)
    names = [
        hosts[host] if single else f"{hosts[host]} device {ordinal}"
        for host, ordinal in zip(places, fleet.ordinals.tolist(), strict=True)
    ]
    every = np.arange(len(of_device))
    kinds.append(_Units(kind=one if single else "device", names=tuple(names), of=every))
    return kinds


def _late_units(
    fleet: Fleet, units: _Units, deficit: Matrix, explained: Bools
) -> list[tuple[Late, Bools]]:
    """Return the units of a kind that are late too often, except those that are explained."""
    count = len(units.names)
    own = np.array([_of_unit(units, deficit, number) for number in range(count)])
    worth = _WORTH * fleet.step_ms
    late_units: list[tuple[Late, Bools]] = []
    for number, often in often_late(own, worth):
        members = units.of == number
        if not explained[members].all():
            late_units.append((_late(fleet, units, number, own[number], often), members))
    return sorted(late_units, key=lambda each: -each[0].waits_less_ms)


@dataclass(frozen=True, slots=True)
class Often:
    """In how many steps a row exceeds the others, and the probability of that for any row."""

    steps: int
    of_steps: int
    chance: float


def often_late(own: Matrix, worth: float) -> list[tuple[int, Often]]:
    """Return the rows that exceed the others by `worth` in more steps than by chance."""
    late = own > np.maximum(worth, _usual(own))
    seen = np.isfinite(own)
    total = int(seen.sum())
    late_rows: list[tuple[int, Often]] = []
    for number in np.flatnonzero(late.any(axis=1)).tolist():
        steps, hits = int(seen[number].sum()), int(late[number].sum())
        # The share of the others: a unit that is always late must not hide itself among few.
        others = total - steps
        share = (int(late.sum()) - hits + 1) / (others + 2)
        chance = len(own) * at_least(hits, steps, share)
        if chance <= _BY_CHANCE and float(np.nanmedian(own[number])) > worth:
            late_rows.append((number, Often(hits, steps, chance)))
    return late_rows


def _usual(own: Matrix) -> NDArray[np.float64]:
    """Return the lateness that noise alone reaches rarely: three deviations, by step.

    Any threshold leaves the probability of a false one as it is; this one leaves real ones visible
    among many that are a little late in turn. Two units have no spread of their own.
    """
    middle = column_medians(own)
    if len(own) < _FEW:
        return np.zeros_like(middle)
    apart: Matrix = np.fabs(own - middle)
    return middle + _DEVIATIONS * column_medians(apart)


def _of_unit(units: _Units, deficit: Matrix, number: int) -> NDArray[np.float64]:
    """Return a unit's lateness by step: of a host, that of its device that waits most.

    A rack or pod is late by what more than half of its devices are at least.
    """
    own = deficit[units.of == number]
    if units.kind in ("rack", "pod"):
        return _low_median(own)
    filled = np.where(np.isfinite(own), own, np.inf).min(axis=0)
    return np.where(np.isfinite(filled), filled, np.nan)


def _late(
    fleet: Fleet,
    units: _Units,
    number: int,
    own: NDArray[np.float64],
    often: Often,
) -> Late:
    members = units.of == number
    places: list[int] = fleet.host_of[members].tolist()
    hosts = dict.fromkeys(fleet.hosts[host].machine for host in places)

    def more(matrix: Matrix) -> float:
        return float(np.nanmedian(matrix[members]) - np.nanmedian(matrix[~members]))

    return Late(
        kind=units.kind,
        name=units.names[number],
        hosts=tuple(hosts),
        late_steps=often.steps,
        steps=often.of_steps,
        chance=min(1.0, often.chance),
        waits_less_ms=float(np.nanmedian(own)),
        interval_ms=median_interval(own[np.isfinite(own)]),
        more_compute_ms=more(fleet.compute),
        more_idle_ms=more(fleet.idle),
    )


def _with_gains(fleet: Fleet, late_units: Sequence[tuple[Late, Bools]]) -> tuple[Late, ...]:
    """Add to each what a step gains at most if it is taken away together with all before it.

    The device that waits least decides the step; without it, the next one does.
    """
    known = np.isfinite(fleet.exposed)
    filled = np.where(known, fleet.exposed, np.inf)
    before = filled.min(axis=0)
    gone = np.zeros(len(filled), bool)
    result: list[Late] = []
    for late, members in sorted(late_units, key=lambda each: -each[0].waits_less_ms):
        gone = gone | members
        if gone.all():
            break
        gains = filled[~gone].min(axis=0) - before
        gains = gains[np.isfinite(gains) & known[members].any(axis=0)]
        reach = median_interval(gains)
        result.append(replace(late, gain_ms=float(np.median(gains)), gain_interval_ms=reach))
    return tuple(result)


def median_interval(values: NDArray[np.float64]) -> Range | None:
    """Return the narrowest pair of order statistics that holds the median with 95% confidence.

    It assumes nothing of the distribution; below six values there is none.
    """
    ordered = np.sort(values)
    count = len(ordered)
    for drop in range((count - 1) // 2, -1, -1):
        outside = 2 * sum(comb(count, k) for k in range(drop + 1)) / 2**count
        if 1 - outside >= _CONFIDENCE:
            return Range(float(ordered[drop]), float(ordered[count - 1 - drop]))
    return None


def _low_median(of: Matrix) -> NDArray[np.float64]:
    """Return what more than half of the values reach, by step."""
    ordered = np.sort(of, axis=0)  # NaN comes last
    middle = np.maximum(np.isfinite(of).sum(axis=0) - 1, 0) // 2
    return ordered[middle, np.arange(of.shape[1])]
