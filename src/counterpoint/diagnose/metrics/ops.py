"""The op profile: what a median step spends on each instruction, and what the user wrote there."""

from __future__ import annotations

import polars as pl

from counterpoint.diagnose.metrics.selftime import self_times
from counterpoint.diagnose.selection import Selection
from counterpoint.timeline.model import Lane

KEYS = ("program", "op")
"""An op is told by its program and instruction; kernels without one, by their own name."""


def op_profile(selection: Selection, spans: pl.DataFrame) -> pl.DataFrame:
    """Ops by self time in a median step, mean over devices; longest first.

    Columns: program, op, category, phase, scope, source, collective, count (executions per step),
    self_ms, share (of the step), flops and bytes_accessed (of one execution).
    """
    inside = spans.filter(pl.col("step").is_not_null()).drop("row", "step", "run")
    timed = inside.with_columns(self_ps=pl.Series(self_times(inside), dtype=pl.Int64)).filter(
        ~pl.col("op").is_in(_windows(selection))
    )
    per_device = timed.group_by("op", "device").agg(
        pl.col("self_ps").sum(), pl.len().alias("count")
    )
    # A collective goes by its start, as in the table of collectives.
    start = pl.when(pl.col("lane") == Lane.COLLECTIVE).then("pair")
    ops = selection.timeline.ops.with_row_index("row").with_columns(
        op=pl.coalesce(start, "op", "name")
    )
    median = selection.median_ms if selection.lengths_ms else 0.0
    facts = pl.first("category", "phase", "scope", "source", "collective", "flops", "lane")
    return (
        per_device.join(ops, left_on="op", right_on="row")
        .drop("op")
        .rename({"op_right": "op"})
        .sort("self_ps", "device", descending=[True, False])
        # Several kernels may carry one instruction out: on a device their times add up, their
        # executions don't. Each host names its ops anew, so devices come together only here.
        .group_by(*KEYS, "device", maintain_order=True)
        .agg(facts, pl.first("bytes_accessed"), pl.col("count").max(), pl.col("self_ps").sum())
        .group_by(*KEYS, maintain_order=True)
        .agg(
            facts,
            pl.first("bytes_accessed"),
            (pl.col("count").sum() / max(selection.occurrences, 1)).alias("count"),
            (pl.col("self_ps").sum() * selection.scale).alias("self_ms"),
        )
        .with_columns(share=pl.col("self_ms") / median if median else pl.lit(None, pl.Float64))
        .sort("self_ms", "op", descending=[True, False])
    )


def _windows(selection: Selection) -> list[int]:
    """Ops whose spans are start-to-done windows: nobody works in them."""
    return selection.timeline.ops.with_row_index("row").filter("async_window")["row"].to_list()
