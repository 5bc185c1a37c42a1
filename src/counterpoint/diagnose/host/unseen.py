"""Idle time of devices whose host the profile does not show: what the devices alone tell of it.

Two things. A device that is through with its step waits for a host, or a slice, that computes
longer: that is nobody's late launch. And a program's results that are read (`float(loss)`) leave a
copy to the host behind the last kernel, which is no op of the program: where nothing runs after it,
the host had waited for it.
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from counterpoint.core.intervals import Intervals, union
from counterpoint.diagnose.case import Case
from counterpoint.timeline.model import Lane

_READ: Final = re.compile(r"(?i)d2h|dtoh|device ?to ?host")


def compute_longer(case: Case) -> pl.DataFrame:
    """By device and step: `longer`, the picoseconds that the slowest other host computes longer.

    Told by lengths, which need no common clock. Of a host the device that computes least counts: a
    device in a step waits for all others in it, and what is left is the work of all of them.
    """
    work = case.timeline.ops["lane"].is_in([Lane.COMPUTE, Lane.COPY]).to_numpy()
    spans = case.spans.filter(pl.Series(work[case.spans["op"].to_numpy()]) & (pl.col("step") >= 0))
    host = dict(enumerate(device.host for device in case.timeline.devices))
    each = spans.group_by("device", "step").agg(ps=pl.col("dur_ps").sum())
    each = each.with_columns(
        host=pl.col("device").replace_strict(host, return_dtype=pl.UInt16, default=None)
    )
    hosts = each.group_by("host", "step").agg(least=pl.col("ps").min())
    slowest = hosts.group_by("step").agg(slowest=pl.col("least").max())
    return each.join(slowest, on="step").select(
        "device", "step", longer=(pl.col("slowest") - pl.col("ps")).clip(0)
    )


def waiting_for_hosts(case: Case, longer: pl.DataFrame, device: int) -> Intervals:
    """From the end of each of the device's runs, as long as another host computes longer."""
    runs = (
        case.timeline.runs.filter((pl.col("device") == device) & pl.col("step").is_not_null())
        .group_by("step")
        .agg(pl.col("end_ps").max())
        .join(longer.filter(pl.col("device") == device), on="step")
    )
    end = runs["end_ps"].to_numpy()
    return union(end, end + runs["longer"].to_numpy())


def reads(case: Case) -> NDArray[np.int64]:
    """Rows of ops that copy to the host and are no op of a program."""
    names = case.timeline.ops.with_row_index("row").filter(pl.col("op").is_null())
    rows = names.select("row", "name").iter_rows()
    return np.array([row for row, name in rows if _READ.search(name)], np.int64)


def after_reads(reading: NDArray[np.int64], gaps: Intervals, spans: pl.DataFrame) -> Intervals:
    """The gaps that begin where one of these ops ends."""
    mine = spans.filter(pl.Series(np.isin(spans["op"].to_numpy(), reading)))
    behind = np.isin(gaps.start, (mine["start_ps"] + mine["dur_ps"]).to_numpy())
    return union(gaps.start[behind], gaps.end[behind])
