"""What becomes a cost and what does not, on Timelines whose every span can be counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from counterpoint.core import Basis
from counterpoint.core.errors import InputError, UsageError
from counterpoint.hardware.targets import parse_target
from counterpoint.pgle.making.make import make_profile
from counterpoint.pgle.making.modules import ProfileBuild
from counterpoint.pgle.making.origin import other_recorded
from counterpoint.pgle.profiles.files import read_profile, write_profile
from counterpoint.timeline.hosts.assemble import assemble
from counterpoint.timeline.model import Device, EmbeddedProgram, Timeline
from counterpoint.timeline.recording import Recording
from golden_files import Golden, cases
from recordings import Span, recording
from refusals import refusal

CHIP = "NVIDIA A100-SXM4-40GB"

A = "0123456789abcdef0123456789abcdef"
B = "fedcba9876543210fedcba9876543210"
RUN = 1_000_000  # ns from one run to the next

STEP = """\
HloModule jit_step, is_scheduled=true, num_partitions=2, \
frontend_attributes={fingerprint_before_lhs="FINGERPRINT"}

%add (x: f32[], y: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %sum = f32[] add(%x, %y)
}

%fused (q: f32[256]) -> f32[128] {
  %q = f32[256]{0} parameter(0)
  %inner = f32[256]{0} negate(%q)
  ROOT %slice = f32[128]{0} slice(%inner), slice={[0:128]}
}

%scatter (r: f32[256]) -> f32[128] {
  %r = f32[256]{0} parameter(0)
  ROOT %reduce-scatter.7 = f32[128]{0} reduce-scatter(%r), channel_id=2, replica_groups={{0,1}}, \
use_global_device_ids=true, dimensions={0}, to_apply=%add
}

%body (s: (s32[], f32[256])) -> (s32[], f32[256]) {
  %s = (s32[], f32[256]{0}) parameter(0)
  %i = s32[] get-tuple-element(%s), index=0
  %v = f32[256]{0} get-tuple-element(%s), index=1
  %one = s32[] constant(1)
  %next = s32[] add(%i, %one)
  %turn = f32[256]{0} negate(%v)
  ROOT %t = (s32[], f32[256]{0}) tuple(%next, %turn)
}

%more (s.1: (s32[], f32[256])) -> pred[] {
  %s.1 = (s32[], f32[256]{0}) parameter(0)
  %i.1 = s32[] get-tuple-element(%s.1), index=0
  %n = s32[] LIMIT
  ROOT %less = pred[] compare(%i.1, %n), direction=LT
}

ENTRY %main (p: f32[256]) -> f32[128] {
  %p = f32[256]{0} parameter(0)
  %zero = s32[] constant(0)
  %all-reduce-start = f32[256]{0} all-reduce-start(%p), channel_id=1, replica_groups={{0,1}}, \
use_global_device_ids=true, to_apply=%add
  %fusion.3 = f32[128]{0} fusion(%p), kind=kLoop, calls=%fused
  %all-reduce-done = f32[256]{0} all-reduce-done(%all-reduce-start)
  %first = (s32[], f32[256]{0}) tuple(%zero, %all-reduce-done)
  %loop = (s32[], f32[256]{0}) while(%first), condition=%more, body=%body
  %out = f32[256]{0} get-tuple-element(%loop), index=1
  %scatter-start = ((f32[256]{0}), f32[128]{0}) async-start(%out), calls=%scatter
  ROOT %scatter-done = f32[128]{0} async-done(%scatter-start)
}
"""
KNOWN = "constant(4)"
UNKNOWN = "get-tuple-element(%s.1), index=0"


def hlo(fingerprint: str = A, limit: str = KNOWN, name: str = "jit_step") -> EmbeddedProgram:
    text = STEP.replace("FINGERPRINT", fingerprint).replace("LIMIT", limit)
    return EmbeddedProgram(name, text.replace("jit_step", name).encode)


def timeline(
    spans: Sequence[Span], programs: dict[str, EmbeddedProgram] | None = None, runs: int = 3
) -> Timeline:
    """The spans of one run, `runs` times; the first run takes ten times as long."""
    return assemble([host(spans, programs, runs)], ["dir/made.xplane.pb"])


def host(
    spans: Sequence[Span],
    programs: dict[str, EmbeddedProgram] | None = None,
    runs: int = 3,
    name: str = "host0",
) -> Recording:
    repeated = [
        replace(
            span,
            start=span.start * (10 if at == 0 else 1) + at * RUN,
            dur=span.dur * (10 if at == 0 else 1),
            run=at if span.run is None else None,
        )
        for at in range(runs)
        for span in spans
    ]
    return recording(
        repeated, host=name, programs={"jit_step": hlo()} if programs is None else programs
    )


def costs(made: ProfileBuild) -> dict[str, float]:
    """By instruction, in nanoseconds."""
    return {cost.name: round(cost.us * 1e3, 6) for cost in made.profile.costs}


def test_names_bear_the_fingerprint_and_the_first_run_does_not_count() -> None:
    made = make_profile(timeline([Span("fusion.3", 0, 500)]))
    (cost,) = made.profile.costs
    assert (cost.key, cost.us) == (f"{A}::fusion.3", 0.5)
    (module,) = made.modules
    assert (module.name, module.fingerprint, module.executions) == ("jit_step", A, 2)


def test_warm_up_counts_when_asked_for_or_when_there_is_nothing_else() -> None:
    spans = [Span("fusion.3", 0, 500)]
    assert costs(make_profile(timeline(spans), 100, keep_warmup=True)) == {"fusion.3": 5000}
    once = make_profile(timeline(spans, runs=1))
    assert costs(once) == {"fusion.3": 5000}
    assert once.notes[0].startswith("includes warm-up")


def test_the_percentile_is_taken_over_runs_and_devices() -> None:
    spans = [Span("fusion.3", 0, 100, device=0), Span("fusion.3", 0, 300, device=1, line=1)]
    made = timeline(spans)
    assert costs(make_profile(made)) == {"fusion.3": 200}
    assert costs(make_profile(made, 100)) == {"fusion.3": 300}
    assert costs(make_profile(made, 0)) == {"fusion.3": 100}
    for wrong in (-1, 101, float("nan")):
        with pytest.raises(UsageError, match="between 0 and 100"):
            make_profile(made, wrong)


def test_kernels_one_after_the_other_add_up_and_side_by_side_count_once() -> None:
    after = [Span("fusion.3", 0, 100), Span("fusion.3", 150, 100)]
    assert costs(make_profile(timeline(after))) == {"fusion.3": 200}
    beside = [Span("fusion.3", 0, 100, line=0), Span("fusion.3", 20, 100, line=1)]
    assert costs(make_profile(timeline(beside))) == {"fusion.3": 120}
    within = [Span("fusion.3", 0, 100, line=0), Span("fusion.3", 20, 10, line=1)]
    assert costs(make_profile(timeline(within))) == {"fusion.3": 100}


@pytest.mark.parametrize("limit", [KNOWN, UNKNOWN])
def test_in_a_loop_an_instruction_costs_one_turn(limit: str) -> None:
    turns = [Span("turn", 100 * at, 10 + at) for at in range(4)]
    made = make_profile(timeline(turns, {"jit_step": hlo(limit=limit)}))
    assert costs(made) == {"turn": (10 + 11 + 12 + 13) / 4}


def test_of_two_kernels_per_turn_both_belong_to_it() -> None:
    turns = [Span("turn", 50 * at, 10) for at in range(8)]
    assert costs(make_profile(timeline(turns))) == {"turn": 20}
    # Not knowing the trip count, another kernel of the body tells the turns.
    other = [Span("next", 100 * at + 70, 5) for at in range(4)]
    unknown = timeline([*turns, *other], {"jit_step": hlo(limit=UNKNOWN)})
    assert costs(make_profile(unknown)) == {"turn": 20, "next": 5}


CLONED = """\
HloModule jit_step, is_scheduled=true, num_partitions=2, \
frontend_attributes={fingerprint_before_lhs="FINGERPRINT"}

%add (x: f32[], y: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %sum = f32[] add(%x, %y)
}

ENTRY %main (p: f32[256]) -> f32[256] {
  %p = f32[256]{0} parameter(0)
  %turn = f32[256]{0} negate(%p), metadata={scheduling_name="turn"}
  %sum.1 = f32[256]{0} all-reduce(%turn), channel_id=1, replica_groups={{0},{1}}, \
use_global_device_ids=true, to_apply=%add, metadata={scheduling_name="sum-start"}
  %turn.clone = f32[256]{0} negate(%sum.1), metadata={scheduling_name="turn"}
  ROOT %sum.2 = f32[256]{0} all-reduce(%turn.clone), channel_id=2, replica_groups={{0},{1}}, \
use_global_device_ids=true, to_apply=%add, metadata={scheduling_name="sum-start"}
}
""".replace("FINGERPRINT", A)


def test_clones_that_the_scheduler_knew_as_one_do_not_add_up() -> None:
    spans = [
        Span(op, start + 7 * device, dur, device, line=device)
        for device in (0, 1)
        for op, start, dur in (
            ("turn", 0, 100),
            ("sum.1", 200, 30),
            ("turn.clone", 300, 200),
            ("sum.2", 600, 50),
        )
    ]
    made = make_profile(timeline(spans, {"jit_step": EmbeddedProgram("jit_step", CLONED.encode)}))
    assert costs(made) == {"turn": 150, "sum-start": 40}
    assert not any("waiting" in note for note in made.notes)  # each device is a group of its own


def test_a_loop_asks_its_condition_once_more_than_it_turns() -> None:
    asked = [Span("less", 100 * at, 10) for at in range(5)]
    assert costs(make_profile(timeline(asked))) == {"less": 10}


def test_a_part_of_a_fusion_costs_its_fusion() -> None:
    spans = [Span("fusion.3", 0, 100), Span("inner", 200, 30)]
    assert costs(make_profile(timeline(spans))) == {"fusion.3": 130}


def test_what_the_program_does_not_hold_costs_nothing() -> None:
    made = make_profile(timeline([Span("fusion.3", 0, 100), Span("fusion.99", 200, 300)]))
    assert costs(made) == {"fusion.3": 100}
    assert made.modules[0].covered == pytest.approx(0.25)


def test_an_async_instruction_goes_by_its_start() -> None:
    spans = [
        Span("reduce-scatter.7", 0, 50, device, line=device)  # named by what it wraps
        for device in (0, 1)
    ]
    assert costs(make_profile(timeline(spans))) == {"scatter-start": 50}


def test_a_collective_costs_the_stay_of_the_last_to_come() -> None:
    late = [
        Span("all-reduce-start", 0, 90, device=0, line=0),
        Span("all-reduce-start", 60, 30, device=1, line=1),
    ]
    made = make_profile(timeline(late))
    assert costs(made) == {"all-reduce-start": 30}
    assert [note[:6] for note in made.notes] == ["step 0", "step 2"]  # left out
    assert made.modules[0].collectives == 1


def test_without_a_common_clock_the_shortest_stay_counts() -> None:
    late = [
        Span("all-reduce-start", 60, 90, device=0, line=0),  # by the clock of a host
        Span("all-reduce-start", 0, 30, device=1, line=1),  # by that of another
    ]
    made = timeline(late)
    second = replace(made.hosts[0], name="host1", clock_offset_ps=None)
    devices = (made.devices[0], replace(made.devices[1], host=1))
    programs = tuple(
        replace(entry, variants={0: entry.variants[0], 1: entry.variants[0]})
        for entry in made.programs
    )
    apart = replace(made, hosts=(made.hosts[0], second), devices=devices, programs=programs)
    assert costs(make_profile(apart)) == {"all-reduce-start": 30}


def test_devices_of_one_clock_that_never_met_are_no_group() -> None:
    apart = [
        Span("all-reduce-start", 60, 90, device=0, line=0),
        Span("all-reduce-start", 0, 30, device=1, line=1),
    ]
    made = make_profile(timeline(apart))
    assert costs(made) == {"all-reduce-start": 60}
    assert made.notes[0].startswith("waiting")


def test_waiting_that_can_not_be_told_apart_is_pointed_out() -> None:
    alone = timeline([Span("all-reduce-start", 0, 90), Span("fusion.3", 200, 10)])
    made = make_profile(alone)
    assert costs(made) == {"all-reduce-start": 90, "fusion.3": 10}
    assert made.notes[0].startswith("waiting")
    assert "(all-reduce-start)" in made.notes[0]
    # In a prediction, one device represents all of them.
    predicted = make_profile(replace(alone, basis=Basis.PREDICTED))
    assert not [note for note in predicted.notes if note.startswith(("waiting", "includes"))]


def test_of_some_ranks_the_last_to_come_waits_least() -> None:
    eight = STEP.replace("{{0,1}}", "{{0,1,2,3,4,5,6,7}}").replace("partitions=2", "partitions=8")
    text = eight.replace("FINGERPRINT", A).replace("LIMIT", KNOWN)
    spans = [
        Span("all-reduce-start", 0, 90, device=0, line=0),
        Span("all-reduce-start", 50, 40, device=1, line=1),
    ]
    programs = {"jit_step": EmbeddedProgram("jit_step", text.encode)}
    made = make_profile(timeline(spans, programs))
    assert costs(made) == {"all-reduce-start": 40}
    assert made.notes[0].startswith("waiting")


def test_a_window_from_start_to_done_is_no_cost() -> None:
    made = timeline([Span("fusion.3", 0, 100), Span("all-reduce-start", 0, 50)])
    ops = made.ops.with_columns(async_window=pl.col("op") == "all-reduce-start")
    assert costs(make_profile(replace(made, ops=ops))) == {"fusion.3": 100}


def test_of_a_collective_on_tpus_the_window_is_the_cost() -> None:
    """There a start and a done only issue it and wait; the window between them is a line."""
    issued = [Span("all-reduce-start", 0, 1), Span("all-reduce-done", 50, 10)]
    made = timeline([Span("fusion.3", 0, 50), *issued, Span("window", 0, 60)])
    window = pl.col("op") == "window"
    collective = pl.col("op").str.starts_with("all-reduce") | window
    ops = made.ops.with_columns(
        lane=pl.when(collective).then(pl.lit("collective")).otherwise("lane"),
        pair=pl.when(collective).then(pl.lit("all-reduce-start")).otherwise("pair"),
        program=pl.lit(0).cast(made.ops.schema["program"]),
        async_window=window,
    )
    devices = tuple(replace(device, kind="tpu", chip="TPU v5e") for device in made.devices)
    built = make_profile(replace(made, ops=ops, devices=devices))
    assert costs(built) == {"fusion.3": 50, "all-reduce-start": 60}
    assert built.profile.origin["devices"] == "TPU v5e"


def test_what_belongs_to_no_run_does_not_count() -> None:
    made = timeline([Span("fusion.3", 0, 100)])
    cut = pl.when(pl.col("start_ps") < 2 * RUN * 1000).then(pl.col("run"))
    longer = pl.when(cut.is_null()).then(9 * pl.col("dur_ps")).otherwise(pl.col("dur_ps"))
    assert costs(make_profile(replace(made, spans=made.spans.with_columns(run=cut)))) == {
        "fusion.3": 100
    }
    spans = made.spans.with_columns(run=cut, dur_ps=longer)
    assert costs(make_profile(replace(made, spans=spans))) == {"fusion.3": 100}


TWO = {"jit_step": hlo(A), "jit_eval": hlo(B, name="jit_eval")}
OF_TWO = [Span("fusion.3", 0, 100), Span("fusion.3", 500, 700, module="jit_eval")]


def test_two_modules_keep_their_own_costs_the_biggest_first() -> None:
    made = make_profile(timeline(OF_TWO, TWO))
    assert [(cost.key, cost.us) for cost in made.profile.costs] == [
        (f"{B}::fusion.3", 0.7),
        (f"{A}::fusion.3", 0.1),
    ]


@pytest.mark.parametrize("wanted", ["jit_eval", B[:8], "#1"])
def test_one_module_can_be_chosen(wanted: str) -> None:
    made = make_profile(timeline(OF_TWO, TWO), module=wanted)
    assert [cost.key for cost in made.profile.costs] == [f"{B}::fusion.3"]
    bare = make_profile(timeline(OF_TWO, TWO), module=wanted, bare=True)
    assert [(cost.key, cost.us) for cost in bare.profile.costs] == [("fusion.3", 0.7)]
    assert f"module {B}" in bare.profile.origin  # so that staleness can be told all the same


def test_a_profile_says_on_which_devices_it_was_measured() -> None:
    recorded = timeline(OF_TWO, TWO)
    named = replace(recorded, devices=tuple(replace(it, chip=CHIP) for it in recorded.devices))
    nameless = replace(recorded, devices=tuple(replace(it, chip=None) for it in recorded.devices))
    origin = make_profile(named).profile.origin
    assert origin["devices"] == CHIP
    assert other_recorded(origin, parse_target("8xH100")) == "A100 40GB"
    assert other_recorded(origin, parse_target("8xA100-40GB")) is None
    assert "devices" not in make_profile(nameless).profile.origin


def test_digits_that_two_fingerprints_share_are_refused() -> None:
    near = A[:6] + B[6:]
    two = {"jit_step": hlo(A), "jit_eval": hlo(near, name="jit_eval")}
    with pytest.raises(UsageError, match="2 fingerprints"):
        make_profile(timeline(OF_TWO, two), module=A[:5])
    made = make_profile(timeline(OF_TWO, two), module=near[:8])
    assert made.profile.fingerprints == (near,)


def test_bare_names_of_two_modules_are_refused() -> None:
    with pytest.raises(UsageError, match="mix their costs") as refused:
        make_profile(timeline(OF_TWO, TWO), bare=True)
    assert "#0 jit_step (01234567), #1 jit_eval (fedcba98)" in str(refused.value)
    with pytest.raises(UsageError, match="no module 'jit_train' ran"):
        make_profile(timeline(OF_TWO, TWO), module="jit_train")


def test_modules_without_fingerprint_are_not_mixed() -> None:
    nameless = timeline(OF_TWO, {})
    with pytest.raises(InputError, match="by name only") as refused:
        make_profile(nameless)
    assert "#0 jit_step, #1 jit_eval" in str(refused.value)
    made = make_profile(nameless, module="jit_eval")
    assert [(cost.key, cost.us) for cost in made.profile.costs] == [("fusion.3", 0.7)]
    nested = make_profile(timeline([Span("while.2::fusion.3", 0, 100)], {}))
    assert [cost.key for cost in nested.profile.costs] == ["fusion.3"]
    alone = make_profile(timeline(OF_TWO[:1], {}))
    assert [(cost.key, cost.us) for cost in alone.profile.costs] == [("fusion.3", 0.1)]


def test_a_module_without_fingerprint_beside_one_with_it_is_left_out() -> None:
    made = make_profile(timeline(OF_TWO, {"jit_step": hlo(A)}))
    assert [cost.key for cost in made.profile.costs] == [f"{A}::fusion.3"]
    assert made.notes[0].startswith("left out")


def hosts_with(other: EmbeddedProgram) -> Timeline:
    """Device 0 takes 100 for a fusion, and device 1 of another host 300."""
    parts = [
        host([Span("fusion.3", 0, 100)], {"jit_step": hlo(A)}),
        host([Span("fusion.3", 0, 300)], {"jit_step": other}, name="host1"),
    ]
    return assemble(parts, ["a", "b"])


def test_builds_of_one_program_pool_what_is_alike() -> None:
    made = make_profile(hosts_with(hlo(B)))
    assert {cost.key: cost.us for cost in made.profile.costs} == {
        f"{A}::fusion.3": 0.2,
        f"{B}::fusion.3": 0.2,
    }
    assert any("different fingerprints" in note for note in made.notes)
    # Each ran on its own host: device times add up to what ran (two runs each).
    ran = {it.fingerprint: (it.devices, it.hosts, it.device_ms) for it in made.modules}
    assert ran == {A: (1, 1, pytest.approx(2e-4)), B: (1, 1, pytest.approx(6e-4))}
    bare = make_profile(hosts_with(hlo(B)), bare=True)
    assert [(cost.key, cost.us) for cost in bare.profile.costs] == [("fusion.3", 0.2)]


def test_an_instruction_that_is_another_elsewhere_is_not_pooled() -> None:
    text = STEP.replace("FINGERPRINT", B).replace("LIMIT", KNOWN)
    other = text.replace("%fusion.3 = f32[128]{0} fusion(%p)", "%fusion.3 = f32[128]{0} fusion(%z)")
    other = other.replace("%zero = s32", "%z = f32[512]{0} iota(), iota_dimension=0\n  %zero = s32")
    made = make_profile(hosts_with(EmbeddedProgram("jit_step", other.encode)))
    assert {cost.key: cost.us for cost in made.profile.costs} == {
        f"{A}::fusion.3": 0.1,
        f"{B}::fusion.3": 0.3,
    }


def test_nothing_is_made_of_what_is_no_gpu_or_tpu() -> None:
    made = timeline([Span("fusion.3", 0, 100)])
    other = replace(made, devices=(Device(ordinal=0, kind="cpu"),))
    with pytest.raises(InputError, match="a profile of 1 CPU"):
        make_profile(other)
    with pytest.raises(InputError, match="no device time"):
        make_profile(assemble([recording([])], ["made"]))


def test_kernels_that_name_no_instruction_are_refused() -> None:
    made = timeline([Span("fusion.3", 0, 100)])
    ops = made.ops.with_columns(op=pl.lit(None, pl.String), pair=pl.lit(None, pl.String))
    with pytest.raises(InputError, match="no kernel names"):
        make_profile(replace(made, ops=ops))


def test_a_module_that_ran_in_a_command_buffer_says_so() -> None:
    made = timeline([OF_TWO[0], Span("cuda-graph", 500, 700, module="jit_eval")], TWO)
    with pytest.raises(InputError, match="no instruction of jit_eval") as refused:
        make_profile(made, module="jit_eval")
    assert "--xla_gpu_enable_command_buffer=" in str(refused.value)


def test_kernels_without_names_are_pointed_out() -> None:
    made = timeline([Span("fusion.3", 0, 900), Span("cuda-graph", 1000, 100)])
    assert make_profile(made).notes[0].startswith("10% of")


def test_the_same_recording_gives_the_same_file(tmp_path: Path) -> None:
    spans = [*OF_TWO, Span("turn", 200, 10), Span("turn", 250, 10)]
    texts: list[bytes] = []
    for name in ("a.pbtxt", "b.pbtxt"):
        made = make_profile(timeline(spans, TWO), about={"jaxlib": "0.10.2"})
        texts.append(write_profile(made.profile, tmp_path / name).read_bytes())
    assert texts[0] == texts[1]
    head = texts[0].decode().splitlines()[:6]
    assert head[2].startswith("# statistic: median ")
    assert [*head[1:2], *head[3:]] == [
        "# inputs: made.xplane.pb",
        "# jaxlib: 0.10.2",
        f"# module {B}: jit_eval, 1 instruction, 2 runs on 1 device",
        f"# module {A}: jit_step, 2 instructions, 1 run on 1 device",
    ]
    assert read_profile(tmp_path / "a.pbtxt") == made.profile


def test_what_is_said(golden: Golden) -> None:
    alone = timeline([Span("all-reduce-start", 0, 90), Span("cuda-graph", 200, 10)])
    notes = {
        "one run, which warms up": timeline([Span("fusion.3", 0, 500)], runs=1),
        "a collective of one device, and kernels without names": alone,
        "a module without a fingerprint beside one with it": timeline(OF_TWO, {"jit_step": hlo(A)}),
        "two builds of one program": hosts_with(hlo(B)),
    }
    two, nameless = timeline(OF_TWO, TWO), timeline(OF_TWO, {})
    near = {"jit_step": hlo(A), "jit_eval": hlo(A[:6] + B[6:], name="jit_eval")}
    graph = timeline([OF_TWO[0], Span("cuda-graph", 500, 700, module="jit_eval")], TWO)
    unnamed = alone.ops.with_columns(op=pl.lit(None, pl.String), pair=pl.lit(None, pl.String))
    on_cpu = replace(alone, devices=(Device(ordinal=0, kind="cpu"),))
    refused = {
        "a percentile of 101": lambda: make_profile(two, 101),
        "digits that two fingerprints share": lambda: make_profile(
            timeline(OF_TWO, near), module=A[:5]
        ),
        "bare names of two modules": lambda: make_profile(two, bare=True),
        "a module that did not run": lambda: make_profile(two, module="jit_train"),
        "two modules without a fingerprint": lambda: make_profile(nameless),
        "a CPU": lambda: make_profile(on_cpu),
        "no device at all": lambda: make_profile(assemble([recording([])], ["made"])),
        "kernels that name no instruction": lambda: make_profile(replace(alone, ops=unnamed)),
        "a module that ran in a command buffer": lambda: make_profile(graph, module="jit_eval"),
    }
    golden(
        "make.txt",
        cases(
            {name: "\n".join(make_profile(made).notes) for name, made in notes.items()}
            | {name: refusal(attempt) for name, attempt in refused.items()}
        ),
    )
