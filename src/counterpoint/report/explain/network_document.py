"""The report of `network`: slack, required bandwidth, why transfers are exposed, load over time.

Remote calls, if the profile records any, come last, and are compared with their bytes. Tables are
cut to the first rows and state the total; the JSON is never cut.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import polars as pl

from counterpoint.core import Basis
from counterpoint.core.printable import counted_noun, some
from counterpoint.diagnose.collectives.bound import Bound
from counterpoint.diagnose.collectives.links import Link
from counterpoint.diagnose.network.analysis import NetworkAnalysis
from counterpoint.diagnose.network.calls import LatencyPattern, RemoteCalls
from counterpoint.diagnose.network.demand import SATURATION, Demand
from counterpoint.diagnose.selection import WindowKind
from counterpoint.report import units
from counterpoint.report.columns import field_columns, known_columns
from counterpoint.report.document import (
    Block,
    Chart,
    Document,
    Fact,
    FactList,
    Prose,
    Section,
    Series,
    Tone,
    names,
    numbers,
    table,
)
from counterpoint.report.explain.network_json import (
    BurstJson,
    CallsJson,
    NetworkCollectiveJson,
    SlackJson,
    network_rows,
)
from counterpoint.report.explain.notes import note_facts
from counterpoint.report.places import place_of_hosts

LINK_NAMES: Final[Mapping[str | None, str]] = {
    Link.DOMAIN: "domain",
    Link.NETWORK: "network",
    Link.ICI: "ICI",
    Link.DCN: "DCN",
}
"""Display names of links."""

_PARTS: Final = 720
"""Parts of the step in a chart: several per character, so that any width divides them well."""
_INPUTS: Final = 3


def calls_section(calls: RemoteCalls, top: int) -> Section:
    """Return the remote calls by link, and their p95 by step."""
    links = calls.links
    rows = links.head(top).to_dicts()
    shown = [row | {"host": calls.hosts[int(row["host"])]} for row in rows]
    shown_columns = [
        name
        for name in CallsJson.COLUMNS
        if name != "host_ms" or any(row["host_ms"] for row in rows)
    ]
    columns = field_columns(CallsJson, shown, shown_columns)
    state = {
        LatencyPattern.NORMAL: "none is slow",
        LatencyPattern.SPORADIC: "occasionally slow",
        LatencyPattern.SUSTAINED: "mostly slow",
    }[calls.pattern]
    summary = (
        f"{len(calls.rows):,} over {len(links):,} links: {state}, compared with their bytes at"
        f" {units.rate(calls.rate, 'B')} per host ({calls.rate_source})"
    )
    blocks: list[Block] = [table(*known_columns(columns))]
    by_step = calls.by_step
    if len(by_step) > 1:
        blocks.append(_over_steps(calls))
    return Section("Remote calls", summary, tuple(blocks))


def _over_steps(calls: RemoteCalls) -> Chart:
    by_step = calls.by_step
    p95 = by_step["p95_ms"].to_list()
    most = max(p95)
    steps = by_step["step"].to_list()
    series = Series(
        label="p95 by step",
        levels=tuple(value / most if most else 0.0 for value in p95),
        remark=f"full scale {units.milliseconds(most)}",
    )
    return Chart(series=(series,), first=f"step {steps[0]}", last=f"step {steps[-1]}")


def demand_section(analysis: NetworkAnalysis) -> Section:
    """Return the demand over a step as a chart: one series per link, each on its own scale."""
    demand = analysis.demand
    links: list[str | None] = demand.pieces["link"].unique(maintain_order=True).to_list()
    series = tuple(_demand_series(analysis, link) for link in links)
    sent = units.size(float(demand.pieces["bytes"].sum()))
    used = demand.pieces.filter(pl.col("gbps") > 0)
    busy = float((used["end_ms"] - used["start_ms"]).sum()) / demand.step_ms / max(len(links), 1)
    chart = Chart(series=series, first="0", last=units.milliseconds(demand.step_ms), means=True)
    blocks: list[Block] = [chart]
    if not (demand.lower_bounds and demand.saturated.is_empty()):
        blocks.append(Prose(_full(demand), Tone.QUIET))
    at_most = "at most " if demand.lower_bounds else ""
    summary = (
        f"a device sends {sent} per step on average; its links are in use for"
        f" {at_most}{units.percent(busy, 0)}"
    )
    return Section("Demand", summary, tuple(blocks))


def _demand_series(analysis: NetworkAnalysis, link: str | None) -> Series:
    pieces = analysis.demand.pieces.filter(pl.col("link").eq_missing(pl.lit(link, pl.String)))
    own = analysis.network.filter(pl.col("link").eq_missing(pl.lit(link, pl.String)))
    capacity, fastest = own["capacity_gbps"].max(), own["achieved_gbps"].max()
    peak = float(pieces.select(pl.col("gbps").max()).item() or 0.0)
    scale = max(capacity, peak) if isinstance(capacity, float) else peak
    known = isinstance(capacity, float)
    limit = f" of a capacity of {capacity:,.4g}" if known else "; the capacity is unknown"
    remark = f"means; full scale {scale:,.4g} GB/s; peak {peak:,.4g}{limit}"
    if link in analysis.demand.lower_bounds:
        remark += (
            "; each transfer spread evenly from its send to its recv-done, slack included: when it"
            " was under way was not recorded, and its rate was at least this"
        )
    elif known and isinstance(fastest, float) and fastest <= capacity < peak:
        remark += "; above it, transfers overlap, each spread evenly over its time"
    return Series(
        label=LINK_NAMES.get(link, "unknown link"),
        levels=tuple(level / scale if scale else 0.0 for level in _levels(pieces, analysis)),
        remark=remark,
    )


def _levels(pieces: pl.DataFrame, analysis: NetworkAnalysis) -> list[float]:
    """Return the mean demand of each part of the step: its bytes over its length."""
    edges = np.linspace(0.0, analysis.demand.step_ms, _PARTS + 1)
    sent = np.concatenate([[0.0], np.cumsum(pieces["bytes"].to_numpy())])
    at = np.concatenate([pieces["start_ms"].to_numpy()[:1], pieces["end_ms"].to_numpy()])
    width_ms = analysis.demand.step_ms / _PARTS
    parts = np.diff(np.interp(edges, at, sent))
    # Differences of sums leave rounding errors.
    levels: list[float] = (np.where(parts > 1e-12 * sent[-1], parts, 0) / width_ms / 1e6).tolist()
    return levels


def _full(demand: Demand) -> str:
    if not len(demand.saturated):
        return f"no link ever exceeds {SATURATION:.0%} of its capacity"
    described: list[str] = []
    for (link, limit_is), rows in demand.saturated.group_by("link", "limit_is"):
        ms = units.milliseconds(float(rows["length_ms"].sum()))
        known = limit_is == "capacity"
        level = (
            f"{SATURATION:.0%} of its capacity or more"
            if known
            else "near its highest observed rate"
        )
        name = LINK_NAMES.get(str(link) if link else None, "unknown link")
        described.append(f"{name}: {level} for {ms}, in {counted_noun(len(rows), 'interval')}")
    return "   ".join(sorted(described))


def bursts_section(analysis: NetworkAnalysis, top: int) -> Section:
    """Return the largest bursts in order of time."""
    bursts = analysis.demand.bursts
    largest = bursts.sort("bytes", descending=True).head(top).sort("start_ms")
    rows = largest.to_dicts()
    shown = [
        row | {"link": LINK_NAMES.get(row["link"]), "collectives": _collectives(row)}
        for row in rows
    ]
    columns = field_columns(BurstJson, shown)
    summary = f"the largest {len(rows)} of {len(bursts):,}; times in ms from the step's start"
    return Section("Bursts", summary, (table(*known_columns(columns)),))


def _collectives(row: dict[str, Any]) -> str:
    first, *more = row["collectives"]
    return str(first) + (f" and {len(more)} more" if more else "")


def network_document(analysis: NetworkAnalysis, top: int, paths: Sequence[str] = ()) -> Document:
    """Return the report, with `top` rows per table; `paths` are the profiles as named."""
    named = tuple(paths) or analysis.inputs
    sections = [_profile(analysis, named), _slack(analysis, top)]
    if len(analysis.network):
        sections += [_bandwidth(analysis, top), _bounds(analysis, top)]
    if len(analysis.demand.pieces):
        sections += [demand_section(analysis), bursts_section(analysis, top)]
    if len(analysis.calls.rows):
        sections.append(calls_section(analysis.calls, top))
    if notes := note_facts(analysis.notes):
        sections.append(Section("Notes", "", (FactList(tuple(notes)),)))
    return Document(
        sections=tuple(sections),
        legend=f"all figures are {analysis.basis}; 1 GB is 1e9 bytes; rates are of one device in"
        f" one direction; {units.UNKNOWN}: unknown",
        next=_next(analysis, named),
    )


def _next(analysis: NetworkAnalysis, named: tuple[str, ...]) -> str:
    """Return the command that shows transfers with concurrent work, or explains the step."""
    if not len(analysis.slack):
        return shlex.join(["counterpoint", "explain", *named])
    return shlex.join(["counterpoint", "view", *named])


def _profile(analysis: NetworkAnalysis, named: tuple[str, ...]) -> Section:
    of = f"{analysis.subject} of {units.milliseconds(analysis.window_ms)}"
    unseen = "" if analysis.window is WindowKind.STEP else "; the profile has no whole step"
    rows = [
        Fact("figures", f"{analysis.basis}, of {of}{unseen}"),
        Fact("devices", _devices(analysis)),
        Fact("links", analysis.links_source),
    ]
    return Section("Network", some(named, _INPUTS), (FactList(tuple(rows)),))


def _devices(analysis: NetworkAnalysis) -> str:
    """Return the devices as `explain` counts them; for a prediction, what its device represents."""
    if analysis.stands_for is not None:
        return f"1 x {analysis.chips}: {analysis.stands_for}"
    place = place_of_hosts(analysis.hosts, analysis.processes)
    return f"{analysis.devices:,} x {analysis.chips} {place}"


def _slack(analysis: NetworkAnalysis, top: int) -> Section:
    """Return the transfers, those with the least slack compared with their duration first."""
    slack = analysis.slack
    if not len(slack):
        return Section(
            "Slack",
            "no collective ran in a step (for copies: counterpoint explain)",
        )
    if slack["slack_ms"].is_null().all():
        reasons = some(slack["unknown"].drop_nulls().unique(maintain_order=True).to_list(), 2)
        count = counted_noun(len(slack), "transfer")
        return Section("Slack", f"unknown for all of {count}: {reasons or 'no reason is known'}")
    moved = analysis.network.select("program", "op", "movable_ms")
    lasts = analysis.collectives.select("program", "op", "mean_transfer_ms")
    keys = ["program", "op"]
    rows = (
        slack.join(moved, on=keys, how="left", nulls_equal=True, maintain_order="left")
        .join(lasts, on=keys, how="left", nulls_equal=True, maintain_order="left")
        .head(top)
        .to_dicts()
    )
    none = len(slack.filter(pl.col("no_slack_share") > 0.5))
    summary = (
        f"{len(rows)} of {counted_noun(len(slack), 'transfer')}, least first; {none:,}"
        f" {'has' if none == 1 else 'have'} none in most executions; times in ms of one execution"
    )
    columns = field_columns(SlackJson, rows)
    columns[-1:-1] = [
        numbers("transfer", units.column(row["mean_transfer_ms"] for row in rows)),
        numbers("could move in", units.column(row["movable_ms"] for row in rows)),
    ]
    meaning = Prose(
        "slack: time from the start until the device needs the data, minus waits for other"
        " transfers; a transfer that takes no longer is hidden. could move in: independent work"
        " elsewhere in the schedule (upper bound).",
        Tone.QUIET,
    )
    return Section("Slack", summary, (meaning, table(*known_columns(columns))))


def _bandwidth(analysis: NetworkAnalysis, top: int) -> Section:
    rows = network_rows(analysis).head(top).to_dicts()
    shown = [row | {"link": LINK_NAMES.get(row["link"])} for row in rows]
    columns = field_columns(NetworkCollectiveJson, shown)
    if analysis.basis == Basis.PREDICTED:  # the rate is an input of the cost model
        columns = [
            replace(it, title="priced at") if it.title == "achieved" else it for it in columns
        ]
    columns.append(names("decided by", [_decides(row) for row in rows], rank=1))
    summary = (
        f"{len(rows)} of {counted_noun(len(analysis.network), 'collective')}, the most exposed"
        " first; rates in GB/s; required: bytes sent by one device / slack"
    )
    if analysis.basis == Basis.PREDICTED:
        summary += "; decided by: the links, or their latency, that determine the price"
    return Section("Bandwidth", summary, (table(*known_columns(columns)),))


def _decides(row: dict[str, Any]) -> str:
    """Return what a predicted price is based on; unknown if the price is a measurement."""
    link, bound = row["priced_link"], row["priced_bound"]
    if link is None:
        return units.UNKNOWN
    return f"{link} latency" if bound == "latency" else str(link)


def _due_to(bound: str) -> str:
    """Return a bound by name; for hidden transfers, the gaps between ops or at their ends."""
    named = {Bound.HIDDEN.value: "gaps beside hidden transfers", Bound.UNKNOWN.value: "transfer"}
    return named.get(bound, bound)


def _cause(cause: dict[str, Any]) -> str:
    """Return a cause with the code of the rule under which `explain` reports it."""
    rule = f" ({cause['code']})" if cause["code"] else ""
    return f"{units.milliseconds(cause['ms'])} {_due_to(cause['bound'])}{rule}: {cause['why']}"


def _bounds(analysis: NetworkAnalysis, top: int) -> Section:
    """Return the causes of exposed time, by kind and for the worst, split as in `explain`."""
    rows = analysis.network.to_dicts()
    due: dict[str, float] = {}
    for cause in (cause for row in rows for cause in row["causes"]):
        due[_due_to(cause["bound"])] = due.get(_due_to(cause["bound"]), 0.0) + cause["ms"]
    largest = sorted(due, key=lambda name: -due[name])
    summary = "   ".join(f"{name} {units.milliseconds(due[name])}" for name in largest)
    facts = tuple(
        Fact(str(row["op"]) if cause is row["causes"][0] else "", _cause(cause))
        for row in [row for row in rows if row["bound"] != Bound.HIDDEN][:top]
        for cause in row["causes"]
    )
    return Section("Exposed time is due to", summary, (FactList(facts),) if facts else ())
