"""Slack, required bandwidth and demand of a Timeline of 12 spans, worked out by hand.

One step of 10 ms on two devices. The gather starts before `early` ends on device 0, and the scatter
waits behind the gather's reader:

    ms           0    1    2    3    4    5    6    7    8    9    10
    device 0     |    |    |    |    |    |    |    |    |    |    |
      compute    a=========b====          c====d=========    e==
      gather          ==================
      scatter                                  ===============
    device 1
      compute    a=========b====          c====d=========    e==
      gather               =============
      scatter                                  ===============

    schedule     gather-start, a, b, gather-done, c, scatter-start, d, scatter-done, e

Slack: the gather is needed when b has ended at 3 ms. It starts at 1 on device 0 and at 2 on device
1, so it has 2 and 1: median 1.5, p5 1.05, p95 1.95. The scatter starts at 6, d ends at 8: 2 and 2.

On the wire: the gather makes 100 MiB of two halves, and a device sends 50 MiB = 52.4288 MB. Its
transfer is the stay of device 1, which comes last: 2 to 4.6, 2.6 ms, so 20.165 GB/s are achieved
and 52.4288 MB / 1.5 ms = 34.953 GB/s required. The scatter takes 100 MiB to halves: 52.4288 MB too,
in 3 ms: 17.476 GB/s, required 26.214.

Demand: 20.165 GB/s from 2 to 4.6 ms, 17.476 from 6 to 9, else none; together 104.8576 MB.
"""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoint.diagnose.collectives.movable_work import dependence
from counterpoint.diagnose.collectives.requirement import Bound, Link, classify
from counterpoint.diagnose.collectives.slack import slack_table
from counterpoint.diagnose.network.demand import _course, demand
from counterpoint.diagnose.selection import select
from counterpoint.diagnose.step_data import Context, StepData
from counterpoint.hardware.targets import parse_target
from counterpoint.hlo.model.instruction import Instruction, Shape
from counterpoint.timeline.hosts.assemble import assemble
from counterpoint.timeline.model import Device, EmbeddedProgram, Timeline
from recordings import Span, recording

NS = 1_000_000  # of a millisecond
WIRE = 50 * 2**20

HLO = """\
HloModule jit_step, is_scheduled=true, num_partitions=2

%sum (x: f32[], y: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %add = f32[] add(%x, %y)
}

ENTRY %main (p: f32[13107200], q: f32[26214400], s: f32[8]) -> f32[8] {
  %p = f32[13107200]{0} parameter(0)
  %q = f32[26214400]{0} parameter(1)
  %s = f32[8]{0} parameter(2)
  %gather = (f32[13107200]{0}, f32[26214400]{0}) all-gather-start(%p), channel_id=1, \
replica_groups={{0,1}}, dimensions={0}, use_global_device_ids=true
  %a = f32[8]{0} sine(%s)
  %b = f32[8]{0} cosine(%a)
  %gather.done = f32[26214400]{0} all-gather-done(%gather)
  %c = f32[26214400]{0} negate(%gather.done)
  %scatter = ((f32[26214400]{0}), f32[13107200]{0}) reduce-scatter-start(%c), channel_id=2, \
replica_groups={{0,1}}, dimensions={0}, use_global_device_ids=true, to_apply=%sum
  %d = f32[8]{0} sine(%b)
  %scatter.done = f32[13107200]{0} reduce-scatter-done(%scatter)
  ROOT %e = f32[8]{0} slice(%scatter.done), slice={[0:8]}
}
"""


def twelve_spans(
    chip: str | None = "NVIDIA H100 80GB HBM3", kind: str = "gpu", hlo: str = HLO
) -> Timeline:
    spans: list[Span] = []
    for device in (0, 1):
        late = float(device)
        for op, start, length, line in (
            ("gather", 1 + late, 3.6 - late, 1),
            ("scatter", 6, 3, 1),
            ("a", 0, 2, 0),
            ("b", 2, 1, 0),
            ("d", 6, 2, 0),
            ("c", 5, 1, 0),
        ):
            where = 2 * device + line
            spans.append(Span(op, round(start * NS), round(length * NS), device, where))
    markers = [(device, step, 10 * step * NS, 10 * NS) for device in (0, 1) for step in (0, 1)]
    embedded = {"jit_step": EmbeddedProgram("jit_step", hlo.encode)}
    made = recording(spans, markers=markers, programs=embedded)
    devices = tuple(Device(ordinal=index, kind=kind, chip=chip) for index in (0, 1))
    return assemble([replace(made, devices=devices)], ["made.xplane.pb"])


def case_of(timeline: Timeline, target: str | None = None) -> StepData:
    asked = None if target is None else parse_target(target)
    return StepData(selection=select(timeline), context=Context(target=asked))


@pytest.fixture(scope="module")
def made() -> StepData:
    return case_of(twelve_spans())


def row_of(table: pl.DataFrame, op: str) -> dict[str, object]:
    return table.row(by_predicate=pl.col("op") == op, named=True)


def test_it_has_twelve_spans(made: StepData) -> None:
    assert len(made.timeline.spans) == 12


def test_slack_over_devices(made: StepData) -> None:
    gather, scatter = (
        row_of(made.cached(slack_table), "gather"),
        row_of(made.cached(slack_table), "scatter"),
    )
    assert gather["slack_ms"] == pytest.approx(1.5)
    assert gather["slack_p5_ms"] == pytest.approx(1.05)
    assert gather["slack_p95_ms"] == pytest.approx(1.95)
    assert gather["worst_device"] == 1
    assert gather["executions"] == 2
    assert (scatter["slack_ms"], scatter["worst_device"]) == (pytest.approx(2), None)
    assert gather["no_slack_share"] == scatter["no_slack_share"] == 0


def test_bandwidth_required_and_achieved(made: StepData) -> None:
    gather, scatter = (
        row_of(made.cached(classify), "gather"),
        row_of(made.cached(classify), "scatter"),
    )
    assert gather["link"] == scatter["link"] == Link.DOMAIN
    assert gather["wire_bytes"] == scatter["wire_bytes"] == WIRE
    assert gather["required_gbps"] == pytest.approx(34.953, rel=1e-4)
    assert gather["achieved_gbps"] == pytest.approx(20.165, rel=1e-4)
    assert scatter["required_gbps"] == pytest.approx(26.214, rel=1e-4)
    assert scatter["achieved_gbps"] == pytest.approx(17.476, rel=1e-4)
    assert gather["capacity_gbps"] == 450  # NVLink 4 of an H100, one way


def test_demand_is_a_step_function_whose_integral_is_what_is_sent(made: StepData) -> None:
    found = demand(made)
    assert found.pieces["bytes"].sum() == pytest.approx(2 * WIRE)
    assert found.step_ms == pytest.approx(10)
    some = found.pieces.filter(pl.col("gbps") > 0).select("start_ms", "end_ms", "gbps")
    assert some.rows() == [
        pytest.approx((2, 4.6, 20.165), rel=1e-4),
        pytest.approx((6, 9, 17.476), rel=1e-4),
    ]
    edges = found.pieces.select("start_ms", "end_ms").rows()
    assert edges[0][0] == 0
    assert edges[-1][1] == pytest.approx(10)
    assert [end for _, end in edges[:-1]] == [start for start, _ in edges[1:]]


def test_a_burst_is_exposed_for_no_longer_than_it_lasts() -> None:
    """Device 0 waits from 1 to 6 ms for device 1, and both send until 7 ms."""
    spans: list[Span] = []
    for device, computes in enumerate((1, 6)):
        for op, start, length, line in (
            ("a", 0, computes, 0),
            ("gather", computes, 7 - computes, 1),
        ):
            spans.append(Span(op, start * NS, length * NS, device, 2 * device + line))
    markers = [(device, step, 10 * step * NS, 10 * NS) for device in (0, 1) for step in (0, 1)]
    embedded = {"jit_step": EmbeddedProgram("jit_step", HLO.encode)}
    recorded = recording(spans, markers=markers, programs=embedded)
    late = case_of(assemble([recorded], ["late.xplane.pb"]))
    (burst,) = demand(late).bursts.to_dicts()
    assert (burst["length_ms"], burst["exposed_ms"]) == pytest.approx((1, 1))
    assert burst["waiting_ms"] == pytest.approx(2.5)
    assert burst["bound"] == Bound.LATE_RANK


def test_each_transfer_is_a_burst_with_its_collective(made: StepData) -> None:
    bursts = demand(made).bursts
    assert bursts["collectives"].to_list() == [["gather"], ["scatter"]]
    assert bursts["length_ms"].to_list() == pytest.approx([2.6, 3])
    assert bursts["bytes"].to_list() == pytest.approx([WIRE, WIRE])
    # Nothing computes from 3 to 4.6 ms and from 8 to 9.
    assert bursts["exposed_ms"].to_list() == pytest.approx([1.6, 1])


def test_a_link_counts_as_full_against_what_it_was_seen_to_carry() -> None:
    found = demand(case_of(twelve_spans(chip=None))).saturated
    assert found.select("start_ms", "length_ms", "limit_is").rows() == [
        (pytest.approx(2), pytest.approx(2.6), "highest seen")
    ]
    known = demand(case_of(twelve_spans())).saturated
    assert len(known) == 0  # 20 of 450 GB/s


def test_a_collective_over_the_end_of_a_step_is_wrapped_to_its_beginning() -> None:
    one = twelve_spans()
    moved = one.spans.with_columns(
        start_ps=pl.when(pl.col("start_ps") == 6 * NS * 1000)
        .then(8 * NS * 1000)
        .otherwise("start_ps")
    )
    found = demand(case_of(replace(one, spans=moved.sort("device", "start_ps"))))
    assert found.pieces["bytes"].sum() == pytest.approx(2 * WIRE)
    first = found.pieces.row(0, named=True)
    assert (first["start_ms"], first["end_ms"]) == (0, pytest.approx(1))
    assert first["gbps"] == pytest.approx(17.476, rel=1e-4)


def test_without_a_chip_no_capacity_is_made_up() -> None:
    network = case_of(twelve_spans(chip=None)).cached(classify)
    assert network["capacity_gbps"].to_list() == [None, None]
    assert network["link"].to_list() == [Link.DOMAIN] * 2
    assert all("not known" in why for why in network["why"] if why.startswith("20.2"))


def test_the_target_says_what_joins_hosts() -> None:
    named = case_of(twelve_spans(), "2x1xH100:400G").cached(classify)
    assert named["link"].to_list() == [Link.NETWORK] * 2
    assert named["capacity_gbps"].to_list() == [50, 50]
    unnamed = case_of(twelve_spans(), "2x1xH100").cached(classify)
    assert unnamed["link"].to_list() == [Link.NETWORK] * 2
    assert unnamed["capacity_gbps"].to_list() == [None, None]


def test_a_tpu_has_the_rate_of_its_links_between_chips() -> None:
    network = case_of(twelve_spans("TPU v6 Lite", "tpu")).cached(classify)
    assert network["link"].to_list() == [Link.ICI] * 2
    assert network["capacity_gbps"].to_list() == [400, 400]


def test_what_a_chain_allows_to_be_moved(made: StepData) -> None:
    gather, scatter = (
        row_of(made.cached(classify), "gather"),
        row_of(made.cached(classify), "scatter"),
    )
    # d depends on neither c nor the gather; a and b stand within already. c needs the gather.
    assert gather["movable_ms"] == pytest.approx(2)
    # a and b could stand beside the scatter.
    assert scatter["movable_ms"] == pytest.approx(3)
    assert gather["bound"] == scatter["bound"] == Bound.SCHEDULE


@given(st.lists(st.sets(st.integers(0, 11), max_size=3), max_size=12), st.data())
def test_dependence_is_what_a_search_from_each_collective_reaches(
    drawn: list[set[int]], data: st.DataObject
) -> None:
    reads = [{before for before in some if before < at} for at, some in enumerate(drawn)]
    instructions = [
        Instruction(f"i{at}", "add", Shape("f32"), tuple(f"i{b}" for b in some), (), "main", at)
        for at, some in enumerate(reads)
    ]
    places = st.integers(0, len(reads) - 1)
    pairs = data.draw(st.lists(st.tuples(places, places), max_size=4)) if reads else []

    def reached(first: int, edges: list[set[int]]) -> set[int]:
        return {first}.union(*(reached(other, edges) for other in edges[first]))

    users = [{at for at, some in enumerate(reads) if one in some} for one in range(len(reads))]
    starts: dict[str, int] = {}
    dones: dict[str, int] = {}
    for bit, (start, done) in enumerate(pairs):
        starts[f"i{start}"] = starts.get(f"i{start}", 0) | 1 << bit
        dones[f"i{done}"] = dones.get(f"i{done}", 0) | 1 << bit
    found = dependence(instructions, starts, dones)
    for bit, (start, done) in enumerate(pairs):
        expected = reached(start, reads) | reached(done, users)
        assert {at for at in range(len(reads)) if found[f"i{at}"] >> bit & 1} == expected


def test_a_collective_of_very_many_steps_sends_evenly_in_each() -> None:
    sent = pl.DataFrame({"begin": [0.25], "end": [1e12 + 0.75], "bytes": [1e12]})
    course = _course(sent)
    assert course.bytes.sum() == pytest.approx(1e12)
    assert course.edges.tolist() == pytest.approx([0.0, 0.25, 0.75, 1.0])
    assert course.bytes.tolist() == pytest.approx([0.25e12, 0.5e12, 0.25e12], rel=1e-3)


PIPELINE = """\
HloModule jit_step, is_scheduled=true, num_partitions={partitions}

ENTRY %main (p: f32[1048576], s: f32[8]) -> f32[8] {{
  %p = f32[1048576]{{0}} parameter(0)
  %s = f32[8]{{0}} parameter(1)
  %gather = (f32[1048576]{{0}}, f32[1048576]{{0}}) collective-permute-start(%p), channel_id=1, \
source_target_pairs={{{forward}}}
  %a = f32[8]{{0}} sine(%s)
  %b = f32[8]{{0}} cosine(%a)
  %gather.done = f32[1048576]{{0}} collective-permute-done(%gather)
  %c = f32[1048576]{{0}} negate(%gather.done)
  %scatter = (f32[1048576]{{0}}, f32[1048576]{{0}}) collective-permute-start(%c), channel_id=2, \
source_target_pairs={{{backward}}}
  %d = f32[8]{{0}} sine(%b)
  %scatter.done = f32[1048576]{{0}} collective-permute-done(%scatter)
  ROOT %e = f32[8]{{0}} slice(%scatter.done), slice={{[0:8]}}
}}
"""


@pytest.mark.parametrize(
    ("partitions", "forward", "backward", "sent"),
    [
        (2, "{0,1}", "{1,0}", 1),  # of a ring cut in two, each device sends once
        (4, "{0,1},{1,2},{2,3}", "{3,0}", 1),
        (4, "{0,1},{1,2},{2,3},{3,0}", "{0,3},{3,2},{2,1},{1,0}", 2),  # both ways around
        (4, "{0,1},{2,3}", "{1,1}", 0.5),  # what a device sends itself uses no link
    ],
)
def test_only_the_sources_of_pairs_send(
    partitions: int, forward: str, backward: str, sent: float
) -> None:
    text = PIPELINE.format(partitions=partitions, forward=forward, backward=backward)
    timeline = twelve_spans(hlo=text)
    case = case_of(timeline)
    assert demand(case).pieces["bytes"].sum() == pytest.approx(sent * 4 * 2**20)
