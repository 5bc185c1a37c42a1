"""Sending: when, in a median step, a device puts how many bytes on which link.

A collective sends what `wire` says, evenly over its transfer: the end of its stay, for before the
last device has come nothing flows. Steps are laid over one another, each stretched to the length of
the median one, and the n-th execution of a collective in a step stands where it stands on average
over steps and devices. So what follows on another in each step does so here, and bytes add up.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from counterpoint.diagnose.case import Case
from counterpoint.diagnose.metrics.collectives import executions_of, exposed_parts
from counterpoint.diagnose.network.requirement import classify
from counterpoint.timeline.meetings import meetings, number_collectives, stays
from counterpoint.timeline.model import Lane
from counterpoint.timeline.ranks import with_groups

SCHEMA: Final = {
    "program": pl.UInt16,
    "op": pl.String,
    "link": pl.String,  # null: not known
    "begin": pl.Float64,  # in steps from the step's start
    "end": pl.Float64,
    "bytes": pl.Float64,  # mean over steps and devices
    "exposed_ms": pl.Float64,  # likewise
}

_KEYS: Final = ("collective", "device", "step", "turn")


def sendings(case: Case) -> pl.DataFrame:
    """One row per execution in a step of each collective whose bytes are known: SCHEMA."""
    selection = case.selection
    ops = case.timeline.ops.with_row_index("row").filter(pl.col("lane") == Lane.COLLECTIVE)
    found = executions_of(case.spans, ops)
    asked = case.ask(classify).select("program", "op", "link", "wire_bytes")
    if not len(found) or not selection.occurrences:
        return pl.DataFrame(schema=SCHEMA)
    numbered = number_collectives(ops)
    exposed = (
        found.with_columns(exposed_parts(selection, case.spans, found))
        .group_by(_KEYS)
        .agg(pl.col("exposed_ps").sum())
    )
    grouped = with_groups(case.timeline, numbered, stays(found, "step"), "step")
    fastest = meetings(case.timeline, grouped, "step").select(
        "collective", "step", "turn", "group", "fastest"
    )
    wait = (
        pl.when(pl.col("group").is_null())
        .then(0)
        .otherwise((pl.col("dur_ps") - pl.col("fastest")).clip(0))
    )
    length = pl.col("window_end_ps") - pl.col("window_ps")
    since = pl.col("start_ps") - pl.col("window_ps")
    windows = selection.windows.select(
        "step", "device", window_ps="start_ps", window_end_ps="end_ps"
    )
    names = numbered.group_by("collective").agg(pl.first("program"), pl.first("name").alias("op"))
    return (
        grouped.join(
            fastest, on=["collective", "step", "turn", "group"], how="left", nulls_equal=True
        )
        .join(exposed, on=[*_KEYS], how="left")
        .join(windows, on=["step", "device"])
        .join(names, on="collective")
        .join(asked, on=["program", "op"], how="left", nulls_equal=True)
        .filter(pl.col("wire_bytes").is_not_null() & (length > 0))
        .group_by("collective", "turn")
        .agg(
            pl.first("program", "op", "link"),
            begin=((since + wait) / length).mean(),
            end=((since + pl.col("dur_ps")) / length).mean(),
            bytes=pl.col("wire_bytes").sum() / selection.occurrences,
            exposed_ms=pl.col("exposed_ps").sum() * selection.scale,
        )
        .select(*SCHEMA)
        .cast({**SCHEMA})
        .sort("begin", "program", "op", "end")
    )
