"""What a profile gives to a program: shares, misnamed collectives, costs that can't be right."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from counterpoint.core.basis import Unknown
from counterpoint.core.errors import InputError
from counterpoint.hlo.category import Category
from counterpoint.hlo.model.program import Program
from counterpoint.hlo.reader import read_program
from counterpoint.hlo.text_reader import program_from_text
from counterpoint.pgle.checking.check import Coverage, CoveredPart, check_profile
from counterpoint.pgle.checking.verdict import judge
from counterpoint.pgle.lookups import xla_lookups
from counterpoint.pgle.making.samples import MeasuredTimes
from counterpoint.pgle.profiles.profile import InstructionCost, Latency, Profile
from counterpoint.pgle.staleness import ProfileFit
from counterpoint.pgle.unused_costs import UnusedReason
from golden_files import Golden, cases

PROGRAMS = Path(__file__).parent.parent / "hlo" / "data"
OTHER = "0" * 32


@pytest.fixture(scope="session")
def step() -> Program:
    """A sharded training step, compiled for eight H100."""
    return read_program(PROGRAMS / "gpu_step.hlo.pb.xz")


def named(program: Program) -> list[str]:
    return [it.names[0] for it in xla_lookups(program)]


def flat(names: list[str], us: float = 10.0, fingerprint: str | None = None) -> Profile:
    return Profile(tuple(InstructionCost(name, us, fingerprint) for name in names))


def whys(coverage: Coverage) -> dict[str, UnusedReason]:
    return {it.name: it.why for it in coverage.extra}


def test_a_full_profile_covers_all(step: Program) -> None:
    coverage = check_profile(flat(named(step), fingerprint=step.fingerprint), step)
    assert coverage.instructions.share == coverage.collectives.share == 1.0
    assert coverage.collectives.whole == 6
    assert coverage.missing == coverage.extra == coverage.doubts == ()
    assert coverage.staleness.fit is ProfileFit.FITS
    assert judge(coverage).passed


def test_what_is_missing_has_its_category_and_source_line(step: Program) -> None:
    coverage = check_profile(flat(["custom-call.3"]), step)
    gone = {it.name: it for it in coverage.missing}
    assert "custom-call.3" not in gone
    start = gone["all-gather-start"]
    assert start.category is Category.COLLECTIVE
    assert start.source is not None
    assert start.source.startswith("make_fixtures.py:")
    assert start.executions == 4
    assert coverage.instructions == CoveredPart(1, len(named(step)))


def test_collectives_named_by_anything_but_their_start_are_told_their_name(step: Program) -> None:
    names = ["all-gather", "all-reduce-done.1", "reduce-scatter"]
    coverage = check_profile(flat(names), step)
    assert {it.name: it.meant for it in coverage.extra} == {
        "all-gather": "all-gather-start",
        "all-reduce-done.1": "all-reduce-start.1",
        "reduce-scatter": "reduce-scatter-start",
    }
    assert set(whys(coverage).values()) == {UnusedReason.COLLECTIVE}
    assert coverage.collectives.found == 0
    assert any("all-gather-start" in it for it in judge(coverage).reasons)


def test_a_collective_may_go_by_the_instruction_inside_its_start(step: Program) -> None:
    inner = next(inner for inner, start in step.wrapped.items() if start == "reduce-scatter-start")
    coverage = check_profile(flat([inner]), step)
    assert coverage.collectives.found == 1
    assert coverage.extra == ()


def test_names_in_vain_are_told_apart(step: Program) -> None:
    inside = next(
        it.name for it in step.instructions if it.computation.startswith("fused_") and it.op_name
    )
    profile = Profile(
        (
            InstructionCost("fusion.777", 1.0),
            InstructionCost("copy.11", 1.0),  # used, though not counted
            InstructionCost("copy.41", 1.0),  # created after scheduling
            InstructionCost(inside, 1.0),
            InstructionCost("custom-call.3", 1.0, OTHER),
        )
    )
    assert whys(check_profile(profile, step)) == {
        "fusion.777": UnusedReason.ABSENT,
        "copy.41": UnusedReason.NOT_ASKED,
        inside: UnusedReason.NOT_ASKED,
        "custom-call.3": UnusedReason.OTHER_MODULE,
    }


def test_names_of_another_fingerprint_cover_nothing(step: Program) -> None:
    coverage = check_profile(flat(named(step), fingerprint=OTHER), step)
    assert coverage.instructions.found == 0
    assert coverage.staleness.fit is ProfileFit.FOREIGN
    assert "100% of names match" in coverage.staleness.reason
    assert not judge(coverage, min_coverage=0).passed


def test_the_last_of_duplicates_counts(step: Program) -> None:
    profile = Profile(
        (InstructionCost("custom-call.3", 1.0), InstructionCost("custom-call.3", 7.0))
    )
    coverage = check_profile(profile, step)
    assert coverage.duplicates == ("custom-call.3",)
    assert [it.us for it in coverage.answers if it.name == "custom-call.3"] == [7.0]
    assert any("custom-call.3" in remark for remark in judge(coverage).remarks)


@pytest.mark.parametrize(("us", "doubted"), [(0.0, True), (1e8, True), (10.0, False)])
def test_costs_that_cannot_be_right_are_doubted(step: Program, us: float, doubted: bool) -> None:
    coverage = check_profile(flat(["custom-call.3"], us), step)
    assert [it.name for it in coverage.doubts] == (["custom-call.3"] if doubted else [])


def test_a_cost_far_from_what_was_measured_is_doubted_but_no_waiting_collective(
    step: Program,
) -> None:
    measured = MeasuredTimes({"custom-call.3": 4000.0, "all-gather-start": 4000.0}, "a test")
    coverage = check_profile(flat(["custom-call.3", "all-gather-start"]), step, measured)
    assert [it.name for it in coverage.doubts] == ["custom-call.3"]
    assert "1000" in coverage.doubts[0].why  # four executions in the loop


def test_time_weighs_instructions_by_what_was_measured(step: Program) -> None:
    measured = MeasuredTimes(
        {"custom-call.3": 900.0, "all-gather-start": 60.0, "loop_add_fusion": 40.0, "copy.41": 5e3},
        "a test",
    )
    coverage = check_profile(flat(["custom-call.3", "loop_add_fusion"]), step, measured)
    assert coverage.time == CoveredPart(940.0, 1000.0)
    assert coverage.missing[0].name == "all-gather-start"
    assert coverage.missing[0].measured_us == 60.0


def test_time_of_clones_counts_with_what_they_are_clones_of(step: Program) -> None:
    measured = MeasuredTimes({"loop_add_fusion.remat": 30.0, "loop_add_fusion": 10.0}, "a test")
    coverage = check_profile(flat(["loop_add_fusion"]), step, measured)
    assert coverage.time == CoveredPart(40.0, 40.0)


def test_without_times_the_share_of_time_is_unknown_and_not_zero(step: Program) -> None:
    coverage = check_profile(flat(named(step)), step)
    assert isinstance(coverage.time, Unknown)
    assert judge(coverage).passed
    refused = judge(coverage, min_time=0.5)
    assert not refused.passed
    assert "unknown" in refused.reasons[0]
    assert "--program" in refused.next


def test_times_of_another_program_are_unknown(step: Program) -> None:
    coverage = check_profile(flat(named(step)), step, MeasuredTimes({"fusion.777": 3.0}, "a test"))
    assert isinstance(coverage.time, Unknown)


def test_judgements_name_each_threshold_that_is_missed(step: Program) -> None:
    measured = MeasuredTimes({"custom-call.3": 10.0, "all-gather-start": 90.0}, "a test")
    coverage = check_profile(flat(["custom-call.3"]), step, measured)
    reasons = judge(coverage).reasons
    assert len(reasons) == 3
    assert "1 of 39 instructions" in reasons[0]
    assert "0 of 6 collectives" in reasons[1]
    assert "10%" in reasons[2]
    assert judge(coverage, min_coverage=0.0, min_time=0.1).passed


def test_latencies_are_told_to_be_left_out(step: Program) -> None:
    profile = replace(flat(named(step)), latencies=(Latency("a", "b", 1.0),))
    assert any("one latency" in it for it in judge(check_profile(profile, step)).remarks)


def test_a_program_that_is_not_scheduled_is_refused(step: Program) -> None:
    with pytest.raises(InputError, match="not scheduled"):
        check_profile(flat(named(step)), replace(step, is_scheduled=False))


def test_a_program_without_collectives_passes_and_says_so(step: Program) -> None:
    body = step.computations[step.entry]
    alone = replace(
        step,
        computations={
            step.entry: replace(
                body,
                instructions=tuple(it for it in body.instructions if it.opcode == "parameter"),
            )
        },
        answers={},
    )
    judgment = judge(check_profile(flat(["x"]), alone))
    assert judgment.passed
    assert any("no collectives" in it for it in judgment.remarks)


def test_a_name_given_after_scheduling_is_told_the_one_that_xla_asks_for() -> None:
    """As from 0.12 on: a collective that nothing runs beside is made plain, under a new name."""
    program = program_from_text(
        "HloModule test, is_scheduled=true\n\n"
        "ENTRY %main (p: f32[8]) -> f32[32] {\n"
        '  %p = f32[8] parameter(0), metadata={scheduling_name="p"}\n'
        "  ROOT %all-gather.10 = f32[32] all-gather(%p), replica_groups={{0,1,2,3}}, "
        'dimensions={0}, metadata={scheduling_name="all-gather-start"}\n}\n'
    )
    coverage = check_profile(flat(["all-gather.10"]), program)
    assert [it.name for it in coverage.missing] == ["all-gather-start"]
    assert [(it.why, it.meant) for it in coverage.extra] == [
        (UnusedReason.RENAMED, "all-gather-start")
    ]
    assert "all-gather.10 should be all-gather-start" in judge(coverage).reasons[1]
    assert check_profile(flat(["all-gather-start"]), program).collectives == CoveredPart(1, 1)
    measured = MeasuredTimes({"all-gather.10": 40.0}, "a test")
    assert check_profile(flat(["all-gather-start"]), program, measured).time == CoveredPart(
        40.0, 40.0
    )


def test_how_a_judgment_reads(golden: Golden, step: Program) -> None:
    measured = MeasuredTimes({"custom-call.3": 10.0, "all-gather-start": 90.0}, "a test")
    whole = flat(named(step))
    with_latency = replace(whole, latencies=(Latency("a", "b", 1.0),))
    judgments = {
        "all that is asked for": judge(check_profile(whole, step)),
        "a latency": judge(check_profile(with_latency, step)),
        "a time where none was measured": judge(check_profile(whole, step), min_time=0.5),
        "little of everything": judge(check_profile(flat(["custom-call.3"]), step, measured)),
        "collectives under other names": judge(
            check_profile(flat(["all-gather", "all-reduce-done.1", "reduce-scatter"]), step)
        ),
    }
    golden(
        "judgments.txt",
        cases(
            {
                name: "\n".join(
                    [
                        "passed" if it.passed else "not passed",
                        *(f"reason: {reason}" for reason in it.reasons),
                        *(f"remark: {remark}" for remark in it.remarks),
                        f"next: {it.next}",
                    ]
                )
                for name, it in judgments.items()
            }
        ),
    )
