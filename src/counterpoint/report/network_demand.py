"""When the links are used: demand as a chart, full stretches, and bursts."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import polars as pl

from counterpoint.diagnose.network.analysis import NetworkAnalysis
from counterpoint.diagnose.network.demand import SATURATION, Demand
from counterpoint.report import units
from counterpoint.report.document import Chart, Course, Prose, Section, Tone, printable
from counterpoint.report.network_tables import SPELT, Told, names, table

_PARTS: Final = 720
"""Parts of the step in a chart: several for each character, so that any width divides them well."""


def demand_section(analysis: NetworkAnalysis) -> Section:
    """One course per link, each on its own scale."""
    demand = analysis.demand
    links: list[str | None] = demand.pieces["link"].unique(maintain_order=True).to_list()
    courses = tuple(_course(analysis, link) for link in links)
    sent = units.size(float(demand.pieces["bytes"].sum()))
    used = demand.pieces.filter(pl.col("gbps") > 0)
    busy = float((used["end_ms"] - used["start_ms"]).sum()) / demand.step_ms / max(len(links), 1)
    chart = Chart(courses=courses, first="0", last=units.milliseconds(demand.step_ms), means=True)
    full = Prose(_full(demand), Tone.QUIET)
    summary = f"a device sends {sent} a step; its links are in use {units.percent(busy, 0)} of it"
    return Section("Demand", summary, (chart, full))


def _course(analysis: NetworkAnalysis, link: str | None) -> Course:
    mine = analysis.demand.pieces.filter(pl.col("link").eq_missing(pl.lit(link, pl.String)))
    capacity = analysis.network.filter(pl.col("link").eq_missing(pl.lit(link, pl.String)))[
        "capacity_gbps"
    ].max()
    peak = float(mine.select(pl.col("gbps").max()).item() or 0.0)
    scale = max(capacity, peak) if isinstance(capacity, float) else peak
    known = isinstance(capacity, float)
    said = f" of the {capacity:,.4g} that it has" if known else "; what it has is not known"
    remark = f"bars are means, scale to {scale:,.4g} GB/s; the highest is {peak:,.4g}{said}"
    return Course(
        label=SPELT.get(link, "link not known"),
        levels=tuple(level / scale if scale else 0.0 for level in _levels(mine, analysis)),
        remark=remark,
    )


def _levels(pieces: pl.DataFrame, analysis: NetworkAnalysis) -> list[float]:
    """Of each part of the step the mean demand: its bytes over its length."""
    edges = np.linspace(0.0, analysis.demand.step_ms, _PARTS + 1)
    sent = np.concatenate([[0.0], np.cumsum(pieces["bytes"].to_numpy())])
    at = np.concatenate([pieces["start_ms"].to_numpy()[:1], pieces["end_ms"].to_numpy()])
    width_ms = analysis.demand.step_ms / _PARTS
    parts = np.diff(np.interp(edges, at, sent))
    # Differences of sums leave crumbs.
    levels: list[float] = (np.where(parts > 1e-12 * sent[-1], parts, 0) / width_ms / 1e6).tolist()
    return levels


def _full(demand: Demand) -> str:
    if not len(demand.saturated):
        return f"at no time does a link carry more than {SATURATION:.0%} of what it has"
    said: list[str] = []
    for (link, limit_is), rows in demand.saturated.group_by("link", "limit_is"):
        ms = units.milliseconds(float(rows["length_ms"].sum()))
        known = limit_is == "capacity"
        of = (
            f"{SATURATION:.0%} of its capacity or more"
            if known
            else "nearly the most it was seen at"
        )
        name = SPELT.get(str(link) if link else None, "a link that is not known")
        stretches = "stretch" if len(rows) == 1 else "stretches"
        said.append(f"{name}: {of} for {ms}, in {len(rows):,} {stretches}")
    return printable("   ".join(sorted(said)))


def bursts_section(analysis: NetworkAnalysis, top: int) -> Section:
    """The largest, in the order in which they come."""
    bursts = analysis.demand.bursts
    largest = bursts.sort("bytes", descending=True).head(top).sort("start_ms")
    rows = largest.to_dicts()
    told = [
        Told("start ms", units.column(row["start_ms"] for row in rows), number=True),
        Told("length", units.column(row["length_ms"] for row in rows), number=True),
        Told("link", [SPELT.get(row["link"], units.UNKNOWN) for row in rows]),
        Told("bytes", [units.size(row["bytes"]) for row in rows], number=True),
        Told("mean GB/s", units.column((row["mean_gbps"] for row in rows), 1), number=True),
        Told("peak", units.column((row["peak_gbps"] for row in rows), 1), number=True, rank=1),
        Told("exposed", units.column(row["exposed_ms"] for row in rows), number=True),
        Told("bound", names(rows, "bound"), words=True),
        Told("collectives", [_collectives(row) for row in rows], rank=2),
    ]
    summary = f"{len(rows)} of {len(bursts):,}, the largest; times in ms from the step's start"
    return Section("Bursts", summary, (table(told),))


def _collectives(row: dict[str, Any]) -> str:
    first, *more = row["collectives"]
    return printable(str(first)) + (f" and {len(more)} more" if more else "")
