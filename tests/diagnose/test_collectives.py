"""What collectives cost, on two devices whose numbers are counted by hand."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Any

import pytest

from counterpoint.core.basis import Range
from counterpoint.diagnose.explanation import Explanation, explain
from counterpoint.report.explain.explain_document import explain_document
from counterpoint.report.terminal import plain_text
from counterpoint.timeline.hosts.assemble import assemble
from counterpoint.timeline.model import EmbeddedProgram
from recordings import Span, recording

HLO = """\
HloModule jit_step, is_scheduled=true, num_partitions=2

%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %sum = f32[] add(%a, %b)
}

ENTRY %main (p: f32[256]) -> f32[512] {
  %p = f32[256]{0} parameter(0)
  %all-gather-start = (f32[256]{0}, f32[512]{0}) all-gather-start(%p), channel_id=1, \
replica_groups={{0,1}}, dimensions={0}, use_global_device_ids=true
  %fusion.1 = f32[256]{0} negate(%p), metadata={op_name="jit(step)/mlp/neg"}
  %all-gather-done = f32[512]{0} all-gather-done(%all-gather-start)
  %fusion.2 = f32[512]{0} negate(%all-gather-done)
  ROOT %all-reduce = f32[512]{0} all-reduce(%fusion.2), channel_id=2, \
replica_groups={{0,1}}, use_global_device_ids=true, to_apply=%add
}
"""

# ns            0         1         2         3         4         5         6         7         8
# device 0      0         0         0         0         0         0         0         0         0
#   gather      ========================================
#   compute     =========================                ====================
#   reduce                                                                   ====================
# device 1
#   gather                ==============================
#   compute               =========================      ====================
#   reduce                                                                   ====================
PERIOD = 100
STEPS = 5


@pytest.fixture(scope="module")
def explained() -> Explanation:
    spans: list[Span] = []
    for at in range(0, STEPS * PERIOD, PERIOD):
        for device, late in ((0, 0), (1, 10)):
            spans += [
                Span("all-gather-start", at + late, 40 - late, device, line=1 + 2 * device),
                Span("fusion.1", at + late, 25, device, line=2 * device),
                Span("fusion.2", at + 40, 20, device, line=2 * device),
                Span("all-reduce", at + 60, 20, device, line=2 * device),
            ]
    markers = [(d, k, k * PERIOD, PERIOD) for d in (0, 1) for k in range(STEPS)]
    programs = {"jit_step": EmbeddedProgram("jit_step", HLO.encode)}
    made = recording(spans, markers=markers, programs=programs)
    return explain(assemble([made], ["made"]))


def row(explained: Explanation, op: str) -> dict[str, Any]:
    return next(row for row in explained.collectives.to_dicts() if row["op"] == op)


def test_the_gather_is_partly_hidden_and_waits_for_device_1(explained: Explanation) -> None:
    gather = row(explained, "all-gather-start")
    assert gather["kind"] == "all-gather"
    assert (gather["bytes"], gather["message_bytes"]) == (2048, 1024)
    assert gather["group_size"] == 2
    assert gather["count"] == 1
    ns = {key: gather[f"{key}_ms"] * 1e6 for key in ("median", "total", "exposed", "wait")}
    # exposed: 40 - 25 on device 0, 30 - 25 on device 1; wait: 10 on device 0.
    assert ns == pytest.approx({"median": 35, "total": 35, "exposed": 10, "wait": 5})
    assert gather["hidden_share"] == pytest.approx(1 - 10 / 35)
    # fusion.1 ends 25 after the gather's start on both.
    assert gather["slack_ms"] * 1e6 == pytest.approx(25)


def test_bandwidth_is_that_of_the_device_that_came_last(explained: Explanation) -> None:
    gather = row(explained, "all-gather-start")
    assert gather["transfer_ms"] * 1e6 == pytest.approx(30)
    assert gather["algbw_gbps"] == pytest.approx(2048 / 30)
    assert gather["busbw_gbps"] == pytest.approx(2048 / 30 / 2)


def test_a_synchronous_one_is_all_exposed_and_has_no_slack(explained: Explanation) -> None:
    reduce = row(explained, "all-reduce")
    assert reduce["exposed_ms"] * 1e6 == pytest.approx(20)
    assert reduce["hidden_share"] == 0
    assert reduce["slack_ms"] == 0
    assert reduce["wait_ms"] == 0
    assert reduce["busbw_gbps"] == pytest.approx(2048 / 20)


def test_the_step_adds_up(explained: Explanation) -> None:
    parts = explained.breakdown
    assert parts is not None
    ns = {name: getattr(parts, name) * 1e6 for name in (field.name for field in fields(parts))}
    assert ns == pytest.approx(
        {
            "compute_ms": 45,
            "collective_exposed_ms": 10 + 20,
            "collective_hidden_ms": 25,
            "copy_exposed_ms": 0,
            # 20 behind the reduce; device 1 has nothing to do for its first 10 either.
            "idle_ms": 25,
        }
    )


def test_each_exposed_nanosecond_goes_to_one_rule_the_dearest_first(explained: Explanation) -> None:
    found = {it.code: it for it in explained.findings if it.code.startswith("STEP1")}
    # The reduce at the end, the waiting in the gather, and what of it is no waiting.
    assert list(found) == ["STEP104", "STEP105", "STEP101"]
    most = [it.saves_ms.high * 1e6 for it in found.values() if isinstance(it.saves_ms, Range)]
    # Who waits 5 on the mean of two waits 10: so late is the other.
    assert most == pytest.approx([20, 10, 5])
    assert found["STEP104"].evidence[0].what == "all-reduce"
    assert found["STEP104"].evidence[0].spans


def test_ops_know_what_the_user_wrote(explained: Explanation) -> None:
    ops = {op["op"]: op for op in explained.ops.to_dicts()}
    assert ops["fusion.1"]["scope"] == "mlp"
    assert ops["fusion.1"]["count"] == 1
    assert ops["fusion.1"]["self_ms"] * 1e6 == pytest.approx(25)
    assert ops["fusion.1"]["flops"] == 256


def test_one_row_shows_one_statistic_of_one_population() -> None:
    """A collective that takes 4 in two of three steps and 22 in the third is 10 per step.

    The median of its executions is 4: beside what is exposed per step it would be less than a part
    of itself.
    """
    spans: list[Span] = []
    for k, long in enumerate((0, 4, 22, 4, 0)):
        at = 1_000_000 * k
        spans += [
            Span("fusion.1", at, 20_000, 0, line=0),
            Span("all-reduce", at + 100_000, 10_000 * (long or 4), 0, line=0),
        ]
    markers = [(0, k, 1_000_000 * k, 1_000_000) for k in range(5)]
    programs = {"jit_step": EmbeddedProgram("jit_step", HLO.encode)}
    explained = explain(assemble([recording(spans, markers=markers, programs=programs)], ["made"]))
    reduce = row(explained, "all-reduce")
    assert explained.breakdown is not None
    assert reduce["total_ms"] == pytest.approx(explained.breakdown.collective_exposed_ms)
    assert reduce["exposed_ms"] == pytest.approx(reduce["total_ms"])
    assert reduce["median_ms"] < reduce["exposed_ms"]
    text = plain_text(explain_document(explained))
    lines = text[text.index("Collectives ") :].splitlines()
    at = next(at for at, line in enumerate(lines) if line.startswith("  op "))
    titles, shown = (re.split(r"\s{2,}", line.strip()) for line in lines[at : at + 2])
    cells = dict(zip(titles, shown, strict=True))
    assert "median" not in cells
    assert cells["time ms"] == cells["exposed"]


def test_the_parts_of_a_window_are_not_exposed_twice() -> None:
    """A TPU shows an asynchronous collective's start, its done, and the window that holds both."""
    spans: list[Span] = []
    for k in range(STEPS):
        at = k * PERIOD
        spans += [
            Span("all-gather-start", at, 5, 0, line=0),
            Span("all-gather-start", at, 40, 0, line=1, window=True),
            Span("all-gather-done", at + 30, 10, 0, line=0),
        ]
    markers = [(0, k, k * PERIOD, PERIOD) for k in range(STEPS)]
    programs = {"jit_step": EmbeddedProgram("jit_step", HLO.encode)}
    explained = explain(assemble([recording(spans, markers=markers, programs=programs)], ["made"]))
    gather = row(explained, "all-gather-start")
    assert gather["exposed_ms"] == pytest.approx(gather["total_ms"])
    assert explained.breakdown is not None
    assert gather["exposed_ms"] == pytest.approx(explained.breakdown.collective_exposed_ms)
