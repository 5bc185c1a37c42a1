"""Waiting is counted within replica groups, not across them."""

from __future__ import annotations

import pytest

from counterpoint.diagnose.explanation import explain
from counterpoint.timeline.hosts.assemble import assemble
from counterpoint.timeline.model import EmbeddedProgram
from recordings import Span, recording

HLO = """\
HloModule jit_step, is_scheduled=true, num_partitions=4

%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %sum = f32[] add(%a, %b)
}

ENTRY %main (p: f32[256]) -> f32[256] {
  %p = f32[256]{0} parameter(0)
  ROOT %all-reduce = f32[256]{0} all-reduce(%p), channel_id=1, replica_groups=GROUPS, \
use_global_device_ids=true, to_apply=%add
}
"""

# (start, duration) on devices 0 to 3: 0 waits 10 for 1, 2 waits 30 for 3, and 3 stays 20.
STAYS = ((0, 25), (10, 15), (100, 50), (130, 20))


def wait_and_transfer(
    groups: str, stays: tuple[tuple[int, int], ...] = STAYS
) -> list[float | None]:
    """Of the one collective, in nanoseconds."""
    spans = [
        Span("all-reduce", step * 500 + start, dur, device, line=device)
        for step in range(5)
        for device, (start, dur) in enumerate(stays)
    ]
    markers = [(device, k, k * 500, 500) for device in range(4) for k in range(5)]
    hlo = HLO.replace("GROUPS", groups)
    programs = {"jit_step": EmbeddedProgram("jit_step", hlo.encode)}
    made = assemble([recording(spans, markers=markers, programs=programs)], ["made"])
    row = explain(made).collectives.to_dicts()[0]
    return [ns if ns is None else ns * 1e6 for ns in (row["wait_ms"], row["transfer_ms"])]


def test_each_group_waits_for_its_own_last() -> None:
    wait, transfer = wait_and_transfer("{{0,1},{2,3}}")
    assert wait == pytest.approx((10 + 30) / 4)
    assert transfer == pytest.approx((15 + 20) / 2)


def test_groups_whose_members_never_met_are_not_believed() -> None:
    assert wait_and_transfer("{{0,2},{1,3}}") == [None, None]


def test_all_devices_are_one_group() -> None:
    stays = ((0, 40), (10, 30), (20, 20), (30, 10))
    wait, transfer = wait_and_transfer("{{0,1,2,3}}", stays)
    assert wait == pytest.approx((30 + 20 + 10) / 4)
    assert transfer == pytest.approx(10)
