"""Bring the clocks of several hosts together.

A collective ends on all its ranks at nearly the same moment, whoever came late. So the median
difference of the ends of collectives in which every device takes part is the difference of two
hosts' clocks. How far single collectives stray from that median tells how sure it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import polars as pl

from counterpoint.timeline.model import Lane

_BY_HOST: Final = r"^(send|recv)(-done)?$"


@dataclass(frozen=True, slots=True)
class Offset:
    """What to subtract from a host's times, and how far its collectives stray (median)."""

    ps: int
    spread_ps: int
    collectives: int


def find_offsets(
    spans: pl.DataFrame, ops: pl.DataFrame, runs: pl.DataFrame, hosts: list[int]
) -> dict[int, Offset]:
    """Offset of each host against the first; hosts with nothing in common are left out.

    `hosts` gives the host of each device. Spans need the run they belong to: the same collective on
    another host is the one of the same name, in the same run, at the same turn.
    """
    found = (
        shared_ends(spans, ops, runs, hosts)
        .group_by("host")
        .agg(
            pl.col("difference").median().alias("ps"),
            (pl.col("difference") - pl.col("difference").median()).abs().median().alias("spread"),
            pl.len().alias("collectives"),
        )
    )
    return {
        host: Offset(round(ps), round(spread), count)
        for host, ps, spread, count in found.select("host", "ps", "spread", "collectives").rows()
    }


def shared_ends(
    spans: pl.DataFrame, ops: pl.DataFrame, runs: pl.DataFrame, hosts: list[int]
) -> pl.DataFrame:
    """Ends of shared collectives on each host: `end_ps`, and its `difference` from the first's."""
    ends = _ends(spans, ops, runs, hosts)
    first = ends.filter(pl.col("host") == hosts[0]).drop("host")
    keys = ["program", "op", "index", "turn"]
    return ends.join(first, on=keys, suffix="_first").with_columns(
        difference=pl.col("end_ps") - pl.col("end_ps_first")
    )


def step_ends(
    spans: pl.DataFrame, ops: pl.DataFrame, runs: pl.DataFrame, hosts: list[int], program: int
) -> pl.DataFrame:
    """When one collective, the same in every run of a program, ended on each host.

    Columns host, index, end_ps; none where no collective is of all devices.
    """
    ends = _ends(spans, ops, runs, hosts).filter(pl.col("program") == program)
    most = (
        ends.group_by("op", "turn").len().sort("len", "op", "turn", descending=[True, False, True])
    )
    return ends.join(most.head(1), on=["op", "turn"], how="semi").select("host", "index", "end_ps")


def _ends(
    spans: pl.DataFrame, ops: pl.DataFrame, runs: pl.DataFrame, hosts: list[int]
) -> pl.DataFrame:
    # With some hosts missing, a collective of everybody has more members than there are devices.
    largest = ops.filter(pl.col("lane") == Lane.COLLECTIVE)["group_size"].max()
    everybody = max(len(hosts), largest) if isinstance(largest, int) else len(hosts)
    everywhere = (pl.col("group_size") == everybody) | pl.col("group_size").is_null()
    # Parts of a transfer between slices end when their own host is ready for them.
    by_host = pl.col("opcode").fill_null("").str.contains(_BY_HOST) & ~pl.col("collective").is_in(
        ["send", "recv"]
    )
    wanted = ops.with_row_index("row").filter(
        (pl.col("lane") == Lane.COLLECTIVE) & ~pl.col("async_window") & everywhere & ~by_host
    )
    members = spans.filter(pl.col("run").is_not_null()).join(
        wanted.select("row", "program", name="op"), left_on="op", right_on="row"
    )
    numbered = members.join(runs.with_row_index("run").select("run", "index"), on="run").sort(
        "start_ps"
    )
    return (
        numbered.with_columns(
            turn=pl.int_range(pl.len()).over("device", "run", "program", "name"),
            host=pl.col("device").replace_strict(dict(enumerate(hosts)), return_dtype=pl.Int64),
            end_ps=pl.col("start_ps") + pl.col("dur_ps"),
        )
        .drop("op")
        .rename({"name": "op"})
        .group_by("host", "program", "op", "index", "turn")
        .agg(pl.col("end_ps").max())
    )
