"""The bandwidth each collective requires, achieves and could have, and what binds it.

required   = what a device sends / slack: with less the collective can't be hidden
achieved   = what a device sends / mean transfer time of the device that arrives last; between TPU
             slices, / the time in which the runtime's records show its messages under way
capacity   = what the link carries at most, per device in one direction
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import Any, Final

import polars as pl

from counterpoint.core import Basis
from counterpoint.diagnose.collectives.bound import (
    Bound,
    ExecutionFigures,
    is_small_message,
    judge,
)
from counterpoint.diagnose.collectives.collectives import collective_profile
from counterpoint.diagnose.collectives.links import Link, Wire, wires
from counterpoint.diagnose.collectives.movable_work import movable_work
from counterpoint.diagnose.collectives.pieces import many_pieces
from counterpoint.diagnose.collectives.slack import NO_SLACK_PS, slack_table
from counterpoint.diagnose.collectives.transport import transport_ms
from counterpoint.diagnose.selection import PS_PER_MS
from counterpoint.diagnose.step_data import StepData

SCHEMA: Final = {
    "program": pl.UInt16,
    "op": pl.String,
    "kind": pl.String,
    "link": pl.String,  # of Link; null: participants are not known
    "wire_bytes": pl.Float64,  # sent over that link by a device that sends, per execution
    "senders": pl.Float64,  # share of the devices that send
    "slack_ms": pl.Float64,
    "slack_p5_ms": pl.Float64,
    "slack_p95_ms": pl.Float64,
    "no_slack_share": pl.Float64,  # of executions
    "movable_ms": pl.Float64,
    "required_gbps": pl.Float64,  # gigabytes per second; null: without slack no rate is enough
    "achieved_gbps": pl.Float64,
    "capacity_gbps": pl.Float64,  # of one device in one direction; null: not known
    "priced_link": pl.String,  # of a prediction: the links that determine its price
    "priced_bound": pl.String,  # latency or bandwidth of them
    "priced_how": pl.String,  # in a few words
    "bound": pl.String,  # of Bound
    "why": pl.String,  # with the figures that show it
    "own_bound": pl.String,  # the same for what is exposed besides waiting for a late rank
    "own_why": pl.String,
}

_GIGA: Final = 1e9
_ENOUGH: Final = 3
"""Number of similar collectives whose median tells what is usual."""


def classify(data: StepData) -> pl.DataFrame:
    """Return one row per collective, in the order of `data.cached(collective_profile)`: SCHEMA.

    Considers links and schedule alone; `exposure.causes` adds what follows from its place in
    the program, and is what commands show.
    """
    keys = ["program", "op"]
    slack = data.cached(slack_table).select(*keys, "slack_p5_ms", "slack_p95_ms", "no_slack_share")
    movable = movable_work(data).select(*keys, "movable_ms")
    joined = (
        data.cached(collective_profile)
        .join(slack, on=keys, how="left", nulls_equal=True, maintain_order="left")
        .join(movable, on=keys, how="left", nulls_equal=True, maintain_order="left")
    )
    found_wires = wires(data)
    recorded = transport_ms(data)
    busy = _busy(data, found_wires, recorded)
    collectives = joined.to_dicts()
    pieces = many_pieces(data, collectives, found_wires)
    predicted = data.basis is Basis.PREDICTED
    usual = _usual_ms(collectives, found_wires)
    rows = [
        _row(
            {
                **row,
                "pieces": pieces.get((row["program"], row["op"])),
                "predicted": predicted,
                "usual_ms": usual.get((row["program"], row["op"])),
                "transport_ms": recorded.get((row["program"], row["op"])),
            },
            wire,
            busy.get(wire.link, 0.0) / data.step_ms if data.step_ms else 0.0,
        )
        for row, wire in zip(collectives, found_wires, strict=True)
    ]
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def _usual_ms(
    rows: Sequence[dict[str, Any]], wires: Sequence[Wire]
) -> dict[tuple[int | None, str], float]:
    """Return what each collective with few bytes takes in the median of those like it."""
    alike: dict[object, list[tuple[tuple[int | None, str], float]]] = {}
    for row, wire in zip(rows, wires, strict=True):
        if row["mean_transfer_ms"] and is_small_message(wire.bytes):
            key = (row["kind"], row["group_size"], wire.link)
            own = ((row["program"], row["op"]), float(row["mean_transfer_ms"]))
            alike.setdefault(key, []).append(own)
    usual: dict[tuple[int | None, str], float] = {}
    for them in alike.values():
        if len(them) >= _ENOUGH:
            usual |= dict.fromkeys((name for name, _ in them), median(ms for _, ms in them))
    return usual


def _busy(
    data: StepData, wires: list[Wire], recorded: Mapping[tuple[int | None, str], float]
) -> dict[Link | None, float]:
    """Return milliseconds of a median step in which each link carries a collective."""
    busy: dict[Link | None, float] = {}
    for row, wire in zip(data.cached(collective_profile).iter_rows(named=True), wires, strict=True):
        ms = recorded.get((row["program"], row["op"]))
        if ms is None:
            ms = row["total_ms"] - (row["wait_ms"] or 0.0)
        busy[wire.link] = busy.get(wire.link, 0.0) + ms
    return busy


def _row(row: dict[str, Any], wire: Wire, link_busy: float) -> dict[str, Any]:
    required = _rate(wire.bytes, row["slack_ms"], at_least_ms=NO_SLACK_PS / PS_PER_MS)
    transport = row["transport_ms"]
    transfer = row["mean_transfer_ms"] if transport is None else transport / row["count"]
    achieved = _rate(wire.bytes, transfer)
    facts = ExecutionFigures(
        total_ms=row["total_ms"] / row["count"],
        exposed_ms=row["exposed_ms"] / row["count"],
        wait_ms=None if row["wait_ms"] is None else row["wait_ms"] / row["count"],
        transfer_ms=row["mean_transfer_ms"],
        slack_ms=row["slack_ms"],
        movable_ms=row["movable_ms"],
        achieved=achieved,
        wire=wire,
        ranks=row["group_size"],
        kind=row["kind"],
        link_busy=link_busy,
        pieces=row["pieces"],
        predicted=row["predicted"],
        usual_ms=row["usual_ms"],
    )
    result = own = judge(facts)
    if result[0] is Bound.LATE_RANK:
        late = min(facts.wait_ms or 0.0, facts.exposed_ms)
        rest = (facts.total_ms - late, facts.exposed_ms - late)
        own = judge(replace(facts, total_ms=rest[0], exposed_ms=rest[1], wait_ms=0.0))
    return {
        **{name: row.get(name) for name in SCHEMA},
        "link": wire.link,
        "wire_bytes": wire.bytes,
        "senders": wire.senders,
        "required_gbps": _giga(required),
        "achieved_gbps": _giga(achieved),
        "capacity_gbps": _giga(wire.capacity),
        **_priced(wire),
        "bound": result[0],
        "why": result[1],
        "own_bound": own[0],
        "own_why": own[1],
    }


def _priced(wire: Wire) -> dict[str, str | None]:
    priced = wire.priced
    return {
        "priced_link": priced.link or None if priced else None,
        "priced_bound": priced.bound or None if priced else None,
        "priced_how": priced.how or None if priced else None,
    }


def _rate(sent: float | None, ms: float | None, at_least_ms: float = 0.0) -> float | None:
    """Return bytes per second."""
    if sent is None or ms is None or ms <= at_least_ms:
        return None
    return sent / ms * 1e3


def _giga(rate: float | None) -> float | None:
    return None if rate is None else rate / _GIGA
