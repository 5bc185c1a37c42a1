"""From Recordings to a Timeline: runs, steps, programs and clocks on hand-made spans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import polars as pl
import pytest
from xspace_builder import US, cpu_op, hlo_proto, host, metadata, xspace

from counterpoint.core.errors import InputError
from counterpoint.timeline.hosts.assemble import assemble
from counterpoint.timeline.hosts.consistency import absent_hosts
from counterpoint.timeline.model import Device, EmbeddedProgram, Timeline
from counterpoint.timeline.recording import Recording
from counterpoint.timeline.xplane.reader import read_xplane
from golden_files import Golden, cases
from hand_made import straight
from recordings import NS, Span, recording
from refusals import refusal


def timeline(*recordings: Recording) -> Timeline:
    return assemble(recordings, ["made by hand"])


def runs(of: Timeline) -> list[tuple[int, int, int, int]]:
    """(device, index, start ns, end ns) of each run."""
    rows = of.runs.select("device", "index", "start_ps", "end_ps").rows()
    return [(device, index, start // NS, end // NS) for device, index, start, end in rows]


def steady(of: Timeline) -> list[int]:
    return of.steps.filter("steady")["step"].unique().sort().to_list()


def four_steps(start: int = 0, period: int = 100) -> list[Span]:
    """Four runs of two ops, the second three times in each, as in a loop."""
    spans: list[Span] = []
    for step in range(4):
        at = start + step * period
        spans.append(Span("fusion", at, 20))
        spans += [Span("fusion.1", at + 30 + 20 * turn, 10) for turn in range(3)]
    return spans


def nameless_steps(skew: int, *, late: int = 0, begins: int = 0, shaken: int = 0) -> list[Span]:
    """Six unequal steps of a profile that names no program, each with two collectives.

    This rank begins each step later by `late`, its clock is ahead by `skew`, and the profile lacks
    the steps before `begins`. Ends of collectives differ from those of other ranks by `shaken`.
    """
    spans: list[Span] = []
    start = skew
    for step in range(6):
        work = 100 + 37 * (step % 2) + 11 * step
        reduced, gathered = start + work + 60, start + work + 160
        if step >= begins:
            begun = start + late
            stray = shaken * step * step
            spans += [
                Span("gemm", begun, work, module=None),
                Span("ncclDevKernel_AllReduce", begun + work, reduced - begun - work, module=None),
                Span(
                    "ncclDevKernel_AllGather",
                    reduced + 40,
                    gathered - reduced - 40 + stray,
                    module=None,
                ),
            ]
        start = gathered + 30
    return spans


class TestProfilesThatNameNoProgram:
    def test_are_aligned_on_the_sequence_of_their_collectives(self) -> None:
        first, second = nameless_steps(0), nameless_steps(7_000, late=25, begins=1)
        made = timeline(recording(first, host="a"), recording(second, host="b"))
        assert made.hosts[1].clock_offset_ps == 7_000 * NS
        # Both begin and end with a collective that the other has, too.
        bounds = made.steps.select("start_ps", "end_ps").unique().rows()
        ends = [span.start + span.dur for span in second if "nccl" in span.op]
        assert bounds == [((ends[0] - 7_000) * NS, (ends[-1] - 7_000) * NS)]

    def test_are_one_step_from_the_first_to_the_last_event_of_their_host(self) -> None:
        spans = [Span("gemm", 0, 20, module=None), Span("gemm", 748, 20, 1, module=None)]
        made = timeline(recording(spans))
        bounds = made.steps.select("device", "start_ps", "end_ps").rows()
        assert bounds == [(0, 0, 768 * NS), (1, 0, 768 * NS)]

    def test_are_not_if_the_ends_do_not_fit(self) -> None:
        second = nameless_steps(7_000, shaken=900)
        made = timeline(recording(nameless_steps(0), host="a"), recording(second, host="b"))
        assert made.hosts[1].clock_offset_ps is None
        assert any("could not be aligned" in note for note in made.notes)


class TestRuns:
    def test_run_ids_tell_runs_apart(self) -> None:
        spans = [Span("fusion", 0, 10, run=7), Span("fusion", 20, 10, run=7)]
        spans += [Span("fusion", 25, 10, run=-3), Span("fusion", 5, 3, run=7, device=1)]
        assert runs(timeline(recording(spans))) == [(0, 0, 0, 30), (0, 1, 25, 35), (1, 0, 5, 8)]

    def test_executions_tell_them_too(self) -> None:
        spans = [Span("fusion", 12, 10), Span("fusion", 40, 10), Span("fusion", 95, 1)]
        made = timeline(
            recording(spans, executions=[(0, "jit_step", 10, 20), (0, "jit_step", 35, 30)])
        )
        assert runs(made) == [(0, 0, 10, 30), (0, 1, 35, 65)]
        # The last span lies behind both: it is in no run.
        assert made.spans["run"].to_list() == [0, 1, None]

    def test_without_either_the_op_that_comes_first_marks_a_run(self) -> None:
        made = timeline(recording(four_steps()))
        assert runs(made) == [(0, k, 100 * k, 100 * k + 80) for k in range(4)]

    def test_spans_before_the_first_mark_were_cut_off(self) -> None:
        cut = [Span("fusion.1", -30, 10), *four_steps()]
        made = timeline(recording(cut))
        assert runs(made) == [(0, k, 100 * k, 100 * k + 80) for k in range(4)]
        assert made.spans["run"].to_list()[0] is None

    def test_ops_of_two_programs_are_never_merged(self) -> None:
        spans = [Span("fusion.3", 0, 10, module="a"), Span("fusion.3", 20, 30, module="b")]
        made = timeline(recording(spans))
        assert made.ops.select("op", "program").rows() == [("fusion.3", 0), ("fusion.3", 1)]
        assert [entry.name for entry in made.programs] == ["a", "b"]

    def test_ops_without_a_program_take_that_of_the_run_they_execute_in(self) -> None:
        spans = [Span("copy", 1, 2, module=None), Span("copy", 11, 2, module=None)]
        made = timeline(recording(spans, executions=[(0, "a", 0, 10), (0, "b", 10, 10)]))
        named = made.frame().select("start_ps", "program").collect().sort("start_ps")
        assert [made.programs[index].name for index in named["program"]] == ["a", "b"]


class TestSteps:
    def test_a_step_lasts_until_the_next_begins(self) -> None:
        made = timeline(recording(four_steps(period=100)))
        lengths = made.steps.select((pl.col("end_ps") - pl.col("start_ps")) // NS).to_series()
        assert lengths.to_list() == [100, 100, 100, 80]

    def test_neither_the_first_step_counts_nor_the_last_whose_end_was_not_seen(self) -> None:
        made = timeline(recording(four_steps()))
        assert steady(made) == [1, 2]
        assert [note[:6] for note in made.notes] == ["step 0", "step 3"]
        assert made.steps["whole"].to_list() == [True, True, True, False]

    @pytest.mark.parametrize(("runs", "counted"), [(1, []), (2, [0]), (3, [1]), (4, [1, 2])])
    def test_of_few_steps_those_count_that_were_seen_whole(
        self, runs: int, counted: list[int]
    ) -> None:
        made = timeline(recording([s for s in four_steps() if s.start < 100 * runs]))
        assert steady(made) == counted

    def test_the_only_step_with_an_end_does_not_count_if_its_beginning_was_cut_off(self) -> None:
        spans = [Span(f"op.{at}", 100 * k + 10 * at, 8, run=k) for k in (0, 1) for at in range(6)]
        assert steady(timeline(recording(spans))) == [0]
        cut = timeline(recording(spans[2:]))
        assert steady(cut) == []
        assert any(note.startswith("step 0 is left") for note in cut.notes)

    def test_nor_does_warm_up_when_enough_remains(self) -> None:
        late = [Span("fusion", start, 20) for start in (0, 100, 300, 400, 500, 600)]
        made = timeline(recording(late))
        # Step 1 takes 200, later ones 100; the last one has no next start.
        assert steady(made) == [2, 3, 4]
        assert any("step 1" in note and "warm-up" in note for note in made.notes)

    def test_the_dominant_program_makes_the_steps(self) -> None:
        spans = four_steps()
        spans += [Span("reduce", 100 * k + 85, 5, module="jit_norm") for k in range(4)]
        made = timeline(recording(spans))
        assert made.step_program is not None
        assert made.programs[made.step_program].name == "jit_step"
        assert "jit_step" in made.step_rule
        # What runs between two executions belongs to the step all the same.
        assert made.runs.filter(pl.col("program") != made.step_program)["step"].to_list() == [
            0,
            1,
            2,
            # The last step ends with its last run: nobody knows if more belonged to it.
            None,
        ]

    def test_host_markers_group_runs(self) -> None:
        markers = [(None, 10, 0, 150), (None, 11, 200, 150)]
        made = timeline(recording(four_steps(), markers=markers))
        assert "2 host markers 'train' (steps 10 to 11)" in made.step_rule
        assert made.runs["step"].to_list() == [10, 10, 11, 11]

    def test_device_markers_tell_where_steps_begin_and_their_numbers(self) -> None:
        # The first ends with its last kernel, before the step does.
        markers = [(0, 5, 0, 80), (0, 6, 110, 95), (0, 7, 205, 195)]
        made = timeline(recording(four_steps(), markers=markers))
        assert made.step_rule.startswith("step markers on")
        steps = made.steps.select("step", "start_ps", "end_ps", "whole").rows()
        assert steps == [
            (5, 0, 110 * NS, True),
            (6, 110 * NS, 205 * NS, True),
            (7, 205 * NS, 400 * NS, False),
        ]

    @pytest.mark.parametrize("device", [None, 0])
    @pytest.mark.parametrize("second", [3, 2**31])
    def test_numbers_that_come_twice_or_are_no_steps_are_not_taken(
        self, device: int | None, second: int
    ) -> None:
        markers = [(device, step, 100 * k, 90) for k, step in enumerate((3, second, 4, 5))]
        made = timeline(recording(four_steps(), markers=markers))
        assert made.steps["step"].to_list() == [0, 1, 2, 3]
        assert "numbered from 0" in made.step_rule

    def test_a_profile_that_names_no_program_has_no_whole_step(self) -> None:
        made = timeline(recording([Span("k", 5, 10, module=None), Span("k", 40, 2, module=None)]))
        assert made.steps.select("step", "start_ps", "end_ps").rows() == [(0, 5 * NS, 42 * NS)]
        assert "steps are unknown" in made.step_rule
        assert not made.steps["whole"].any()

    def test_kernels_tell_the_markers_steps_apart_where_no_program_is_named(self) -> None:
        # The host has launched all before the first is done; two layers and a collective each.
        spans = [
            Span(name, 10 + step * 100 + at, dur, module=None)
            for step in range(4)
            for name, at, dur in (("gemm", 0, 30), ("gemm", 30, 30), ("nccl", 60, 20))
        ]
        markers = [(None, 7 + n, n * 2, 2) for n in range(4)]
        made = timeline(recording(spans, markers=markers))
        assert made.steps["step"].to_list() == [7, 8, 9, 10]
        assert "4 host markers 'train' (steps 7 to 10), separated by" in made.step_rule
        assert made.steps["start_ps"].to_list() == [(10 + n * 100) * NS for n in range(4)]
        assert made.steps["end_ps"].to_list() == [n * NS for n in (110, 210, 310, 390)]

    def test_kernels_that_do_not_divide_by_the_markers_are_one_step(self) -> None:
        spans = [Span("gemm", at * 10, 8, module=None) for at in range(7)]
        markers = [(None, n, n * 20, 20) for n in range(3)]
        made = timeline(recording(spans, markers=markers))
        assert made.steps["step"].to_list() == [0]


def marked(
    names: str, *, behind: int = 0, host: str = "host0", clock: int = 0, devices: int = 1
) -> Recording:
    """A marker of 100 ns for each letter, t(rain) or e(val), with a run of 80 ns in each.

    Runs come `behind` their markers by so many ns.
    """
    spans = [
        Span("fusion", clock + 100 * k + 10 + behind, 80, device, device, run=k)
        for k in range(len(names))
        for device in range(devices)
    ]
    markers = [(None, k, clock + 100 * k, 99) for k in range(len(names))]
    made = recording(spans, markers=markers, host=host)
    named = pl.Series("name", ["train" if letter == "t" else "eval" for letter in names])
    return replace(made, markers=made.markers.with_columns(named))


class TestMarkersAndRunsThatDoNotMatch:
    NAMES = "ttttteeettttteee"

    def test_runs_in_markers_of_another_name_are_in_no_step(self) -> None:
        made = timeline(marked(self.NAMES, devices=2))
        marks = "10 host markers 'train' (steps 0 to 4 and 8 to 12)"
        assert made.step_rule == f"{marks}, 1 run of jit_step in each"
        first = made.runs.filter(pl.col("device") == 1)["step"].to_list()
        assert first == [0, 1, 2, 3, 4, None, None, None, 8, 9, 10, 11, 12, None, None, None]
        lengths = made.steps.select((pl.col("end_ps") - pl.col("start_ps")) // NS).to_series()
        assert set(lengths) == {100}
        assert any("6 runs of jit_step outside" in n for n in made.notes)

    def test_so_they_are_where_the_numbers_would_match(self) -> None:
        made = timeline(marked("te" * 5 + "t"))
        assert made.runs["step"].to_list() == [0, None, 2, None, 4, None, 6, None, 8, None, 10]

    def test_each_host_is_matched_on_its_own_clock(self) -> None:
        made = timeline(marked(self.NAMES, host="a"), marked(self.NAMES, host="b", clock=7000))
        marks = "10 host markers 'train' (steps 0 to 4 and 8 to 12)"
        assert made.step_rule == f"{marks}, 1 run of jit_step in each"
        assert made.runs["step"].null_count() == 12

    def test_several_runs_in_a_marker_are_one_step(self) -> None:
        spans = [Span("fusion", 50 * k, 40, run=k) for k in range(11)]
        markers = [(None, k, 200 * k - 5, 199) for k in range(3)]
        made = timeline(recording(spans, markers=markers))
        marks = "3 host markers 'train' (steps 0 to 2)"
        assert made.step_rule == f"{marks}, 3 to 4 runs of jit_step in each"
        assert made.runs["step"].to_list() == [0] * 4 + [1] * 4 + [2] * 3

    def test_a_program_that_runs_behind_is_not_halved(self) -> None:
        made = timeline(marked(self.NAMES, behind=50))
        assert "16 runs of jit_step and 10 host markers 'train' (steps" in made.step_rule
        assert "do not match" in made.step_rule
        assert "numbered from 0" in made.step_rule
        assert made.runs["step"].to_list() == [*range(16)]
        assert any("each run" in note for note in made.notes)

    def test_what_the_host_does_in_a_marker_is_in_that_step_though_devices_run_behind(self) -> None:
        """The host is a step ahead, and waits in the marker of step 4: what it calls then is 4."""
        us = 1000
        starts = [0, 100, 200, 300, 900, 1000, 1100]
        begun = [-10, -5, 95, 195, 295, 895, 995]
        spans = [Span("fusion", at * us, 100 * us, run=k) for k, at in enumerate(starts)]
        lasts = [4 if k != 4 else 600 for k in range(7)]
        markers = [
            (None, k, (at + 20) * us, length * us)
            for k, (at, length) in enumerate(zip(begun, lasts, strict=True))
        ]
        made = timeline(
            recording([replace(it, start=it.start + 20 * us) for it in spans], markers=markers)
        )
        lengths = made.steps.select("step", us=(pl.col("end_ps") - pl.col("start_ps")) // (NS * us))
        assert dict(lengths.rows())[4] == 600
        assert dict(lengths.rows())[3] == 100

    def test_one_that_runs_behind_may_lack_its_first_and_last(self) -> None:
        late = marked("tttttttt", behind=50)
        cut = timeline(replace(late, spans=late.spans[1:-1]))
        assert "8 host markers 'train' (steps 0 to 7), 1 run of jit_step in each" in cut.step_rule
        assert "cannot be assigned" in cut.step_rule
        assert cut.steps["step"].to_list() == [0, 1, 2, 3, 4, 5]

    def test_one_that_runs_behind_has_the_markers_numbers_where_their_counts_agree(self) -> None:
        late = marked("eetttttttt", behind=50)
        made = timeline(replace(late, spans=late.spans[2:]))
        assert made.steps["step"].to_list() == [*range(2, 10)]

    def test_runs_launched_before_the_first_marker_are_not_given_its_number(self) -> None:
        late = marked("tttttttt", behind=50)
        made = timeline(
            replace(late, markers=late.markers.with_columns(pl.col("start_ps") + 90000))
        )
        assert "cannot be assigned" in made.step_rule

    def test_runs_in_the_queue_when_the_profile_began_are_earlier_steps(self) -> None:
        """The loop is two steps ahead, and waits before step 12: what it calls then runs then."""
        us = 1000
        starts = [*range(0, 6000, 1000), 8010, 9010]
        begun = [1, 2, 3, 4, 8000, 8001, 8002, 8003]
        spans = [Span("fusion", at * us, 900 * us, run=k) for k, at in enumerate(starts)]
        markers = [(None, 8 + k, at * us, us // 2) for k, at in enumerate(begun)]
        made = timeline(recording(spans, markers=markers))
        assert made.runs["step"].to_list() == [*range(6, 14)]
        assert "the first 2 steps" in made.step_rule
        first = made.steps.sort("step").row(0, named=True)
        assert (first["step"], first["start_ps"], first["end_ps"]) == (6, 0, 1000 * us * NS)

    @staticmethod
    def sharing(programs: str, numbers: Sequence[int]) -> Timeline:
        """Markers of one name with these numbers, each around a run of t(rain) or e(val)."""
        modules = {"t": "jit_train", "e": "jit_eval"}
        spans = [
            Span("fusion", 100 * k + 10, 80 if it == "t" else 40, run=k, module=modules[it])
            for k, it in enumerate(programs)
        ]
        markers = [(None, number, 100 * k, 99) for k, number in enumerate(numbers)]
        return timeline(recording(spans, markers=markers))

    @pytest.mark.parametrize("first", [0, 1000])
    def test_two_loops_whose_markers_have_one_name_are_told_apart(self, first: int) -> None:
        trained = [*range(first, first + 10)]
        made = self.sharing("ttttteeettttteee", [*trained[:5], 0, 1, 2, *trained[5:], 0, 1, 2])
        steps = made.runs.filter(pl.col("step").is_not_null())["step"].to_list()
        assert steps == trained
        assert made.programs[made.step_program or 0].name == "jit_train"
        assert "10 host markers 'train'" in made.step_rule
        assert "the 6 others of that name are of another loop" in made.step_rule
        lengths = made.steps.select((pl.col("end_ps") - pl.col("start_ps")) // NS).to_series()
        assert set(lengths) == {100}

    @pytest.mark.parametrize("programs", ["te" * 6, "tttte" * 3])
    def test_markers_of_one_loop_that_go_on_are_not_divided(self, programs: str) -> None:
        """Two networks in turn, or a step that is replaced by an evaluation."""
        made = self.sharing(programs, range(len(programs)))
        assert "another loop" not in made.step_rule

    def test_epochs_are_one_loop(self) -> None:
        made = self.sharing("t" * 10, [*range(5), *range(5)])
        assert "10 host markers" in made.step_rule
        assert "another loop" not in made.step_rule

    def test_markers_of_two_threads_are_told(self) -> None:
        spans = [Span("fusion", 100 * k + 10, 80, run=k) for k in range(8)]
        markers = [(None, k // 2, 100 * k, 180) for k in range(8)]
        assert any(
            "two threads" in note for note in timeline(recording(spans, markers=markers)).notes
        )
        apart = [(None, k, 100 * k, 99) for k in range(8)]
        assert not any("two threads" in n for n in timeline(recording(spans, markers=apart)).notes)

    def test_numbers_beyond_32_bits_do_not_repeat(self) -> None:
        spans = [Span("fusion", 100 * k + 10, 80, run=k) for k in range(5)]
        markers = [(None, 10**10 + k, 100 * k, 99) for k in range(5)]
        made = timeline(recording(spans, markers=markers))
        assert "exceed 32 bits" in made.step_rule
        assert made.runs["step"].to_list() == [*range(5)]


class TestHosts:
    @pytest.fixture
    def two(self) -> tuple[Recording, Recording]:
        """The second host's clock is 1,000 ns ahead; its devices reach the all-reduce later."""
        near = four_steps() + [Span("all-reduce", 100 * k + 82, 10, line=1) for k in range(4)]
        far = four_steps(start=1000)
        far += [Span("all-reduce", 100 * k + 1088, 4, line=1) for k in range(4)]
        return recording(near, host="near"), recording(far, host="far")

    def test_clocks_are_aligned_on_the_ends_of_shared_collectives(
        self, two: tuple[Recording, Recording]
    ) -> None:
        made = timeline(*two)
        assert [host.clock_offset_ps for host in made.hosts] == [0, 1000 * NS]
        assert made.notes[0].endswith(" +0.001 ms")
        starts = made.spans.join(
            made.ops.with_row_index("row").filter(pl.col("op") == "fusion"),
            left_on="op",
            right_on="row",
        )
        both = starts.group_by("device").agg(pl.col("start_ps").min() // NS).sort("device")
        assert both["start_ps"].to_list() == [0, 0]

    def test_programs_are_the_same_by_name_and_order(
        self, two: tuple[Recording, Recording]
    ) -> None:
        made = timeline(*two)
        assert [entry.name for entry in made.programs] == ["jit_step"]
        assert made.runs["index"].to_list() == [0, 1, 2, 3] * 2
        assert [device.host for device in made.devices] == [0, 1]

    def test_programs_with_one_id_are_told_apart_by_their_names(self) -> None:
        """JAX's compilation cache keeps the id that a program had where it was compiled."""
        threads = host()
        for turn in range(4):
            at = turn * 100 * US
            for op, start, module, run in [
                ("dot", at, "jit_train_step", 5 + turn),
                ("clamp", at + 40 * US, "jit_clip", 77 + turn),
            ]:
                cpu_op(
                    threads, "tf_XLA/1", op, start, 20 * US, module=(module, 31), run=run, device=0
                )
        programs = metadata(
            {
                ("jit_train_step", 24): hlo_proto("jit_train_step", {"dot": "dot"}),
                ("jit_clip", 31): hlo_proto("jit_clip", {"clamp": "clamp"}),
            }
        )
        profile = xspace(threads, programs)
        made = timeline(read_xplane(memoryview(profile), "vm.xplane.pb"))

        assert [entry.name for entry in made.programs] == ["jit_train_step", "jit_clip"]
        assert made.runs["program"].to_list() == [0, 1] * 4
        for index, entry in enumerate(made.programs):
            program = entry.hlo(0)
            assert program is not None
            assert program.name == made.programs[index].name

    def test_without_shared_collectives_the_clock_stays_unknown(self) -> None:
        made = timeline(
            recording(four_steps(), host="a"), recording(four_steps(start=50), host="b")
        )
        assert [host.clock_offset_ps for host in made.hosts] == [None, None]
        assert any("not be aligned" in note for note in made.notes)

    def test_uneven_runs_are_said(self) -> None:
        made = timeline(recording(four_steps(), host="a"), recording(four_steps()[:8], host="b"))
        assert any("ran 2 times" in note and " 4 times" in note for note in made.notes)


def test_frame_joins_what_is_known_of_a_span() -> None:
    row = timeline(recording(four_steps(), host="a")).frame().head(1).collect().row(0, named=True)
    assert row["op"] == "fusion"
    assert row["step"] == 0
    assert row["host"] == 0
    assert row["lane"] == "compute"


class TestKinship:
    def test_a_copy_is_pointed_out(self) -> None:
        made = timeline(recording(four_steps(), host="a"), recording(four_steps(), host="copy"))
        assert len(made.hosts) == 2
        assert made.notes[0].startswith("copy.made has ")
        assert "a.made" in made.notes[0]

    def test_profiles_without_a_common_program_are_warned_of(self) -> None:
        other = [Span("fusion", 100 * k, 50, module="jit_other") for k in range(3)]
        made = timeline(recording(four_steps(), host="a"), recording(other, host="b"))
        assert "different main programs" in made.notes[0]

    @pytest.mark.parametrize(("shared", "related"), [(8, True), (4, False)])
    def test_programs_of_one_name_with_other_ops_are_warned_of(
        self, shared: int, related: bool
    ) -> None:
        def host(name: str) -> Recording:
            ops = [f"fusion.{n}" if n < shared else f"{name}.{n}" for n in range(10)]
            spans = [Span(op, 100 * k + 5 * n, 4) for k in range(4) for n, op in enumerate(ops)]
            return recording(spans, host=name)

        notes = timeline(host("a"), host("b")).notes
        assert any("different main programs" in note for note in notes) is not related

    def test_a_host_that_saw_few_ops_ran_the_same_program(self) -> None:
        few = recording(four_steps()[:1], host="b")
        assert not any(
            "main programs" in note for note in timeline(recording(four_steps()), few).notes
        )

    def test_profiles_of_other_chips_without_a_common_program_are_refused(self) -> None:
        other = [Span("fusion", 100 * k, 50, module="jit_other") for k in range(3)]
        one, two = recording(four_steps(), host="a"), recording(other, host="b")
        chips = [replace(r.devices[0], chip=c) for r, c in ((one, "A100"), (two, "MI300X"))]
        with pytest.raises(InputError, match="programs differ") as caught:
            timeline(replace(one, devices=(chips[0],)), replace(two, devices=(chips[1],)))
        assert "A100 and MI300X" in str(caught.value)

    def test_devices_of_two_kinds_are_refused(self) -> None:
        one, other = recording(four_steps(), host="a"), recording(four_steps(start=7), host="b")
        tpu = replace(other, devices=(Device(ordinal=0, kind="tpu"),))
        with pytest.raises(InputError, match=r"gpu in a\.made, tpu in b\.made"):
            timeline(one, tpu)


class TestTurns:
    def test_run_ids_match_devices_that_saw_different_numbers_of_runs(self) -> None:
        # Device 1 joined after the first run.
        spans = [Span("fusion", 100 * k, 50, 0, 0, run=k) for k in range(4)]
        spans += [Span("fusion", 100 * k + 5, 50, 1, 1, run=k) for k in range(1, 4)]
        made = timeline(recording(spans))
        index = made.runs.select("device", "index").rows()
        assert index == [(0, 0), (0, 1), (0, 2), (0, 3), (1, 1), (1, 2), (1, 3)]

    def test_without_ids_runs_are_matched_from_the_last_on(self) -> None:
        spans = four_steps() + [replace(s, device=1, line=1) for s in four_steps()[4:]]
        made = timeline(recording(spans))
        assert made.runs.filter(pl.col("device") == 1)["index"].to_list() == [1, 2, 3]

    def test_a_tail_of_the_step_before_the_profile_is_no_run(self) -> None:
        whole = [Span("fusion", 100 * k + 10 * op, 8, run=k) for k in (1, 2, 3) for op in range(6)]
        made = timeline(recording([Span("fusion", 60, 8, run=0), *whole]))
        assert len(made.runs) == 3
        assert made.spans["run"].to_list()[0] is None


def test_a_program_compiled_anew_goes_on_with_the_same_steps() -> None:
    spans = [Span("fusion", 100 * k, 50, run=k, module="jit_f") for k in range(3)]
    spans += [Span("fusion.1", 300 + 100 * k, 50, run=3 + k, module="jit_f") for k in range(3)]
    made = recording(spans, markers=[(None, k, 100 * k, 60) for k in range(6)])
    keys = pl.Series("program_key", ["1", "2"])
    built = timeline(replace(made, ops=made.ops.with_columns(keys)))
    assert built.step_rule == "6 host markers 'train' (steps 0 to 5), 1 run of jit_f in each"
    assert built.runs["step"].to_list() == [0, 1, 2, 3, 4, 5]
    assert any("2 programs named jit_f ran" in note for note in built.notes)


def test_a_step_that_is_compiled_begins_with_its_marker() -> None:
    """Steps 2 and 4 run other builds, after a compile within their markers."""
    starts = [10, 110, 280, 310, 480, 510]
    spans = [
        Span(f"fusion.{k if k in (2, 4) else 0}", start, 15, run=k, module="jit_f")
        for k, start in enumerate(starts)
    ]
    made = recording(spans, markers=[(None, k, 100 * k, 99) for k in range(6)])
    keys = pl.Series("program_key", ["0", "2", "4"])
    built = timeline(replace(made, ops=made.ops.with_columns(keys)))
    starts = built.steps.sort("start_ps")["start_ps"].to_list()
    assert [start // NS for start in starts[1:]] == [100, 200, 300, 400, 500]


def test_gradient_accumulation_without_markers_is_pointed_out() -> None:
    spans = [Span("fusion", 50 * k, 40, run=k, module="jit_micro") for k in range(8)]
    spans += [Span("update", 200 * k + 190, 5, run=9 + k, module="jit_apply") for k in range(2)]
    made = timeline(recording(spans))
    assert any("jit_micro runs 4 times" in note for note in made.notes)


@pytest.mark.parametrize("first", [0, 1, 3])
def test_gradient_accumulation_is_seen_where_the_profile_begins_within_a_step(first: int) -> None:
    runs = range(first, 14)
    spans = [Span("fusion", 50 * k, 40, run=k, module="jit_micro") for k in runs]
    spans += [
        Span("update", 200 * k + 190, 5, run=20 + k, module="jit_apply")
        for k in range(4)
        if 200 * k + 190 < 50 * 14
    ]
    made = timeline(recording(spans))
    assert any("jit_micro runs 4 times" in note for note in made.notes)


def test_a_program_that_runs_now_and_then_makes_no_accumulation() -> None:
    spans = [Span("fusion", 50 * k, 40, run=k, module="jit_train") for k in range(12)]
    spans += [
        Span("loss", 50 * k + 42, 5, run=20 + k, module="jit_evaluate") for k in (1, 4, 9, 11)
    ]
    made = timeline(recording(spans))
    assert not any("jit_evaluate" in note for note in made.notes)


class TestMarks:
    """Runs of a program whose schedule is known but whose runs nobody counted: a, b, c, d."""

    HLO = """\
HloModule jit_step, is_scheduled=true

ENTRY %main (p: f32[8]) -> f32[8] {
  %p = f32[8]{0} parameter(0)
  %a = f32[8]{0} negate(%p)
  %b = f32[8]{0} negate(%a)
  %c = f32[8]{0} negate(%b)
  ROOT %d = f32[8]{0} negate(%c)
}
"""

    def made(self, spans: list[Span]) -> Timeline:
        programs = {"jit_step": EmbeddedProgram("jit_step", self.HLO.encode)}
        return timeline(recording(spans, programs=programs))

    def step(self, start: int) -> list[Span]:
        return [Span(op, start + 20 * place, 10) for place, op in enumerate("abcd")]

    @pytest.mark.parametrize(
        ("keys", "op", "found"),
        [(["24"], "d", True), (["24", "25"], "d", False), (["24"], "another", False)],
    )
    def test_hlo_under_another_key_is_that_of_the_only_program_with_these_ops(
        self, keys: list[str], op: str, found: bool
    ) -> None:
        # as on CPU devices, of a program that JAX's compilation cache had
        programs = {key: EmbeddedProgram("jit_step", self.HLO.encode) for key in keys}
        made = timeline(recording([*self.step(0), Span(op, 90, 5)], programs=programs))
        assert (made.programs[0].hlo() is not None) is found

    def test_an_op_that_launches_two_kernels_makes_no_more_runs(self) -> None:
        spans = [span for start in range(0, 400, 100) for span in self.step(start)]
        spans += [Span("b", start + 32, 5) for start in range(0, 400, 100)]
        assert runs(self.made(spans)) == [(0, k, 100 * k, 100 * k + 70) for k in range(4)]

    def test_a_first_run_cut_in_the_middle_shifts_nothing(self) -> None:
        spans = self.step(-100)[2:] + [s for at in range(0, 400, 100) for s in self.step(at)]
        assert runs(self.made(spans)) == [(0, k, 100 * k, 100 * k + 70) for k in range(4)]

    def test_neither_does_a_last_one(self) -> None:
        spans = [s for at in range(0, 400, 100) for s in self.step(at)] + self.step(400)[:2]
        assert [run[2] for run in runs(self.made(spans))] == [0, 100, 200, 300, 400]

    def test_what_starts_early_on_another_stream_belongs_to_its_run(self) -> None:
        spans = [s for at in range(0, 400, 100) for s in self.step(at)]
        spans = [replace(s, start=s.start - 30, line=1) if s.op == "c" else s for s in spans]
        spans = [replace(s, start=s.start - 15) if s.op == "c" else s for s in spans]
        assert [run[2] for run in runs(self.made(spans))] == [-5, 95, 195, 295]


PAGED = """\
HloModule jit_step, is_scheduled=true

ENTRY %main (q: bf16[1024,128], pages: bf16[7007,64,128]) -> bf16[7007,64,128] {
  %q = bf16[1024,128] parameter(0)
  %pages = bf16[7007,64,128] parameter(1)
  %cast = f32[1024,128] convert(%q)
  ROOT %RPA = bf16[7007,64,128] custom-call(%q, %pages), custom_call_target="tpu_custom_call",
    output_to_operand_aliasing={{}: (1, {})}
}
"""


def test_bytes_of_a_kernel_written_by_hand_are_unknown_as_it_may_touch_few_of_its_operands() -> (
    None
):
    program = {"jit_step": EmbeddedProgram("jit_step", PAGED.encode)}
    made = timeline(recording([Span("cast", 0, 10), Span("RPA", 10, 10)], programs=program))
    moved = dict(made.ops.select("op", "bytes_accessed").rows())
    assert moved == {"cast": (2 + 4) * 1024 * 128, "RPA": None}


def test_what_a_timeline_says(golden: Golden) -> None:
    """Its rule of steps and its notes."""
    names = TestMarkersAndRunsThatDoNotMatch.NAMES
    four, late = recording(four_steps(), host="a"), marked("tttttttt", behind=50)
    micro = [Span("fusion", 50 * k, 40, run=k, module="jit_micro") for k in range(8)]
    apply = [Span("update", 200 * k + 190, 5, run=9 + k, module="jit_apply") for k in range(2)]
    other = [Span("fusion", 100 * k, 50, module="jit_other") for k in range(3)]
    unnamed = [Span("gemm", 10 * k, 8, module=None) for k in range(8)]
    warming = [Span("fusion", start, 20) for start in (0, 100, 300, 400, 500, 600)]
    cut = [Span(f"op.{at}", 100 * k + 10 * at, 8, run=k) for k in (0, 1) for at in range(6)][2:]
    made = {
        "four steps": timeline(four),
        "a beginning that was cut off": timeline(recording(cut)),
        "a step of warm-up": timeline(recording(warming)),
        "markers on the devices": timeline(
            recording(four_steps(), markers=[(0, 5, 0, 80), (0, 6, 110, 95), (0, 7, 205, 195)])
        ),
        "numbers that come twice": timeline(
            recording(four_steps(), markers=[(0, k % 2, 100 * k, 90) for k in range(4)])
        ),
        "no program is named": timeline(recording(unnamed)),
        "kernels tell the markers' steps apart": timeline(
            recording(unnamed, markers=[(None, k, k * 20, 20) for k in range(4)])
        ),
        "training and evaluation are marked": timeline(marked(names, devices=2)),
        "runs behind their markers": timeline(marked(names, behind=50)),
        "runs behind, without the first and the last": timeline(
            replace(late, spans=late.spans[1:-1])
        ),
        "no collective is shared": timeline(four, recording(four_steps(start=50), host="b")),
        "uneven runs": timeline(four, recording(four_steps()[:8], host="b")),
        "a copy": timeline(four, recording(four_steps(), host="copy")),
        "no program in common": timeline(four, recording(other, host="b")),
        "gradient accumulation": timeline(recording([*micro, *apply])),
    }
    tpu = replace(recording(other, host="b"), devices=(Device(ordinal=0, kind="tpu"),))
    golden(
        "assemble.txt",
        cases(
            {name: "\n".join([f"steps: {it.step_rule}", *it.notes]) for name, it in made.items()}
            | {"devices of two kinds": refusal(lambda: timeline(four, tpu))}
        ),
    )


@pytest.mark.parametrize(
    ("planes", "told"),
    [
        ([2], "kernels of 1 of the 2 devices that the program runs on are missing"),
        ([1], "profiles of 1 of 2 hosts were read"),
    ],
)
def test_devices_without_recorded_work_are_no_missing_hosts(planes: list[int], told: str) -> None:
    """The program runs on two devices, and kernels of one are recorded."""
    notes = absent_hosts(straight(), [Device(ordinal=0, kind="gpu")], planes, ["host0"])
    assert told in notes[0]
