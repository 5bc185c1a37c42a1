"""Where time goes, on spans whose answer can be counted by hand and on any others."""

from __future__ import annotations

from collections import Counter

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from counterpoint.core.columns import Intervals, union
from counterpoint.diagnose.attribution import attribute
from counterpoint.diagnose.explanation import explain
from counterpoint.diagnose.selection import select
from counterpoint.diagnose.self_time import self_times
from counterpoint.timeline.hosts.assemble import assemble
from counterpoint.timeline.model import Timeline
from recordings import NS, Span, recording
from span_lists import SPANS


def by_state(timeline: Timeline, step: int) -> dict[str, int]:
    selection = select(timeline, step=step)
    spans = attribute(selection, selection.spans())
    found = spans.group_by("state").agg(pl.col("ps").sum() // NS)
    return dict(found.select("state", "ps").rows())


def test_each_moment_has_one_state() -> None:
    # ns:        0         1         2         3         4
    #            0123456789012345678901234567890123456789
    # compute    ======    ====          ====
    # collective     ============
    # copy                          ====== ======
    spans = [
        Span("fusion", 0, 6),
        Span("fusion.1", 10, 4),
        Span("fusion.2", 28, 4),
        Span("all-gather", 4, 12, line=1),
        Span("copy", 22, 6, line=2),
        Span("copy.1", 29, 6, line=2),
    ]
    made = assemble([recording(spans, markers=[(0, 1, 0, 40), (0, 2, 40, 5)])], ["made"])
    assert by_state(made, 1) == {"compute": 14, "collective": 6, "copy": 9, "idle": 11}
    parts = explain(made, step=1).breakdown
    assert parts is not None
    assert round(parts.collective_hidden_ms * 1e6) == 6


def test_loops_and_calls_are_not_compute_themselves() -> None:
    spans = [Span("while", 0, 30), Span("fusion", 2, 10), Span("all-reduce", 15, 10)]
    made = assemble([recording(spans, markers=[(0, 1, 0, 30)])], ["made"])
    assert by_state(made, 1) == {"compute": 10, "collective": 10, "idle": 10}


@given(SPANS)
def test_parts_add_up_and_match_the_interval_sets(spans: list[Span]) -> None:
    markers = [(d, k, 50 * k, 50) for d in (0, 1) for k in range(5)]
    made = assemble([recording(spans, devices=2, markers=markers)], ["made"])
    parts = attribute(selection := select(made), selection.spans())
    for device, step, start, end in selection.windows.select(
        "device", "step", "start_ps", "end_ps"
    ).rows():
        mine = parts.filter((pl.col("device") == device) & (pl.col("step") == step))
        assert mine["ps"].sum() == end - start

        def lane(name: str, device: int = device, start: int = start, end: int = end) -> Intervals:
            ops = made.ops.with_row_index("row").filter(pl.col("lane") == name)["row"].to_list()
            own = made.spans.filter((pl.col("device") == device) & pl.col("op").is_in(ops))
            begin = own["start_ps"].to_numpy()
            return union(begin, begin + own["dur_ps"].to_numpy()).clip(start, end)

        compute, collective, copy = lane("compute"), lane("collective"), lane("copy")

        def ps(of: pl.Expr, mine: pl.DataFrame = mine) -> int:
            return int(mine.filter(of)["ps"].sum())

        state = pl.col("state")
        assert ps(state == "compute") == compute.total
        assert ps(state == "collective") == (collective - compute).total
        assert ps(pl.col("hidden")) == (collective & compute).total
        assert ps(state == "copy") == (copy - compute - collective).total


def test_self_time_leaves_out_what_is_nested() -> None:
    # a holds b and c; b holds d; e stands behind; f lies on another line.
    rows = [(0, 0, 100), (0, 10, 40), (0, 60, 20), (0, 15, 10), (0, 100, 5), (1, 0, 50)]
    frame = pl.DataFrame(rows, schema=["line", "start_ps", "dur_ps"], orient="row")
    assert self_times(frame).tolist() == [40, 30, 20, 10, 5, 50]


def test_a_kernel_that_starts_before_the_last_one_ends_takes_only_what_both_share() -> None:
    # b starts while a runs, and c while b runs, as programmatic dependent launches do.
    rows = [(0, 0, 100), (0, 90, 50), (0, 135, 20), (0, 160, 5)]
    frame = pl.DataFrame(rows, schema=["line", "start_ps", "dur_ps"], orient="row")
    assert self_times(frame).tolist() == [90, 45, 20, 5]


spans_of_a_line = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 20)), max_size=12)


@given(spans_of_a_line)
def test_each_moment_is_the_self_time_of_the_span_that_started_last(
    spans: list[tuple[int, int]],
) -> None:
    rows = [(0, start, duration) for start, duration in spans]
    schema = {"line": pl.UInt32, "start_ps": pl.Int64, "dur_ps": pl.Int64}
    # Spans arrive in order of start; of those that start together the shorter is within the longer.
    frame = pl.DataFrame(sorted(rows), schema=schema, orient="row")
    expected: Counter[tuple[int, int]] = Counter()
    for moment in range(60):
        open_spans = [
            (start, -duration) for _, start, duration in rows if 0 <= moment - start < duration
        ]
        if open_spans:
            expected[max(open_spans)] += 1
    own: Counter[tuple[int, int]] = Counter()
    for start, duration, ps in frame.select("start_ps", "dur_ps", own=self_times(frame)).rows():
        own[start, -duration] += ps
    assert own == expected
