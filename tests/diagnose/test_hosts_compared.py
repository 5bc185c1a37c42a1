"""Stragglers, clocks and builds: what hosts are compared by, and STEP607 and STEP608."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import pytest
from healthy import DEVICES, MODULE, healthy, hlo
from healthy import recorded as healthy_host
from host_side import case
from hypothesis import given
from hypothesis import strategies as st
from megascale_fixture import Scene
from slices import case_of

from counterpoint.core.basis import Range, Unknown
from counterpoint.diagnose.host.divergence import divergences, structures
from counterpoint.diagnose.host.stragglers import stragglers, waited_most_ms
from counterpoint.diagnose.rules import clocks_apart, ranks_differ
from counterpoint.diagnose.rules.clocks_apart import clocks
from counterpoint.hlo.model.instruction import Computation, Instruction, Shape
from counterpoint.hlo.model.program import Program
from counterpoint.timeline.hosts.assemble import assemble
from counterpoint.timeline.model import Device, EmbeddedProgram, Timeline
from counterpoint.timeline.recording import Recording
from golden_sections import Said
from real_profiles import opened
from recordings import Span, recording

STEPS = 20
STEP = 1_000_000  # ns
ENTRY = "bf16[8192,8192]{1,0} fusion(%batch, %weight), kind=kOutput"


def group(late: Sequence[Sequence[int]], *, slow: Sequence[int] = (0, 0, 0, 0)) -> Timeline:
    """Four devices that meet once per step; `late[step][device]` in ns; `slow` more compute."""
    spans: list[Span] = []
    for step in range(STEPS):
        begin = step * STEP
        comes = [300_000 + it for it in late[step % len(late)]]
        for device in range(4):
            spans += [
                Span("fusion", begin, 200_000 + slow[device], device, 2 * device),
                Span(
                    "all-reduce",
                    begin + comes[device],
                    max(comes) + 100_000 - comes[device],
                    device,
                    2 * device + 1,
                ),
            ]
    markers = [(d, n, n * STEP, STEP) for d in range(4) for n in range(STEPS)]
    return assemble([recording(spans, markers=markers)], ["made"])


def named(timeline: Timeline) -> dict[int, bool]:
    """Whether they are late in most steps, by number."""
    return {one.number: one.persistent for one in stragglers(case(timeline))}


def test_who_always_comes_last_is_persistent() -> None:
    (found,) = stragglers(case(group([(0, 0, 50_000, 0)], slow=(0, 0, 50_000, 0))))
    assert (found.number, found.whole_host, found.persistent) == (2, False, True)
    assert (found.last, found.among) == (found.steps, 4)
    assert found.others_wait_ms == pytest.approx(0.050)
    assert found.most_ms == pytest.approx(0.050)
    assert found.compute_ms - found.others_compute_ms == pytest.approx(0.050)
    assert found.slow


def test_who_comes_late_now_and_then_is_sporadic() -> None:
    calm = (0, 0, 0, 0)
    assert named(group([calm, calm, (0, 200_000, 0, 0), calm])) == {1: False}


def test_lateness_of_a_few_microseconds_is_nobodys_fault() -> None:
    assert not named(group([(0, 0, 4_000, 0)]))


def test_who_comes_last_by_turns_is_not_named() -> None:
    turns = [tuple(50_000 * (device == turn) for device in range(4)) for turn in range(4)]
    timeline = group(turns)
    assert not named(timeline)
    # In every step one comes 0.05 late, and each of the others waits as long.
    assert waited_most_ms(case(timeline)) == pytest.approx(0.050)


def test_a_device_that_another_one_holds_up_is_not_blamed() -> None:
    """Two pairs on two hosts: 1 keeps 0 waiting, both are late to 2 and 3, who wait there."""
    (found,) = stragglers(case(chained()))
    assert (found.number, found.whole_host) == (1, False)
    assert found.others_wait_ms == pytest.approx(0.2)


def test_a_host_whose_devices_are_all_late_is_named_itself() -> None:
    (found,) = stragglers(case(chained(both=True)))
    assert (found.number, found.whole_host, found.among) == (0, True, 2)


CHAINED = """\
HloModule m, is_scheduled=true, num_partitions=4

%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %sum = f32[] add(%a, %b)
}

ENTRY %main (p: f32[8]) -> f32[8] {
  %p = f32[8]{0} parameter(0)
  %inner = f32[8]{0} all-reduce(%p), channel_id=1, replica_groups={{0,1},{2,3}}, \
use_global_device_ids=true, to_apply=%add
  %outer = f32[8]{0} all-reduce(%inner), channel_id=2, replica_groups={{0,2},{1,3}}, \
use_global_device_ids=true, to_apply=%add
  ROOT %norm = f32[8]{0} all-reduce(%outer), channel_id=3, replica_groups={{0,1,2,3}}, \
use_global_device_ids=true, to_apply=%add
}
"""


def chained(*, both: bool = False) -> Timeline:
    """Device 1 (or the first host) works 0.2 ms longer; its pair meets first, then hosts meet."""
    hosts: list[Recording] = []
    for host in range(2):
        spans: list[Span] = []
        for step, device in product(range(STEPS), range(2)):
            begin = step * STEP
            late = 200_000 * (host == 0 and (device == 1 or both))
            pair = 200_000 * (host == 0)
            for op, at, until, line in (
                ("fusion", 0, 300_000 + late, 0),
                ("inner", 300_000 + late, 350_000 + pair, 1),
                ("outer", 350_000 + pair, 650_000, 1),
                ("norm", 650_000, 700_000, 1),
            ):
                spans.append(
                    Span(op, begin + at, until - at, device, 2 * device + line, module="m")
                )
        made = recording(
            spans, host=f"host{host}", programs={"m": EmbeddedProgram("m", CHAINED.encode)}
        )
        chips = tuple(Device(ordinal=index, kind="gpu", chip=None) for index in range(2))
        hosts.append(replace(made, devices=chips))
    return assemble(hosts, ["a", "b"])


def two_hosts(
    stray: int = 0, drift: float = 0.0, late: int = 0, offset: int = 0, shared: bool = True
) -> Timeline:
    """Two hosts of one device; ends of the second stray by +-`stray` ns, its clock drifts.

    `late`: when the second host comes to each meeting, after the first.
    """
    hosts: list[Recording] = []
    for host in range(2):
        spans: list[Span] = []
        for step in range(STEPS):
            wrong = host * (offset + stray * (step % 3 - 1) + round(drift * step * STEP))
            begin = (step + 1) * STEP + wrong
            kind = "all-reduce" if shared else f"all-reduce.{host}"
            spans += [
                Span("fusion", begin, 300_000, 0, 0),
                Span(kind, begin + 300_000 + host * late, 400_000 - host * late, 0, 1),
            ]
        hosts.append(recording(spans, host=f"host{host}"))
    return assemble(hosts, ["made"])


def test_an_offset_of_seconds_is_taken_off() -> None:
    timeline = two_hosts(offset=3_000_000_000, late=50_000)
    row = clocks(timeline).row(1, named=True)
    assert row["aligned"]
    assert row["offset_ms"] == pytest.approx(3000)
    assert row["spread_ms"] == 0
    assert named(timeline) == {1: True}
    assert not list(clocks_apart.check(case(timeline)))


def test_lateness_below_the_clocks_uncertainty_is_nothing(said: Said) -> None:
    strays = two_hosts(stray=30_000, late=25_000)
    assert clocks(strays).row(1, named=True)["spread_ms"] == pytest.approx(0.030)
    assert not stragglers(case(strays))
    (finding,) = clocks_apart.check(case(strays))
    said(finding)
    assert "0.03 ms" in finding.title
    assert isinstance(finding.saves_ms, Unknown)


def test_a_clock_that_drifts() -> None:
    timeline = two_hosts(drift=100e-6)
    row = clocks(timeline).row(1, named=True)
    assert row["drift_ppm"] == pytest.approx(100, rel=0.01)
    assert not list(clocks_apart.check(case(timeline)))
    (finding,) = clocks_apart.check(case(two_hosts(drift=2e-3)))
    assert "drifts by +2,0" in finding.detail


def test_hosts_that_share_nothing_are_said_to_be_apart(said: Said) -> None:
    timeline = two_hosts(offset=5_000_000_000, shared=False)
    (finding,) = clocks_apart.check(case(timeline))
    assert "1 of 2 hosts" in finding.title
    assert "up to 5.0 s" in finding.detail
    said(finding)


def test_slices_that_work_at_the_same_time_need_no_common_clock() -> None:
    assert not list(clocks_apart.check(case_of(Scene())))


def test_one_host_has_one_clock() -> None:
    assert not list(clocks_apart.check(case(healthy(1))))


def builds(second: str) -> Timeline:
    """Two hosts of the healthy step, the second with other HLO."""
    hosts = [healthy_host(host, DEVICES // 2) for host in range(2)]
    embedded = EmbeddedProgram(MODULE, second.encode, "another")
    return assemble([hosts[0], replace(hosts[1], programs={MODULE: embedded})], ["a", "b"])


def test_names_and_lines_make_no_difference() -> None:
    renamed = hlo().replace("%dot.", "%gemm.").replace("source_line=12", "source_line=13")
    timeline = builds(renamed)
    assert divergences(timeline) == ()
    assert not list(ranks_differ.check(case(timeline)))


def test_another_schedule_is_another_build(said: Said) -> None:
    lines = hlo().splitlines(keepends=True)
    at = next(i for i, line in enumerate(lines) if line.startswith("  %dot.7 ="))
    start = next(i for i, line in enumerate(lines) if "all-reduce-start(" in line)
    lines.insert(start, lines.pop(at))
    (finding,) = ranks_differ.check(case(builds("".join(lines))))
    assert "(host1)" in finding.title
    said(finding)


def test_more_instructions_are_counted() -> None:
    more = hlo().replace("  %shard =", "  %unused = bf16[2,2]{1,0} constant({...})\n  %shard =")
    (finding,) = ranks_differ.check(case(builds(more)))
    assert "+1 constant" in finding.detail


def tuned(block: int) -> str:
    config = f', backend_config={{"fusion_backend_config":{{"block_m":"{block}"}}}}'
    return hlo().replace(f"{ENTRY}, calls=%multiply.1", f"{ENTRY}, calls=%multiply.1{config}")


def test_tuning_alone_is_told_apart() -> None:
    hosts = [healthy_host(host, DEVICES // 2) for host in range(2)]
    made = [
        replace(one, programs={MODULE: EmbeddedProgram(MODULE, tuned(block).encode, str(block))})
        for one, block in zip(hosts, (128, 256), strict=True)
    ]
    (finding,) = ranks_differ.check(case(assemble(made, ["a", "b"])))
    assert "are tuned differently: 1 instruction of" in finding.title
    assert "dot.1" in finding.detail
    assert isinstance(finding.saves_ms, Unknown | Range)


def computation(name: str, calls: str, opcode: str) -> Computation:
    shape = Shape("f32", (2,))
    called = Instruction("c", "fusion", shape, (), (calls,) if calls else (), name, 0)
    work = Instruction("w", opcode, shape, ("c",), (), name, 1)
    return Computation(name, (called, work), "w")


CALLS = {"leaf": "", "middle": "leaf", "main": "middle"}
# The third does the same as the first, but is another object, as if it was read separately.
VARIANTS = {
    name: [computation(name, calls, opcode) for opcode in ("add", "multiply", "add")]
    for name, calls in CALLS.items()
}
Choice = tuple[int, int, int]
CHOICE = st.tuples(*[st.integers(0, 2)] * 3)


@given(st.lists(CHOICE, min_size=2, max_size=4))
def test_builds_that_share_computations_are_compared_by_what_they_do(chosen: list[Choice]) -> None:
    programs = [
        Program(
            "jit_step",
            "main",
            {name: VARIANTS[name][number] for name, number in zip(CALLS, numbers, strict=True)},
        )
        for numbers in chosen
    ]
    found = structures(programs)
    does = [tuple(number == 1 for number in numbers) for numbers in chosen]
    for (one, first), (other, second) in product(zip(found, does, strict=True), repeat=2):
        assert (one == other) == (first == second)


@pytest.mark.system
def test_the_odd_rank_of_a_real_run_is_tuned_differently(shared: object) -> None:
    """nsys-jax takes its step for another program; 12 GEMMs have other tiles, no more."""

    files = [f"{shared}/data/traces/pax_fsdp4_4proc_proc{n}.zip" for n in range(4)]
    (one,) = (it for it in divergences(opened(*files)) if "step_fn" in it.name)
    assert one.hosts == ((0, 1, 2), (3,))
    assert not one.structural
    assert len(one.tuned) == 12
