"""Transport: the messages that a collective between TPU slices sent, as the runtime recorded them.

On a device such a collective lasts from its send to its recv-done, slack included. The network
carried its bytes in a part of that time only, which the runtime's record of each message tells.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from counterpoint.core.columns import union
from counterpoint.diagnose.selection import PS_PER_MS
from counterpoint.diagnose.step_data import StepData
from counterpoint.timeline.host_transfers import host_transfers
from counterpoint.timeline.model import Action

MESSAGES: Final = {
    "program": pl.UInt16,
    "op": pl.String,
    "device": pl.UInt16,
    "step": pl.Int32,
    "start_ps": pl.Int64,
    "end_ps": pl.Int64,
    "bytes": pl.Int64,
    "window_ps": pl.Int64,  # the step of that device
    "window_end_ps": pl.Int64,
}


def recorded_messages(data: StepData) -> pl.DataFrame:
    """Return the messages that devices received in the selected steps, by collective: MESSAGES.

    A device receives what its counterpart sends, so they are also what a device sends. A collective
    has rows only if time and size of all its messages are known.
    """
    named = (
        host_transfers(data.timeline)
        .filter(pl.col("rendezvous").is_not_null())
        .select("program", op="name", name="rendezvous")
        .unique()
        # Two collectives of one name: the runtime does not tell them apart.
        .filter(pl.len().over("name") == 1)
    )
    known = pl.all_horizontal(pl.col("bytes", "latency_ps", "device").is_not_null())
    end = pl.col("start_ps") + pl.col("dur_ps")
    received = (
        data.timeline.transfers.filter(pl.col("action") == Action.RECEIVE)
        .join(named, on="name")
        .filter(known.all().over("program", "op"))
        .with_columns(end_ps=end, start_ps=end - pl.col("latency_ps"))
    )
    windows = data.selection.windows.select(
        "device", "step", window_ps="start_ps", window_end_ps="end_ps"
    )
    return (
        received.join(windows, on="device")
        .filter(pl.col("start_ps").is_between("window_ps", "window_end_ps", closed="left"))
        .select(*MESSAGES)
        .cast({**MESSAGES})
    )


def transport_ms(data: StepData) -> dict[tuple[int | None, str], float]:
    """Return how long messages of each collective are under way, per step and device."""
    under_way: dict[tuple[int | None, str], float] = {}
    keys = ["program", "op", "device", "step"]
    for (program, op, *_), rows in data.cached(recorded_messages).group_by(keys):
        time = union(rows["start_ps"].to_numpy(), rows["end_ps"].to_numpy()).total
        key = (None if program is None else int(str(program)), str(op))
        under_way[key] = under_way.get(key, 0.0) + time / PS_PER_MS
    return {key: ms / data.selection.occurrences for key, ms in under_way.items()}
