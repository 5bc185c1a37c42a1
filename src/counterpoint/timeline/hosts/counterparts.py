"""Matches corresponding runs across hosts.

Hosts start their profiles at different moments, and one may miss steps that another recorded. Runs
are matched, in this order, by the profiler's run ids, where hosts share them; by the user's step
numbers; by the sequence of collectives, since the time from one to the next is the same on all
hosts and differs from step to step; else by the clocks, if profiles record when they began.
Otherwise runs are counted back from the last one recorded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

Longs = NDArray[np.int64]

_SHARED: Final = 0.5
"""Minimum share of the runs of the host with fewer runs that must have a counterpart."""

_FEWEST: Final = 3
"""Minimum number of matched runs for a comparison of their times."""

_CLEARLY: Final = 0.5
"""Maximum deviation of the best match, as a share of that of the second best."""


_NEAR: Final = 0.25
"""Maximum clock difference of corresponding runs, as a share of the time between runs."""


@dataclass(frozen=True, slots=True, eq=False)
class HostRuns:
    """One host's runs of a program, in order of `index`, with the data to match them by.

    `end` is when a collective of all devices ended in the run, `key` the profiler's id, `step` the
    user's number. Each is empty unless every run has one.
    """

    index: Longs
    start: Longs
    end: Longs
    key: Longs
    step: Longs


@dataclass(frozen=True, slots=True)
class Shifts:
    """The number to add to the index of each host's runs, and how it was found."""

    by_host: dict[int, int]
    told_by: str


LAST: Final = "in their order, backward from the last"


def find_shifts(hosts: dict[int, HostRuns], *, clocks_agree: bool) -> Shifts:
    """Match the runs of each host with those of the first.

    `clocks_agree`: roughly, so that runs can be matched by their times.
    """
    first = next(iter(hosts))
    for told_by, numbers in (
        ("run ids", {host: runs.key for host, runs in hosts.items()}),
        ("step numbers", {host: runs.step for host, runs in hosts.items()}),
    ):
        by_number = {
            host: _by_number(hosts[first].index, numbers[first], runs.index, numbers[host])
            for host, runs in hosts.items()
        }
        known = {host: shift for host, shift in by_number.items() if shift is not None}
        if len(known) == len(hosts):
            return Shifts(known, told_by)
    by_sequence = {host: _by_sequence(hosts[first], runs) for host, runs in hosts.items()}
    known = {host: shift for host, shift in by_sequence.items() if shift is not None}
    if len(known) == len(hosts):
        return Shifts(known, "the sequence of collectives")
    counts = {len(runs.index) for runs in hosts.values()}
    if clocks_agree and len(counts) > 1:
        by_clock = {host: _by_clock(hosts[first], runs) for host, runs in hosts.items()}
        known = {host: shift for host, shift in by_clock.items() if shift is not None}
        if len(known) == len(hosts):
            return Shifts(known, "their clocks")
    return Shifts(dict.fromkeys(hosts, 0), LAST)


def _by_number(index: Longs, numbers: Longs, other: Longs, others: Longs) -> int | None:
    """Match runs with the same number; None unless all of them give the same shift."""
    both, at, other_rows = np.intersect1d(numbers, others, return_indices=True)
    if not len(both) or len(both) < _SHARED * min(len(index), len(other)):
        return None
    apart = index[at] - other[other_rows]
    return int(apart[0]) if (apart == apart[0]).all() else None


def _by_sequence(first: HostRuns, own: HostRuns) -> int | None:
    """Return the shift with the least deviation of collective ends, if one is clearly best."""
    if first is own:
        return 0
    if not len(first.end) or not len(own.end):
        return None
    strays = sorted(
        (_stray(first.end[first_rows] - own.end[own_rows]), abs(shift), shift)
        for shift, first_rows, own_rows in _overlaps(first.index, own.index)
    )
    if not strays:
        return None
    best = strays[0]
    clear = len(strays) == 1 or best[0] < _CLEARLY * strays[1][0]
    return best[2] if clear and (len(strays) > 1 or best[2] == 0) else None


def _stray(apart: Longs) -> float:
    return float(np.median(np.abs(apart - np.median(apart))))


def _by_clock(first: HostRuns, own: HostRuns) -> int | None:
    """Return the shift at which runs start closest together, if that is close enough."""
    apart = [
        (abs(float(np.median(first.start[first_rows] - own.start[own_rows]))), abs(shift), shift)
        for shift, first_rows, own_rows in _overlaps(first.index, own.index)
    ]
    if not apart or len(first.start) < 2:
        return None
    nearest = min(apart)
    period = float(np.median(np.diff(first.start)))
    return nearest[2] if nearest[0] <= _NEAR * period else None


def _overlaps(first: Longs, own: Longs) -> list[tuple[int, Longs, Longs]]:
    """Return each shift at which enough runs have a counterpart, with the rows of those runs."""
    enough = max(_FEWEST, int(np.ceil(_SHARED * min(len(first), len(own)))))
    overlaps: list[tuple[int, Longs, Longs]] = []
    for shift in range(int(first[0] - own[-1]), int(first[-1] - own[0]) + 1):
        _, first_rows, own_rows = np.intersect1d(first, own + shift, return_indices=True)
        if len(first_rows) >= enough:
            overlaps.append((shift, first_rows, own_rows))
    return overlaps


def match_hosts(
    runs: pl.DataFrame,
    program: int,
    markers: pl.DataFrame,
    ends: pl.DataFrame,
    host_of_device: Sequence[int],
    *,
    clocks_agree: bool,
) -> tuple[pl.DataFrame, str]:
    """Return the runs with the same `index` for counterparts, and how they were matched.

    `ends` holds host, index and end_ps of a collective of all devices.
    """
    of_host = pl.col("device").replace_strict(dict(enumerate(host_of_device)), default=None)
    program_runs = runs.filter(pl.col("program") == program).with_columns(host=of_host)
    hosts = {
        int(host): _host_runs(
            program_runs.filter(pl.col("host") == host),
            markers.filter(pl.col("host") == host),
            ends.filter(pl.col("host") == host),
        )
        for host in program_runs["host"].unique().sort().to_list()
    }
    shifts = find_shifts(hosts, clocks_agree=clocks_agree)
    by_host = shifts.by_host
    least = min(int(own.index[0]) + by_host[host] for host, own in hosts.items())
    shift = of_host.replace_strict(by_host, default=0, return_dtype=pl.Int64) - least
    index = pl.when(pl.col("program") == program).then(pl.col("index") + shift).otherwise("index")
    return runs.with_columns(index=index.cast(pl.UInt32)), shifts.told_by


def _host_runs(runs: pl.DataFrame, markers: pl.DataFrame, ends: pl.DataFrame) -> HostRuns:
    """Collect one host's runs of the program on all its devices."""
    table = (
        runs.group_by("index")
        .agg(
            pl.col("start_ps").min(),
            pl.when(pl.col("key").n_unique() == 1).then(pl.col("key").first()).alias("key"),
        )
        .join(ends.select("index", "end_ps"), on="index", how="left")
        .sort("index")
    )
    start = table["start_ps"].to_numpy()

    def known(name: str) -> Longs:
        column = table[name]
        return np.empty(0, np.int64) if column.null_count() else column.to_numpy().astype(np.int64)

    return HostRuns(
        index=table["index"].to_numpy().astype(np.int64),
        start=start,
        end=known("end_ps"),
        key=known("key"),
        step=_steps(start, markers.filter(pl.col("device").is_null()).sort("start_ps")),
    )


def _steps(start: Longs, markers: pl.DataFrame) -> Longs:
    """Return the step of the marker in which each run starts; empty unless each has its own."""
    none = np.empty(0, np.int64)
    if not len(markers):
        return none
    begin = markers["start_ps"].to_numpy()
    at = np.searchsorted(begin, start, side="right") - 1
    if (at < 0).any() or len(np.unique(at)) < len(at):
        return none
    inside = start < begin[at] + markers["dur_ps"].to_numpy()[at]
    return markers["step"].to_numpy()[at] if inside.all() else none
