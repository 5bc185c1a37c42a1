"""Number the runs of each program, the same number for the same turn on all devices.

Devices of one host that share the profiler's run ids are matched by them. Else runs are counted on
each device, and matched from the last on where counts differ: a profile that starts in the middle
of a step misses runs at its beginning.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl


def number_runs(runs: pl.DataFrame, host_of_device: Sequence[int]) -> pl.DataFrame:
    """Runs with the column `index`, in the order given."""
    hosts = dict(enumerate(host_of_device))
    runs = runs.with_row_index("row").with_columns(
        host=pl.col("device").replace_strict(hosts, default=None, return_dtype=pl.UInt32)
    )
    of_host = ["host", "program"]
    shared = runs.group_by(of_host).agg(
        shared=(pl.col("key").null_count() == 0)
        & ((pl.col("key").n_unique() < pl.len()) | (pl.col("device").n_unique() == 1))
    )
    by_key = (
        runs.group_by(*of_host, "key")
        .agg(pl.col("start_ps").min())
        .sort("start_ps")
        .with_columns(by_key=pl.int_range(pl.len()).over(of_host))
        .drop("start_ps")
    )
    counted = runs.sort("start_ps").with_columns(
        turn=pl.int_range(pl.len()).over("device", "program"),
        count=pl.len().over("device", "program"),
    )
    most = pl.col("count").max().over("program")
    return (
        counted.join(shared, on=of_host)
        .join(by_key, on=[*of_host, "key"], how="left", nulls_equal=True)
        .with_columns(
            index=pl.when("shared")
            .then(pl.col("by_key"))
            .otherwise(pl.col("turn") + most - pl.col("count"))
            .cast(pl.UInt32)
        )
        .sort("row")
        .select("device", "program", "index", "key", "start_ps", "end_ps")
    )
