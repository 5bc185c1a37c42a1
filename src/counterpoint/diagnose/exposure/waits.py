"""Waits: how long each device waits in each step for those that come to collectives after it.

Only waiting that is exposed: beside compute it costs nothing. Between hosts a wait is as good as
their clocks: what lies below their uncertainty is nothing; where they have no common clock, the
shortest stay stands for that of the last.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from counterpoint.core.basis import Basis
from counterpoint.diagnose.case import Case
from counterpoint.diagnose.metrics.collectives import exposed_executions
from counterpoint.timeline.meetings import number_collectives, one_clock, stays
from counterpoint.timeline.model import Lane
from counterpoint.timeline.ranks import with_groups

SCHEMA: Final = {"device": pl.UInt16, "step": pl.Int32, "waited_ps": pl.Int64}

_STAY: Final = ("collective", "device", "step", "turn")
_MEETING: Final = ("collective", "step", "turn", "group")


def waits(case: Case) -> pl.DataFrame:
    """One row per device and typical step in which it met others."""
    timeline = case.timeline
    if len(timeline.devices) < 2 or timeline.basis is Basis.PREDICTED:
        return pl.DataFrame(schema=SCHEMA)
    found = case.ask(exposed_executions)
    if not len(found):
        return pl.DataFrame(schema=SCHEMA)
    ops = timeline.ops.with_row_index("row").filter(pl.col("lane") == Lane.COLLECTIVE)
    grouped = with_groups(timeline, number_collectives(ops), stays(found, "step"), "step")
    exposed = found.group_by(_STAY).agg(pl.col("exposed_ps").sum())
    several = pl.col("host").n_unique().over(_MEETING) > 1
    return (
        grouped.filter(pl.col("group").is_not_null())
        .filter(pl.len().over(_MEETING) > 1)
        .join(exposed, on=_STAY)
        .with_columns(host=pl.col("device").replace_strict(_hosts(case), return_dtype=pl.UInt16))
        .with_columns(doubt=pl.col("host").replace_strict(_spreads(case), return_dtype=pl.Int64))
        .with_columns(
            wait=_wait(one_clock(timeline)),
            doubt=pl.when(several).then(pl.col("doubt").max().over(_MEETING)).otherwise(0),
        )
        .with_columns(wait=pl.when(pl.col("wait") > pl.col("doubt")).then("wait").otherwise(0))
        .group_by("device", "step")
        .agg(waited_ps=pl.min_horizontal("wait", "exposed_ps").sum())
        .cast({**SCHEMA})
        .select(*SCHEMA)
        .sort("device", "step")
    )


def _wait(comparable: bool) -> pl.Expr:
    start, stay = pl.col("start_ps"), pl.col("dur_ps")
    if not comparable:
        return stay - stay.min().over(_MEETING)
    return (start.max().over(_MEETING) - start).clip(0, stay)


def _hosts(case: Case) -> dict[int, int]:
    return {index: device.host for index, device in enumerate(case.timeline.devices)}


def _spreads(case: Case) -> dict[int, int]:
    return {i: host.clock_spread_ps or 0 for i, host in enumerate(case.timeline.hosts)}
