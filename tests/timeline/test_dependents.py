"""An op of a CPU device has ended when one begins that uses its results."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from xspace_builder import US, cpu_op, hlo_proto, host, metadata, xspace

import counterpoint

MODULE = ("jit_step", 7)
CHAIN = {"dot.1": "dot", "bitcast.2": "bitcast", "all-reduce.3": "all-reduce", "add.4": "add"}
"""Each uses the one before it."""


def lengths(path: Path, *ops: tuple[str, int, int]) -> dict[str, set[int]]:
    """Return how long ops last in three runs, from their starts and ends in microseconds."""
    threads = host()
    for run in range(3):
        for op, start, end in ops:
            begin, took = (1000 * run + start) * US, (end - start) * US
            cpu_op(threads, op, op, begin, took, module=MODULE, run=run, device=0)
    path = path / "made.xplane.pb"
    path.write_bytes(xspace(threads, metadata({MODULE: hlo_proto("jit_step", CHAIN)})))
    timeline = counterpoint.read(path)
    names = timeline.spans.join(
        timeline.ops.select("name").with_row_index("op"), on="op", how="left"
    )
    found = names.group_by("name").agg(pl.col("dur_ps") // US)
    return {name: {*took} for name, took in found.rows()}


def test_an_op_whose_end_was_marked_late_ends_where_its_result_is_used(tmp_path: Path) -> None:
    found = lengths(tmp_path, ("dot.1", 0, 60), ("all-reduce.3", 10, 50), ("add.4", 70, 80))
    assert found == {"dot.1": {10}, "all-reduce.3": {40}, "add.4": {10}}


def test_what_is_used_later_keeps_its_end(tmp_path: Path) -> None:
    found = lengths(tmp_path, ("dot.1", 0, 60), ("all-reduce.3", 65, 90), ("add.4", 20, 30))
    assert found == {"dot.1": {60}, "all-reduce.3": {25}, "add.4": {10}}


@pytest.mark.parametrize("other", ["unknown.9", "dot.1"])
def test_what_does_not_use_it_ends_nothing(tmp_path: Path, other: str) -> None:
    found = lengths(tmp_path, ("dot.1", 0, 60), (other, 10, 20), ("all-reduce.3", 100, 120))
    assert max(found["dot.1"]) == 60
