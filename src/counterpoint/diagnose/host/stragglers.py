"""Stragglers: devices, or all devices of a host, that come late and make the others wait.

Who comes late is who waits least, in a whole step: one that comes late to a collective only because
it waited in an earlier one waits as long as the others, and has no fault of its own. Somebody waits
least in every step; it is named where it is the same one far more often than by chance.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counterpoint.diagnose.case import Case
from counterpoint.diagnose.exposure.opportunities import waits
from counterpoint.diagnose.metrics.attribution import IDLE
from counterpoint.diagnose.selection import PS_PER_MS
from counterpoint.timeline import Lane
from counterpoint.timeline.hosts import one_clock

_WORTH: Final = 0.005
"""Share of the step that the others must wait longer for it: somebody always comes last."""

_BY_CHANCE: Final = 0.05
"""Likelihood of a coincidence, over all that could be named, above which nobody is."""

_MOSTLY: Final = 0.5
"""Share of steps in which a persistent one comes last; and share of a device's lateness that all
devices of its host must have for it to be the host's."""

Waited = NDArray[np.float64]  # milliseconds: a row per device or host, a column per step


@dataclass(frozen=True, slots=True, kw_only=True)
class Straggler:
    """Milliseconds of a median step; means over steps, of several devices the median."""

    number: int  # of the device, or of the host
    whole_host: bool
    steps: int
    last: int  # in how many of them it came last, and made the others wait
    among: int  # devices or hosts that it is one of
    others_wait_ms: float  # longer than it does itself, by the median of the others
    most_ms: float  # in its worst step
    compute_ms: float
    others_compute_ms: float
    idle_ms: float
    others_idle_ms: float

    @property
    def persistent(self) -> bool:
        """Late in most steps; else now and then."""
        return self.last > _MOSTLY * self.steps

    @property
    def slow(self) -> bool:
        """Whether its compute takes so much longer that most of its lateness follows."""
        return self.compute_ms - self.others_compute_ms >= _MOSTLY * self.others_wait_ms


def waited_most_ms(case: Case) -> float:
    """Of the device that waits most in each step, their mean: what its own work leaves of a step.

    No step gets shorter than that by anybody's coming earlier, as long as nobody gets quicker than
    the quickest.
    """
    waited = _waited(case, case.ask(waits))
    return float(np.nanmax(waited, axis=0).mean()) if waited.size else 0.0


def stragglers(case: Case) -> tuple[Straggler, ...]:
    """Those that come last more often than by chance, the dearest first."""
    waited = _waited(case, case.ask(waits))
    if not waited.size or not one_clock(case.timeline):
        return ()
    host = np.array([device.host for device in case.timeline.devices])
    named = _hosts(case, waited, host)
    of_hosts = {one.number for one in named}
    single = [
        _told(case, waited, device, _members(len(host), device), last)
        for device, last in _often_last(case, waited, _doubt_ms(case)).items()
        if int(host[device]) not in of_hosts
    ]
    return tuple(sorted([*named, *single], key=lambda it: (-it.others_wait_ms, it.number)))


def _hosts(case: Case, waited: Waited, host: NDArray[np.int64]) -> list[Straggler]:
    """Late is a host whose every device waits little, nearly as little as any at all."""
    count = int(host.max()) + 1
    if count < 2 or count == len(host):
        return []
    worst: Waited = np.array([_most(waited[host == one]) for one in range(count)], np.float64)
    _, any_device = _lateness(waited)
    often = _often_last(case, worst, np.maximum(_MOSTLY * any_device, _doubt_ms(case)))
    return [_told(case, waited, one, host == one, last, among=count) for one, last in often.items()]


def _doubt_ms(case: Case) -> float:
    """What clocks may stray by while a step goes, and as much again that it is late beyond that."""
    return 2 * max(host.clock_spread_ps or 0 for host in case.timeline.hosts) / PS_PER_MS


def _often_last(case: Case, waited: Waited, least: Waited | float) -> dict[int, int]:
    """In how many steps they come last by what is worth it, and by no less than `least`."""
    first, late = _lateness(waited)
    counts = (late > _WORTH * case.step_ms) & (late >= least)
    costly, among = int(counts.sum()), int(np.isfinite(waited).any(axis=1).sum())
    found: dict[int, int] = {}
    for one in np.unique(first[counts]):
        last = int((first[counts] == one).sum())
        if among * _at_least(last, costly, 1 / among) <= _BY_CHANCE:
            found[int(one)] = last
    return found


def _lateness(waited: Waited) -> tuple[NDArray[np.int64], Waited]:
    """In each step who waits least, and how much longer the others do, by their median."""
    filled = np.where(np.isfinite(waited), waited, np.inf)
    first = filled.argmin(axis=0)
    others = np.sort(filled, axis=0)[1:]
    others = np.where(np.isfinite(others), others, np.nan)
    return first, np.nan_to_num(_median(others) - filled.min(axis=0))


def _told(
    case: Case,
    waited: Waited,
    number: int,
    its: NDArray[np.bool_],
    last: int,
    *,
    among: int | None = None,
) -> Straggler:
    more = _median(waited[~its]) - _median(waited[its])
    compute, idle = _per_device(case, Lane.COMPUTE), _per_device(case, IDLE)
    return Straggler(
        number=number,
        whole_host=among is not None,
        steps=waited.shape[1],
        last=last,
        among=among or int(np.isfinite(waited).any(axis=1).sum()),
        others_wait_ms=float(np.nanmean(more)),
        most_ms=float(np.nanmax(more)),
        compute_ms=float(np.nanmedian(compute[its])),
        others_compute_ms=float(np.nanmedian(compute[~its])),
        idle_ms=float(np.nanmedian(idle[its])),
        others_idle_ms=float(np.nanmedian(idle[~its])),
    )


def _waited(case: Case, table: pl.DataFrame) -> Waited:
    """By device and step, at most what its collectives show in it; NaN where it met nobody."""
    if not len(table):
        return np.empty((0, 0))
    shown = case.attributed.filter(pl.col("state") == Lane.COLLECTIVE)
    capped = table.join(
        shown.group_by("device", "step").agg(pl.col("ps").sum()), on=["device", "step"], how="left"
    ).with_columns(ps=pl.min_horizontal("waited_ps", pl.col("ps").fill_null(0)))
    steps, column = np.unique(capped["step"].to_numpy(), return_inverse=True)
    made = np.full((len(case.timeline.devices), len(steps)), np.nan)
    made[capped["device"].to_numpy(), column] = capped["ps"].to_numpy() * _step_of(case)
    return made


def _per_device(case: Case, state: str) -> Waited:
    """Milliseconds that each device spends so in a step; NaN where it is in none."""
    windows = case.selection.windows.group_by("device").agg(pl.len().alias("windows"))
    spent = case.attributed.filter(pl.col("state") == state)
    each = windows.join(
        spent.group_by("device").agg(pl.col("ps").sum()), on="device", how="left"
    ).select("device", ps=pl.col("ps").fill_null(0) / pl.col("windows"))
    made = np.full(len(case.timeline.devices), np.nan)
    made[each["device"].to_numpy()] = each["ps"].to_numpy() * _step_of(case)
    return made


def _step_of(case: Case) -> float:
    """Milliseconds of a median step per picosecond of one."""
    scale = case.selection.scale * case.selection.occurrences
    return scale or 1 / PS_PER_MS


def _members(count: int, device: int) -> NDArray[np.bool_]:
    return np.arange(count) == device


def _median(of: Waited) -> Waited:
    """By step; NaN where nobody is."""
    known = np.isfinite(of).any(axis=0)
    made = np.full(of.shape[1], np.nan)
    made[known] = np.nanmedian(of[:, known], axis=0)
    return made


def _most(of: Waited) -> Waited:
    return np.where(np.isfinite(of), of, -np.inf).max(axis=0)


def _at_least(last: int, of: int, chance: float) -> float:
    """Likelihood of so many or more."""
    return sum(
        comb(of, hits) * chance**hits * (1 - chance) ** (of - hits) for hits in range(last, of + 1)
    )
