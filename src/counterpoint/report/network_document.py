"""`network` as a Document: who has no slack, what the links would have to give, when they are used.

Tables are cut to the first rows and say of how many; the JSON is never cut.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any, Final

import polars as pl

from counterpoint.core.basis import Basis
from counterpoint.diagnose.network.analysis import NetworkAnalysis
from counterpoint.diagnose.network.requirement import Bound
from counterpoint.diagnose.selection import Window
from counterpoint.report import units
from counterpoint.report.document import (
    Document,
    Fact,
    Facts,
    Prose,
    Section,
    Tone,
    printable,
)
from counterpoint.report.network_calls import calls_section
from counterpoint.report.network_demand import bursts_section, demand_section
from counterpoint.report.network_tables import SPELT, Told, names, table
from counterpoint.report.notes import note_facts
from counterpoint.report.tune_words import several

_INPUTS: Final = 3


def network_document(analysis: NetworkAnalysis, top: int, paths: Sequence[str] = ()) -> Document:
    """The report, with `top` rows in each table; `paths` are the profiles as they were named."""
    named = tuple(paths) or analysis.inputs
    sections = [_profile(analysis, named), _slack(analysis, top)]
    if len(analysis.network):
        sections += [_bandwidth(analysis, top), _bounds(analysis, top)]
    if len(analysis.demand.pieces):
        sections += [demand_section(analysis), bursts_section(analysis, top)]
    if len(analysis.calls.rows):
        sections.append(calls_section(analysis.calls, top))
    if notes := note_facts(analysis.notes):
        sections.append(Section("Notes", "", (Facts(tuple(notes)),)))
    return Document(
        sections=tuple(sections),
        legend=f"all figures are {analysis.basis}; GB are 1e9 bytes, of one device in one direction"
        f"; {units.UNKNOWN} is not known",
        next=printable(_next(analysis, named)),
    )


def _next(analysis: NetworkAnalysis, named: tuple[str, ...]) -> str:
    """See the transfers beside what runs meanwhile; without any, what the step is spent on."""
    if not len(analysis.slack):
        return shlex.join(["counterpoint", "explain", *named])
    words = ["counterpoint", "convert", *named, "network.pftrace"]
    return f"{shlex.join(words)}   # then open it at ui.perfetto.dev"


def _profile(analysis: NetworkAnalysis, named: tuple[str, ...]) -> Section:
    of = f"{printable(analysis.subject)} of {units.milliseconds(analysis.window_ms)}"
    unseen = "" if analysis.window is Window.STEP else "; no whole step was seen"
    rows = [
        Fact("figures", f"{analysis.basis}, of {of}{unseen}"),
        Fact("devices", printable(_devices(analysis))),
        Fact("links", printable(analysis.links_source)),
    ]
    return Section("Network", printable(_inputs(named)), (Facts(tuple(rows)),))


def _devices(analysis: NetworkAnalysis) -> str:
    """As `explain` counts them; of a prediction, what its device stands for."""
    if analysis.stands_for is not None:
        return f"1 {analysis.device_kind}: {analysis.stands_for}"
    place = f"on {analysis.hosts:,} host{'s' if analysis.hosts != 1 else ''}"
    if analysis.processes != analysis.hosts:
        place = f"in {analysis.processes:,} processes {place}"
    return f"{analysis.devices:,} {analysis.device_kind} {place}"


def _inputs(paths: tuple[str, ...]) -> str:
    more = len(paths) - _INPUTS
    return ", ".join(paths[:_INPUTS]) + (f" and {more:,} more" if more > 0 else "")


def _slack(analysis: NetworkAnalysis, top: int) -> Section:
    """The least slack first, where it is too short for the transfer."""
    slack = analysis.slack
    if not len(slack):
        return Section(
            "Slack",
            "no collective ran in a step (copies: counterpoint explain)",
        )
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
        f"{len(rows)} of {several(len(slack), 'transfer')}, the least first; {none:,}"
        f" {'has' if none == 1 else 'have'} none in most"
        " executions; times in ms of one execution"
    )
    told = [
        Told("op", names(rows, "op")),
        Told("kind", names(rows, "kind"), rank=2),
        Told("median", units.column(row["slack_ms"] for row in rows), number=True),
        Told("p5", units.column(row["slack_p5_ms"] for row in rows), number=True, rank=1),
        Told("p95", units.column(row["slack_p95_ms"] for row in rows), number=True, rank=1),
        Told("no slack", [units.percent(row["no_slack_share"], 0) for row in rows], number=True),
        Told("transfer", units.column(row["mean_transfer_ms"] for row in rows), number=True),
        Told("could move in", units.column(row["movable_ms"] for row in rows), number=True),
        Told("worst device", [_device(row["worst_device"]) for row in rows], number=True, rank=3),
    ]
    meaning = Prose(
        "slack: from the start to where the device needs the data, less waiting for other"
        " transfers; what takes no longer is hidden. could move in: independent work that stands"
        " elsewhere, at most.",
        Tone.QUIET,
    )
    return Section("Slack", summary, (meaning, table(told)))


def _device(number: int | None) -> str:
    return "-" if number is None else str(number)


def _bandwidth(analysis: NetworkAnalysis, top: int) -> Section:
    rows = analysis.network.with_columns(analysis.collectives["exposed_ms"]).head(top).to_dicts()
    # Of a prediction the rate is what the cost model put in.
    rate = "priced at" if analysis.basis == Basis.PREDICTED else "achieved"
    told = [
        Told("op", names(rows, "op")),
        Told("link", [SPELT.get(row["link"], units.UNKNOWN) for row in rows], rank=3),
        Told("sends", [units.size(row["wire_bytes"]) for row in rows], number=True, rank=2),
        Told("required", _gbps(rows, "required_gbps"), number=True),
        Told(rate, _gbps(rows, "achieved_gbps"), number=True),
        Told("capacity", _gbps(rows, "capacity_gbps"), number=True, rank=2),
        Told("decided by", [_decides(row) for row in rows], rank=1),
        Told("exposed ms", units.column(row["exposed_ms"] for row in rows), number=True),
        Told("bound", names(rows, "bound"), words=True),
    ]
    summary = (
        f"{len(rows)} of {several(len(analysis.network), 'collective')}, the most exposed first;"
        " rates in GB/s; required is what one device sends, over its slack"
    )
    if analysis.basis == Basis.PREDICTED:
        summary += "; decided by: the links, or their latency, that it is priced by"
    return Section("Bandwidth", summary, (table(told),))


def _decides(row: dict[str, Any]) -> str:
    """Of a prediction, what its price rests on; unknown where a measurement is its price."""
    link, bound = row["priced_link"], row["priced_bound"]
    if link is None:
        return units.UNKNOWN
    return f"{link} latency" if bound == "latency" else str(link)


def _gbps(rows: list[dict[str, Any]], name: str) -> list[str]:
    return units.column((row[name] for row in rows), 1)


def _due_to(bound: str) -> str:
    """What shows of the hidden ones: between two ops, or where one starts and ends."""
    said = {Bound.HIDDEN.value: "gaps beside hidden ones", Bound.UNKNOWN.value: "transfer"}
    return said.get(bound, bound)


def _cause(cause: dict[str, Any]) -> str:
    """With the code under which `explain` speaks of it."""
    rule = f" ({cause['code']})" if cause["code"] else ""
    return f"{units.milliseconds(cause['ms'])} {_due_to(cause['bound'])}{rule}: {cause['why']}"


def _bounds(analysis: NetworkAnalysis, top: int) -> Section:
    """What the exposed time is due to, by kind and for the dearest, split as `explain` does."""
    rows = analysis.network.to_dicts()
    due: dict[str, float] = {}
    for cause in (cause for row in rows for cause in row["causes"]):
        due[_due_to(cause["bound"])] = due.get(_due_to(cause["bound"]), 0.0) + cause["ms"]
    dearest = sorted(due, key=lambda name: -due[name])
    summary = "   ".join(f"{name} {units.milliseconds(due[name])}" for name in dearest)
    facts = tuple(
        Fact(
            printable(str(row["op"])) if cause is row["causes"][0] else "", printable(_cause(cause))
        )
        for row in [row for row in rows if row["bound"] != Bound.HIDDEN][:top]
        for cause in row["causes"]
    )
    return Section("Exposed time is due to", summary, (Facts(facts),) if facts else ())
