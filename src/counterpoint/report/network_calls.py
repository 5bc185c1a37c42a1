"""Remote calls between slices: how long they are under way, by link and over time."""

from __future__ import annotations

from counterpoint.diagnose.network.calls import Calls, Pattern
from counterpoint.report import units
from counterpoint.report.document import Block, Chart, Course, Section, printable
from counterpoint.report.network_tables import Told, names, table


def calls_section(calls: Calls, top: int) -> Section:
    """Links by their median, and the median of each step."""
    links = calls.links
    rows = links.head(top).to_dicts()
    host_ms = [row["host_ms"] for row in rows]
    told = [
        Told("host", names(rows, "host")),
        Told("peer", names(rows, "peer")),
        Told("calls", [units.count(row["calls"]) for row in rows], number=True),
        Told("median ms", units.column(row["median_ms"] for row in rows), number=True),
        Told("p95", units.column(row["p95_ms"] for row in rows), number=True),
        Told("most", units.column(row["max_ms"] for row in rows), number=True),
        *([Told("host work", units.column(host_ms), number=True)] if any(host_ms) else []),
        Told("slow", [units.percent(row["slow_share"], 0) for row in rows], number=True),
        Told("pattern", names(rows, "pattern"), words=True),
    ]
    said = {
        Pattern.NORMAL: "none is slow",
        Pattern.SPORADIC: "slow now and then",
        Pattern.SUSTAINED: "slow most of the time",
    }[calls.pattern]
    summary = (
        f"{len(calls.rows):,} over {len(links):,} links: {said}, against what their bytes need at"
        f" {units.rate(calls.rate, 'B')} a host ({printable(calls.rate_source)})"
    )
    blocks: list[Block] = [table(told)]
    by_step = calls.by_step
    if len(by_step) > 1:
        blocks.append(_over_steps(calls))
    return Section("Remote calls", summary, tuple(blocks))


def _over_steps(calls: Calls) -> Chart:
    by_step = calls.by_step
    p95 = by_step["p95_ms"].to_list()
    most = max(p95)
    steps = by_step["step"].to_list()
    course = Course(
        label="p95 by step",
        levels=tuple(one / most if most else 0.0 for one in p95),
        remark=f"scale to {units.milliseconds(most)}",
    )
    return Chart(courses=(course,), first=f"step {steps[0]}", last=f"step {steps[-1]}")
