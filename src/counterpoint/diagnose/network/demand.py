"""Demand: bytes per second over a median step, by link, mean over devices and steps.

pieces       intervals of constant demand; their bytes add up to all that a step sends
bursts       intervals in which anything is sent, with the time of them that is exposed, and with
             the exposed time in which their collectives send nothing yet
saturated    intervals in which a link carries nearly its capacity or, if that is not known,
             nearly the highest rate observed on it
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counterpoint.core import Basis
from counterpoint.diagnose.collectives.bound import HIDDEN, Bound
from counterpoint.diagnose.collectives.collectives import executions_of, exposed_parts
from counterpoint.diagnose.collectives.links import Link
from counterpoint.diagnose.collectives.requirement import classify
from counterpoint.diagnose.collectives.transport import recorded_messages
from counterpoint.diagnose.exposure.causes import causes
from counterpoint.diagnose.step_data import StepData
from counterpoint.timeline.hosts import meetings, number_collectives, stays, with_groups
from counterpoint.timeline.model import Lane

SCHEMA: Final = {
    "program": pl.UInt16,
    "op": pl.String,
    "link": pl.String,  # null: not known
    "begin": pl.Float64,  # in steps from the step's start
    "end": pl.Float64,
    "bytes": pl.Float64,  # mean over steps and devices
    "exposed_ms": pl.Float64,  # while it sends, likewise
    "waiting_ms": pl.Float64,  # exposed, but not while it sends
}

_KEYS: Final = ("collective", "device", "step", "turn")


def sendings(data: StepData) -> pl.DataFrame:
    """Return one row per execution in a step of each collective of known size: SCHEMA.

    A collective sends the bytes that `wire` gives, evenly over its transfer, which is the end of
    its stay: before the last device arrives nothing flows. Between TPU slices its stay includes its
    slack, so there it sends in the times of its messages, where the runtime recorded them. Steps
    are laid over one another, each stretched to the length of the median step, and the n-th
    execution of a collective in a step is placed at its average position over steps and devices. So
    order within a step is preserved, and bytes add up.
    """
    stays_of_devices = _stays(data)
    messages = data.cached(recorded_messages)
    if messages.is_empty():
        return stays_of_devices
    exposed = stays_of_devices.group_by("program", "op", "link").agg(
        exposed=pl.col("exposed_ms").sum() + pl.col("waiting_ms").sum()
    )
    recorded = _recorded(data, messages).join(exposed, on=["program", "op"], nulls_equal=True)
    own = pl.col("exposed") * pl.col("bytes") / pl.col("bytes").sum().over("program", "op")
    length = (pl.col("end") - pl.col("begin")) * data.step_ms
    others = stays_of_devices.join(recorded, on=["program", "op"], how="anti", nulls_equal=True)
    sent = recorded.with_columns(
        exposed_ms=pl.min_horizontal(own, length), waiting_ms=(own - length).clip(0)
    ).select(*SCHEMA)
    return pl.concat([others, sent]).sort("begin", "program", "op", "end")


def _recorded(data: StepData, messages: pl.DataFrame) -> pl.DataFrame:
    """Place the n-th message of a collective in a step like the n-th execution of another."""
    length = pl.col("window_end_ps") - pl.col("window_ps")
    since = pl.col("start_ps") - pl.col("window_ps")
    own = ["program", "op", "device", "step"]
    return (
        messages.sort("start_ps")
        .with_columns(turn=pl.int_range(pl.len()).over(own))
        .group_by("program", "op", "turn")
        .agg(
            begin=(since / length).mean(),
            end=((pl.col("end_ps") - pl.col("window_ps")) / length).mean(),
            bytes=pl.col("bytes").sum().cast(pl.Float64) / data.selection.occurrences,
        )
    )


def _stays(data: StepData) -> pl.DataFrame:
    selection = data.selection
    ops = data.timeline.ops.with_row_index("row").filter(pl.col("lane") == Lane.COLLECTIVE)
    executions = executions_of(data.spans, ops)
    classified = data.cached(classify).select(
        "program", "op", "link", wire_bytes=pl.col("wire_bytes") * pl.col("senders")
    )
    if not len(executions) or not selection.occurrences:
        return pl.DataFrame(schema=SCHEMA)
    numbered = number_collectives(ops)
    grouped = with_groups(data.timeline, numbered, stays(executions, "step"), "step")
    fastest = meetings(data.timeline, grouped, "step").select(
        "collective", "step", "turn", "group", "fastest"
    )
    wait = (
        pl.when(pl.col("group").is_null())
        .then(0)
        .otherwise((pl.col("dur_ps") - pl.col("fastest")).clip(0))
    )
    placed = grouped.join(
        fastest, on=["collective", "step", "turn", "group"], how="left", nulls_equal=True
    ).with_columns(sends_ps=pl.col("start_ps") + wait)
    length = pl.col("window_end_ps") - pl.col("window_ps")
    windows = selection.windows.select(
        "step", "device", window_ps="start_ps", window_end_ps="end_ps"
    )
    names = numbered.group_by("collective").agg(pl.first("program"), pl.first("name").alias("op"))
    return (
        placed.join(_exposed(data, executions, placed), on=[*_KEYS], how="left")
        .join(windows, on=["step", "device"])
        .join(names, on="collective")
        .join(classified, on=["program", "op"], how="left", nulls_equal=True)
        .filter((pl.col("wire_bytes") > 0) & (length > 0))
        .group_by("collective", "turn")
        .agg(
            pl.first("program", "op", "link"),
            begin=((pl.col("sends_ps") - pl.col("window_ps")) / length).mean(),
            end=((pl.col("start_ps") + pl.col("dur_ps") - pl.col("window_ps")) / length).mean(),
            bytes=pl.col("wire_bytes").sum() / selection.occurrences,
            exposed_ms=_stretched(pl.col("exposed_ps") / length, data),
            waiting_ms=_stretched(pl.col("waiting_ps") / length, data),
        )
        .select(*SCHEMA)
        .cast({**SCHEMA})
        .sort("begin", "program", "op", "end")
    )


def _stretched(share: pl.Expr, data: StepData) -> pl.Expr:
    """Return the mean of shares of steps in ms of the median step, to which all are stretched."""
    return share.sum() * data.step_ms / data.selection.occurrences


def _exposed(data: StepData, executions: pl.DataFrame, placed: pl.DataFrame) -> pl.DataFrame:
    """Return the exposed time of each execution: `exposed_ps` while it sends, else `waiting_ps`."""
    end = pl.col("start_ps") + pl.col("dur_ps")
    whole = exposed_parts(data.selection, data.spans, executions).rename("whole_ps")
    sending = executions.join(
        placed.select(*_KEYS, "sends_ps"), on=[*_KEYS], how="left", maintain_order="left"
    ).with_columns(dur_ps=(end - pl.max_horizontal("start_ps", "sends_ps")).clip(0))
    sending = sending.with_columns(start_ps=pl.max_horizontal("start_ps", "sends_ps"))
    return (
        sending.with_columns(exposed_parts(data.selection, data.spans, sending), whole)
        .group_by(_KEYS)
        .agg(
            pl.col("exposed_ps").sum(),
            waiting_ps=(pl.col("whole_ps") - pl.col("exposed_ps")).sum(),
        )
    )


PIECES: Final = {
    "link": pl.String,
    "start_ms": pl.Float64,
    "end_ms": pl.Float64,
    "gbps": pl.Float64,  # gigabytes per second of one device
    "bytes": pl.Float64,
}

BURSTS: Final = {
    "link": pl.String,
    "start_ms": pl.Float64,
    "length_ms": pl.Float64,
    "bytes": pl.Float64,  # of one device
    "mean_gbps": pl.Float64,
    "peak_gbps": pl.Float64,
    "exposed_ms": pl.Float64,  # of its length, per device
    "waiting_ms": pl.Float64,  # exposed time of its collectives in which they do not send
    "bound": pl.String,  # of Bound, the one with most of the exposed time
    "collectives": pl.List(pl.String),  # the largest, by bytes
}

SATURATED: Final = {
    "link": pl.String,
    "start_ms": pl.Float64,
    "length_ms": pl.Float64,
    "mean_gbps": pl.Float64,
    "limit_gbps": pl.Float64,  # the rate it is compared with
    "limit_is": pl.String,  # "capacity", or "highest seen" if that is not known
}

SATURATION: Final = 0.7
"""Share of a link's data sheet rate at which it is full: NCCL reaches at most about 0.8."""

_SEEN: Final = 0.9
"""Share of the highest observed demand at which a link of unknown rate counts as full."""

_GRID: Final = 2000
"""Maximum number of pieces per link; beyond, demand is averaged over equal parts of the step."""

_SEAM: Final = 1e-3
"""Share of a step: a shorter pause does not end a burst."""

_NAMED: Final = 5

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Demand:
    """All three tables, and the length of the step that they refer to.

    `lower_bounds` names links whose rates are lower bounds: the time of their transfers is known
    only from the send to the moment at which a device needs the data.
    """

    step_ms: float
    lower_bounds: tuple[str, ...]
    pieces: pl.DataFrame
    bursts: pl.DataFrame
    saturated: pl.DataFrame


def demand(data: StepData) -> Demand:
    """Return the demand of the typical steps."""
    sent = sendings(data)
    lower_bounds = _lower_bounds(data)
    pieces: list[dict[str, Any]] = []
    bursts: list[dict[str, Any]] = []
    full: list[dict[str, Any]] = []
    bounds = {(row["program"], row["op"]): row["bound"] for row in data.cached(causes).to_dicts()}
    links: list[str | None] = sent["link"].unique().sort().to_list()
    for link in links:
        own = sent.filter(pl.col("link").eq_missing(pl.lit(link, pl.String)))
        profile = _course(own)
        pieces += _pieces(link, profile, data.step_ms)
        bursts += _bursts(link, profile, own, data.step_ms, bounds)
        full += _full(link, profile, data, lower_bound=link in lower_bounds)
    return Demand(
        data.step_ms,
        lower_bounds,
        pl.DataFrame(pieces, schema=PIECES, orient="row"),
        pl.DataFrame(bursts, schema=BURSTS, orient="row"),
        pl.DataFrame(full, schema=SATURATED, orient="row"),
    )


def _lower_bounds(data: StepData) -> tuple[str, ...]:
    if data.basis is Basis.PREDICTED:  # its transfers are as long as their prices
        return ()
    measured = data.cached(classify).filter(pl.col("link") == Link.DCN)
    messages = data.cached(recorded_messages)
    unrecorded = measured.join(messages, on=["program", "op"], how="anti", nulls_equal=True)
    return () if unrecorded.is_empty() else (Link.DCN.value,)


@dataclass(frozen=True, slots=True, eq=False)
class _ByteProfile:
    """Bytes between edges, which run from 0 to 1 step."""

    edges: Floats
    bytes: Floats

    def gbps(self, step_ms: float) -> Floats:
        return self.bytes / (np.diff(self.edges) * step_ms) / 1e6


def _course(sent: pl.DataFrame) -> _ByteProfile:
    begin, size = sent["begin"].to_numpy(), sent["bytes"].to_numpy()
    lasts = np.maximum(sent["end"].to_numpy() - begin, 1e-12)
    begin = begin - np.maximum(np.floor(begin), 0.0)
    # What lasts for whole steps sends evenly in each: only the rest has a place in the step.
    evenly = size * np.floor(lasts) / lasts
    size, end = size - evenly, begin + lasts - np.floor(lasts)
    end = np.maximum(end, begin + 1e-12)
    times = np.unique(np.concatenate([[0.0, 1.0], begin % 1, end % 1]))
    edges = times if len(times) <= _GRID + 1 else np.linspace(0.0, 1.0, _GRID + 1)
    whole = evenly.sum() * np.diff(edges)
    for turn in range(int(np.floor(end.max())) + 1):
        whole += np.diff(_sent_before(edges + turn, begin, end, size))
    # Differences of large sums leave rounding errors.
    return _ByteProfile(edges, np.where(whole > 1e-9 * whole.sum(), whole, 0.0))


def _sent_before(at: Floats, begin: Floats, end: Floats, size: Floats) -> Floats:
    """Return the bytes sent before each moment."""
    rate = size / (end - begin)

    def since(moments: Floats) -> Floats:
        order = np.argsort(moments)
        index = np.searchsorted(moments[order], at, side="right")
        rates = np.concatenate([[0.0], np.cumsum(rate[order])])
        offsets = np.concatenate([[0.0], np.cumsum((rate * moments)[order])])
        return rates[index] * at - offsets[index]

    return since(begin) - since(end)


def _pieces(link: str | None, course: _ByteProfile, step_ms: float) -> list[dict[str, Any]]:
    columns = (course.edges[:-1], course.edges[1:], course.gbps(step_ms), course.bytes)
    return [
        {
            "link": link,
            "start_ms": first * step_ms,
            "end_ms": last * step_ms,
            "gbps": gbps,
            "bytes": size,
        }
        for first, last, gbps, size in zip(*(column.tolist() for column in columns), strict=True)
    ]


def _stretches(kept: NDArray[np.bool_], edges: Floats, seam: float = 0.0) -> list[tuple[int, int]]:
    """Return runs of selected pieces as first and end index; short pauses are bridged."""
    change = np.flatnonzero(np.diff(np.concatenate([[False], kept, [False]]).astype(np.int8)))
    runs: list[tuple[int, int]] = []
    for first, last in change.reshape(-1, 2).tolist():
        if runs and edges[first] - edges[runs[-1][1]] < seam:
            runs[-1] = (runs[-1][0], last)
        else:
            runs.append((first, last))
    return runs


def _bursts(
    link: str | None,
    course: _ByteProfile,
    sent: pl.DataFrame,
    step_ms: float,
    bounds: dict[tuple[int | None, str], str],
) -> list[dict[str, Any]]:
    runs = _stretches(course.bytes > 0, course.edges, _SEAM)
    starts = np.array([course.edges[first] for first, _ in runs])
    middle = (sent["begin"] + sent["end"]).to_numpy() / 2 % 1
    numbers = np.maximum(np.searchsorted(starts, middle, side="right") - 1, 0)
    members = (
        sent.with_columns(burst=pl.Series(numbers, dtype=pl.Int64))
        .group_by("burst", "program", "op")
        .agg(pl.col("bytes", "exposed_ms", "waiting_ms").sum())
        .sort("bytes", "op", descending=[True, False])
    )
    gbps = course.gbps(step_ms)
    bursts: list[dict[str, Any]] = []
    for number, (first, last) in enumerate(runs):
        inside = members.filter(pl.col("burst") == number).to_dicts()
        length = float(course.edges[last] - course.edges[first]) * step_ms
        size = float(course.bytes[first:last].sum())
        bursts.append(
            {
                "link": link,
                "start_ms": float(course.edges[first]) * step_ms,
                "length_ms": length,
                "bytes": size,
                "mean_gbps": size / length / 1e6,
                "peak_gbps": float(gbps[first:last].max()),
                # Several may be exposed at once: of the burst, no more than all is.
                "exposed_ms": min(sum(row["exposed_ms"] for row in inside), length),
                "waiting_ms": sum(row["waiting_ms"] for row in inside),
                "bound": _bound(inside, length, bounds),
                "collectives": [row["op"] for row in inside[:_NAMED]],
            }
        )
    return bursts


def _bound(
    inside: list[dict[str, Any]], length: float, bounds: dict[tuple[int | None, str], str]
) -> str:
    """Return the bound of most of a burst's exposed time."""
    by_bound: dict[str, float] = {}
    for row in inside:
        bound = bounds[row["program"], row["op"]]
        own = row["exposed_ms"] + row["waiting_ms"]
        by_bound[bound] = by_bound.get(bound, 0.0) + own
    exposed = {bound: ms for bound, ms in by_bound.items() if bound != Bound.HIDDEN}
    if sum(exposed.values()) <= HIDDEN * length:
        return Bound.HIDDEN
    return max(exposed, key=lambda bound: exposed[bound])


def _full(
    link: str | None, course: _ByteProfile, data: StepData, *, lower_bound: bool
) -> list[dict[str, Any]]:
    capacity = (
        data.cached(classify)
        .filter(pl.col("link").eq_missing(pl.lit(link, pl.String)))["capacity_gbps"]
        .max()
    )
    known = isinstance(capacity, float)
    gbps = course.gbps(data.step_ms)
    limit = capacity if isinstance(capacity, float) else float(gbps.max())
    if not limit or (lower_bound and not known):
        return []
    runs = _stretches(gbps >= limit * (SATURATION if known else _SEEN), course.edges)
    stretches: list[dict[str, Any]] = []
    for first, last in runs:
        length = float(course.edges[last] - course.edges[first]) * data.step_ms
        stretches.append(
            {
                "link": link,
                "start_ms": float(course.edges[first]) * data.step_ms,
                "length_ms": length,
                "mean_gbps": float(course.bytes[first:last].sum()) / length / 1e6,
                "limit_gbps": limit,
                "limit_is": "capacity" if known else "highest seen",
            }
        )
    return stretches
