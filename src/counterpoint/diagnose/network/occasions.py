"""Occasions: in which step what a host did falls, and what of it is start-up."""

from __future__ import annotations

import polars as pl

from counterpoint.timeline.model import Timeline


def with_steps(timeline: Timeline, rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of Timeline.transfers with `step` and `steady`; both null before and after all steps.

    By where they start, in the steps of the host's first device.
    """
    host_of = {index: device.host for index, device in enumerate(timeline.devices)}
    steps = (
        timeline.steps.with_columns(
            host=pl.col("device").replace_strict(host_of, return_dtype=pl.UInt16)
        )
        .filter(pl.col("device") == pl.col("device").min().over("host"))
        .select("host", "step", "steady", began_ps="start_ps", ended_ps="end_ps")
        .sort("began_ps")
    )
    inside = pl.col("start_ps") < pl.col("ended_ps")
    return (
        rows.sort("start_ps")
        .join_asof(
            steps,
            left_on="start_ps",
            right_on="began_ps",
            by="host",
            strategy="backward",
            check_sortedness=False,
        )
        .with_columns(pl.when(inside).then(pl.col("step", "steady")))
        .drop("began_ps", "ended_ps")
    )
