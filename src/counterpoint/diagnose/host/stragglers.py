"""Stragglers: devices, or all devices of a host, that arrive late and make the others wait.

The latest device is the one that waits least over a whole step: one that arrives late at a
collective only because it waited in an earlier one waits as long as the others, and is not the
cause. Some device waits least in every step; it is reported if it is the same one far more often
than by chance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counterpoint.core import Basis
from counterpoint.core.columns import at_least, column_medians, values_of
from counterpoint.diagnose.attribution import IDLE, STATES
from counterpoint.diagnose.collectives.collectives import exposed_executions
from counterpoint.diagnose.selection import PS_PER_MS, WindowKind, select_steady
from counterpoint.diagnose.step_data import StepData
from counterpoint.timeline.hosts import number_collectives, one_clock, stays, with_groups
from counterpoint.timeline.model import Lane

_WORTH: Final = 0.005
"""Minimum share of the step that the others wait longer: some device is always last."""

_BY_CHANCE: Final = 0.05
"""Probability of coincidence, over all candidates, above which none is reported."""

_ENOUGH: Final = 12
"""Number of typical steps from which on the others are not needed."""

_MOSTLY: Final = 0.5
"""Share of steps in which a persistent straggler is last; also the share of a device's lateness
that all devices of its host must have for it to be the host's.
"""

_FEW: Final = 3
"""Up to so many steps, one device may be last in all of them by chance."""

_BY_SMALL_CHANCE: Final = 0.25
"""Probability of that, from which on it is not worth a word."""

Waited = NDArray[np.float64]  # milliseconds: a row per device or host, a column per step


@dataclass(frozen=True, slots=True, kw_only=True)
class Straggler:
    """Milliseconds of a median step; means over steps, and medians over several devices."""

    number: int  # of the device or of the host
    whole_host: bool
    steps: int
    last: int  # number of steps in which it was last and made the others wait
    among: int  # number of devices or hosts compared
    others_wait_ms: float  # excess over its own wait, by the median of the others
    most_ms: float  # in its worst step
    compute_ms: float
    others_compute_ms: float
    idle_ms: float
    others_idle_ms: float

    @property
    def persistent(self) -> bool:
        """Late in most steps, not only occasionally."""
        return self.last > _MOSTLY * self.steps

    @property
    def slow(self) -> bool:
        """True if its longer compute explains most of its lateness."""
        return self.compute_ms - self.others_compute_ms >= _MOSTLY * self.others_wait_ms


def over_all_steps(data: StepData) -> StepData:
    """Return the steady steps, if those of typical length are too few to tell who is last.

    A device that is late now and then is so in steps that are longer than the typical ones.
    """
    selection, timeline = data.selection, data.timeline
    typical = selection.windows["step"].n_unique()
    if selection.step is not None or selection.window is not WindowKind.STEP:
        return data
    if typical >= _ENOUGH or typical >= len(selection.lengths_ms):
        return data
    return StepData(selection=select_steady(timeline, selection.devices), context=data.context)


def most_often_last(data: StepData) -> Straggler | None:
    """Return the device that is last most often, though it may be so by chance."""
    waited = _waited(data, data.cached(waits))
    if not waited.size or not one_clock(data.timeline):
        return None
    first, late = _lateness(waited)
    counts = late > max(_WORTH * data.step_ms, _doubt_ms(data))
    if not counts.any():
        return None
    numbers, times = np.unique(first[counts], return_counts=True)
    number = int(numbers[times.argmax()])
    its = np.arange(len(waited)) == number
    return _straggler(data, waited, number, its, int(times.max()))


def waited_most_ms(data: StepData) -> float:
    """Return the wait of the device that waits most in each step, as a mean over steps.

    This is what the device's own work leaves of a step. No earlier arrival of others shortens a
    step by more, as long as no device becomes faster than the fastest.
    """
    waited = _waited(data, data.cached(waits))
    return float(np.nanmax(waited, axis=0).mean()) if waited.size else 0.0


def least_needed_ms(data: StepData) -> float:
    """Return what the device with least to do needs of each step, as a mean over steps.

    That is its work and its transfers without waits. Others may be late because they have more to
    do; if they had not, a step would still take this.
    """
    table = data.cached(waits)
    waited = _waited(data, table)
    if not waited.size:
        return 0.0
    busy = np.full(waited.shape, np.nan)
    spent = (
        data.attributed.filter(pl.col("state").is_in(STATES))
        .group_by("device", "step")
        .agg(pl.col("ps").sum())
        .join(table, on=["device", "step"], how="semi")
    )
    column = np.searchsorted(np.unique(table["step"].to_numpy()), spent["step"].to_numpy())
    busy[spent["device"].to_numpy(), column] = spent["ps"].to_numpy() * _step_of(data)
    return float(np.nanmin(busy - waited, axis=0).clip(0).mean())


def stragglers(data: StepData) -> tuple[Straggler, ...]:
    """Return the devices and hosts that are last more often than by chance, most costly first."""
    waited = _waited(data, data.cached(waits))
    if not waited.size or not one_clock(data.timeline):
        return ()
    host = np.array([device.host for device in data.timeline.devices])
    named = _hosts(data, waited, host)
    of_hosts = {straggler.number for straggler in named}
    single = [
        _straggler(data, waited, device, np.arange(len(host)) == device, last)
        for device, last in _often_last(data, waited, _doubt_ms(data)).items()
        if int(host[device]) not in of_hosts
    ]
    return tuple(
        sorted(
            [*named, *single], key=lambda straggler: (-straggler.others_wait_ms, straggler.number)
        )
    )


def last_of_few_steps(data: StepData) -> Straggler | None:
    """Return the device that arrives last in each of few steps, if the others clearly wait for it.

    So few do not show that it is more than chance, nor whether it is late in other steps, too.
    """
    waited = _waited(data, data.cached(waits))
    steps = waited.shape[1] if waited.size else 0
    if not 1 <= steps <= _FEW or not one_clock(data.timeline):
        return None
    among = int(np.isfinite(waited).any(axis=1).sum())
    if steps > 1 and among ** (1 - steps) >= _BY_SMALL_CHANCE:
        return None
    first, late = _lateness(waited)
    number = int(first[0])
    if (first != number).any() or late.min() <= max(_WORTH * data.step_ms, _doubt_ms(data)):
        return None
    return _straggler(data, waited, number, np.arange(len(waited)) == number, steps)


def _hosts(data: StepData, waited: Waited, host: NDArray[np.int64]) -> list[Straggler]:
    """Find hosts whose every device waits little, nearly as little as any device at all."""
    count = int(host.max()) + 1
    if count < 2 or count == len(host):
        return []
    seen = np.where(np.isfinite(waited), waited, -np.inf)
    worst: Waited = np.array([seen[host == index].max(axis=0) for index in range(count)])
    _, any_device = _lateness(waited)
    often = _often_last(data, worst, np.maximum(_MOSTLY * any_device, _doubt_ms(data)))
    return [
        _straggler(data, waited, index, host == index, last, among=count)
        for index, last in often.items()
    ]


def _doubt_ms(data: StepData) -> float:
    """Return the clock uncertainty within a step, twice: lateness must exceed it clearly."""
    return 2 * max(host.clock_spread_ps or 0 for host in data.timeline.hosts) / PS_PER_MS


def _often_last(data: StepData, waited: Waited, least: Waited | float) -> dict[int, int]:
    """Return in how many steps each is last by a relevant amount, and by at least `least`."""
    first, late = _lateness(waited)
    counts = (late > _WORTH * data.step_ms) & (late >= least)
    costly, among = int(counts.sum()), int(np.isfinite(waited).any(axis=1).sum())
    often_last: dict[int, int] = {}
    for number in values_of(first[counts]):
        last = int((first[counts] == number).sum())
        if among * at_least(last, costly, 1 / among) <= _BY_CHANCE:
            often_last[int(number)] = last
    return often_last


def _lateness(waited: Waited) -> tuple[NDArray[np.int64], Waited]:
    """Return, per step, who waits least, and the excess wait of the others, by their median."""
    filled = np.where(np.isfinite(waited), waited, np.inf)
    first = filled.argmin(axis=0)
    others = np.sort(filled, axis=0)[1:]
    others = np.where(np.isfinite(others), others, np.nan)
    return first, np.nan_to_num(column_medians(others) - filled.min(axis=0))


def _straggler(
    data: StepData,
    waited: Waited,
    number: int,
    its: NDArray[np.bool_],
    last: int,
    *,
    among: int | None = None,
) -> Straggler:
    more = column_medians(waited[~its]) - column_medians(waited[its])
    compute, idle = _per_device(data, Lane.COMPUTE), _per_device(data, IDLE)
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


def _waited(data: StepData, table: pl.DataFrame) -> Waited:
    """Return waits by device and step, at most the exposed collectives; NaN if it met no other."""
    if not len(table):
        return np.empty((0, 0))
    shown = data.attributed.filter(pl.col("state") == Lane.COLLECTIVE)
    capped = table.join(
        shown.group_by("device", "step").agg(pl.col("ps").sum()), on=["device", "step"], how="left"
    ).with_columns(ps=pl.min_horizontal("waited_ps", pl.col("ps").fill_null(0)))
    steps, column = np.unique(capped["step"].to_numpy(), return_inverse=True)
    result = np.full((len(data.timeline.devices), len(steps)), np.nan)
    result[capped["device"].to_numpy(), column] = capped["ps"].to_numpy() * _step_of(data)
    return result


def _per_device(data: StepData, state: str) -> Waited:
    """Return milliseconds per step that each device spends in a state; NaN if it is in no step."""
    windows = data.selection.windows.group_by("device").agg(pl.len().alias("windows"))
    spent = data.attributed.filter(pl.col("state") == state)
    per_window = windows.join(
        spent.group_by("device").agg(pl.col("ps").sum()), on="device", how="left"
    ).select("device", ps=pl.col("ps").fill_null(0) / pl.col("windows"))
    result = np.full(len(data.timeline.devices), np.nan)
    result[per_window["device"].to_numpy()] = per_window["ps"].to_numpy() * _step_of(data)
    return result


def _step_of(data: StepData) -> float:
    """Return milliseconds of a median step per picosecond of a single step."""
    scale = data.selection.scale * data.selection.occurrences
    return scale or 1 / PS_PER_MS


SCHEMA: Final = {"device": pl.UInt16, "step": pl.Int32, "waited_ps": pl.Int64}


_STAY: Final = ("collective", "device", "step", "turn")


_MEETING: Final = ("collective", "step", "turn", "group")


def waits(data: StepData) -> pl.DataFrame:
    """Return one row per device and typical step in which it met others in a collective.

    Only exposed waiting counts; beside compute it costs nothing. Between hosts a wait is only as
    accurate as their clocks, so anything below their uncertainty is zero. If the hosts have no
    common clock, the shortest stay is taken for that of the last device to arrive.
    """
    timeline = data.timeline
    if len(timeline.devices) < 2 or timeline.basis is Basis.PREDICTED:
        return pl.DataFrame(schema=SCHEMA)
    executions = data.cached(exposed_executions)
    if not len(executions):
        return pl.DataFrame(schema=SCHEMA)
    ops = timeline.ops.with_row_index("row").filter(pl.col("lane") == Lane.COLLECTIVE)
    grouped = with_groups(timeline, number_collectives(ops), stays(executions, "step"), "step")
    exposed = executions.group_by(_STAY).agg(pl.col("exposed_ps").sum())
    several = pl.col("host").n_unique().over(_MEETING) > 1
    hosts = {index: device.host for index, device in enumerate(timeline.devices)}
    spreads = {index: host.clock_spread_ps or 0 for index, host in enumerate(timeline.hosts)}
    return (
        grouped.filter(pl.col("group").is_not_null())
        .filter(pl.len().over(_MEETING) > 1)
        .join(exposed, on=_STAY)
        .with_columns(host=pl.col("device").replace_strict(hosts, return_dtype=pl.UInt16))
        .with_columns(doubt=pl.col("host").replace_strict(spreads, return_dtype=pl.Int64))
        .with_columns(
            wait=_wait(one_clock(timeline)),
            doubt=pl.when(several).then(pl.col("doubt").max().over(_MEETING)).otherwise(0),
        )
        .with_columns(wait=pl.when(pl.col("wait") > pl.col("doubt")).then("wait").otherwise(0))
        .group_by("device", "step")
        .agg(waited_ps=pl.min_horizontal("wait", "exposed_ps").sum())
        .cast({**SCHEMA})
        .select(*SCHEMA)
        .sort("device", "step")
    )


def _wait(comparable: bool) -> pl.Expr:
    start, stay = pl.col("start_ps"), pl.col("dur_ps")
    if not comparable:
        return stay - stay.min().over(_MEETING)
    return (start.max().over(_MEETING) - start).clip(0, stay)
