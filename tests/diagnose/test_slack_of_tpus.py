"""Slack on a TPU core, which shows the start and the wait at the done, and a window beside them.

One step of 12 ms; the core runs one op after the other:

    ms          0        2        4        6        8        10       12
    core        |S|=a====|=====b==|F|==c====|D==========|e====|G====|
    window       S~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~

    S  gather-start, 0 to 0.5      D  gather-done, 6 to 8.5
    F  all-reduce, 3.5 to 4        G  a second one, 9.5 to 11

From S to D pass 6 ms. In 0.5 of them the core only starts the gather, in 0.5 it waits for F: 5 are
left.
"""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest

from counterpoint.diagnose.collectives.slack import slack_table
from counterpoint.diagnose.selection import select
from counterpoint.diagnose.step_data import Context, StepData
from counterpoint.timeline.hosts.assemble import assemble
from counterpoint.timeline.model import Device, EmbeddedProgram, Timeline
from recordings import Span, recording

NS = 1_000_000

HLO = """\
HloModule jit_step, is_scheduled=true, num_partitions=4

%sum (x: f32[], y: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %add = f32[] add(%x, %y)
}

ENTRY %main (p: f32[8]) -> f32[8] {
  %p = f32[8]{0} parameter(0)
  %all-gather-start.1 = (f32[8]{0}, f32[32]{0}) all-gather-start(%p), channel_id=1, \
replica_groups={{0,1,2,3}}, dimensions={0}, use_global_device_ids=true
  %a = f32[8]{0} sine(%p)
  %b = f32[8]{0} cosine(%a)
  %all-reduce.1 = f32[8]{0} all-reduce(%b), channel_id=2, replica_groups={{0,1,2,3}}, \
use_global_device_ids=true, to_apply=%sum
  %c = f32[8]{0} sine(%all-reduce.1)
  %all-gather-done.1 = f32[32]{0} all-gather-done(%all-gather-start.1)
  %e = f32[8]{0} slice(%all-gather-done.1), slice={[0:8]}
  ROOT %all-reduce.2 = f32[8]{0} all-reduce(%e), channel_id=3, replica_groups={{0,1,2,3}}, \
use_global_device_ids=true, to_apply=%sum
}
"""

SPANS = (
    ("all-gather-start.1", 0, 0.5), ("a", 0.5, 1.5), ("b", 2, 1.5), ("all-reduce.1", 3.5, 0.5),
    ("c", 4, 2), ("all-gather-done.1", 6, 2.5), ("e", 8.5, 1), ("all-reduce.2", 9.5, 1.5),
)  # fmt: skip


def core(hlo: str | None = HLO) -> Timeline:
    spans = [Span(op, round(start * NS), round(length * NS)) for op, start, length in SPANS]
    embedded = {} if hlo is None else {"jit_step": EmbeddedProgram("jit_step", hlo.encode)}
    made = recording(spans, markers=[(0, 0, 0, 12 * NS)], programs=embedded)
    return assemble([replace(made, devices=(Device(ordinal=0, kind="tpu"),))], ["made.xplane.pb"])


def slack_of(timeline: Timeline) -> dict[str, float | None]:
    selection = select(timeline)
    return dict(
        slack_table(StepData(selection=selection, context=Context()))
        .select("op", "slack_ms")
        .iter_rows()
    )


def test_slack_ends_where_the_done_begins_less_waits_for_others() -> None:
    found = slack_of(core())
    assert found["all-gather-start.1"] == pytest.approx(5)
    assert found["all-reduce.1"] == found["all-reduce.2"] == 0


def test_windows_beside_the_core_change_nothing() -> None:
    timeline = core()
    started = timeline.ops.with_row_index("row").row(
        by_predicate=pl.col("name") == "all-gather-start.1", named=True
    )
    window = {key: value for key, value in started.items() if key != "row"} | {"async_window": True}
    ops = pl.concat([timeline.ops, pl.DataFrame([window], schema=timeline.ops.schema)])
    span = {"device": 0, "line": 1, "op": len(ops) - 1, "run": 0, "start_ps": 0}
    row = pl.DataFrame([span | {"dur_ps": round(8.5 * NS) * 1000}], schema=timeline.spans.schema)
    spans = pl.concat([timeline.spans, row]).sort("device", "start_ps")
    seen = replace(timeline, ops=ops, spans=spans, lines=(*timeline.lines, "Async XLA Ops"))
    assert slack_of(seen)["all-gather-start.1"] == pytest.approx(5)


def test_without_a_schedule_a_start_has_no_known_slack_and_a_sync_op_none() -> None:
    selection = select(core(None))
    table = slack_table(StepData(selection=selection, context=Context()))
    assert dict(table.select("op", "slack_ms").iter_rows()) == {
        "all-reduce.1": 0,
        "all-reduce.2": 0,
        "all-gather-start.1": None,
    }


def test_a_gpu_without_a_schedule_says_why_it_does_not_know() -> None:
    spans = [Span("ncclDevKernel_AllGather_RING_LL", 0, NS), Span("gemm", NS, NS)]
    timeline = assemble([recording(spans, markers=[(0, 0, 0, 3 * NS)])], ["made"])
    selection = select(timeline)
    row = slack_table(StepData(selection=selection, context=Context())).row(0, named=True)
    assert row["slack_ms"] is None
    assert row["no_slack_share"] is None
    assert "no schedule" in row["unknown"]
