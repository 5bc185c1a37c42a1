"""STEP303: functions are compiled again while training runs."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest
from host_side import Event, case, made, most, recorded
from host_side import Run as Execution

from counterpoint.core.basis import Unknown
from counterpoint.diagnose.explanation import explain
from counterpoint.diagnose.finding import Finding
from counterpoint.diagnose.host import builds
from counterpoint.diagnose.rules import recompilation, slow_compile
from counterpoint.diagnose.step_data import Context
from counterpoint.report.explain.findings import largest_loss
from counterpoint.runs.run import Compile, Rank, Run, StepStart
from counterpoint.timeline.hosts.assemble import assemble
from counterpoint.timeline.model import EmbeddedProgram, ProgramEntry, Timeline
from counterpoint.timeline.recording import Recording
from golden_sections import Said
from recorded_runs import ENDED, run_of

STEP = 10_000  # us
COMPILE = Event("XlaCompile:#module=jit_step,program_id=7#", 3 * STEP + 100, 5_000)

HLO = """\
HloModule jit_step, is_scheduled=true

ENTRY %main (p: f32[SIZE]) -> f32[SIZE] {
  %p = f32[SIZE]{0} parameter(0)
  ROOT %fusion.0 = f32[SIZE]{0} negate(%p)
}
"""


def training(*events: Event, compiling: int = 5_000) -> Timeline:
    """Ten steps of 10 ms; the fourth, in which the host compiles, takes 15."""
    starts = [n * STEP + (compiling if n > 3 else 0) for n in range(11)]
    runs = [Execution(start, STEP) for start in starts[:-1]]
    steps = [(one, two - one) for one, two in pairwise(starts)]
    calls = [Event("PjitFunction(step)", start - 50, 40) for start in starts]
    return made(runs, [*calls, *events], steps)


def found(timeline: Timeline, run: Run | None = None) -> list[Finding]:
    return list(recompilation.check(case(timeline, Context(run=run))))


def a_run(*compiles: Compile) -> Run:
    """Twenty steps, a second each, from 100 s on."""
    steps = tuple(StepStart(n, 100.0 + n, "annotation") for n in range(20))
    rank = Rank(0, "host0", Path("rank0"), ENDED, steps=steps, compiles=compiles)
    return run_of(rank)


FIRST = Compile("jit_step", 30.0, "backend", 60.0)
AGAIN = Compile("jit_step", 20.0, "backend", 112.5)


def test_a_compile_within_a_step(said: Said) -> None:
    (finding,) = found(training(COMPILE))
    assert most(finding) == pytest.approx(5.0 / 8)  # the first and the last step do not count
    said(finding)


def test_a_step_that_is_asked_for_has_its_own_compiles_alone() -> None:
    """Also where it counts for no median, as the first of a profile."""
    first = replace(COMPILE, start=100, length=8_000)
    for step, compiling in ((0, 8.0), (3, 5.0)):
        explanation = explain(training(first, COMPILE), step=step)
        (finding,) = [it for it in explanation.findings if it.code == "STEP303"]
        assert most(finding) == pytest.approx(compiling)
        assert explanation.hidden is None
        assert ("no figure contains" in " ".join(explanation.notes)) == (step != 0)
    without = explain(training(first, COMPILE), step=5)
    assert "STEP303" not in [it.code for it in without.findings]


def test_every_step_compiles(said: Said) -> None:
    """Then no step tells how long it takes without: it is the compiling."""
    each = [replace(COMPILE, start=n * STEP + (5_000 if n > 3 else 0) + 100) for n in range(10)]
    (finding,) = found(training(*each))
    assert most(finding) == pytest.approx(5.0)
    said(finding)


def every_step(*names: tuple[str, int, int]) -> list[Event]:
    """These events in each step that compiles: names, starts from its beginning, and lengths."""
    return [
        Event(name, n * STEP + (5_000 if n > 3 else 0) + start, length)
        for n in range(10)
        for name, start, length in names
    ]


COMPILING = (("PjitFunction(train_step)", 10, 6_000), ("backend_compile", 900, 5_000))


def test_a_function_that_is_made_in_each_step_is_told(said: Said) -> None:
    (finding,) = found(training(*every_step(*COMPILING, ("$api.py:194 jit", 5, 2))))
    assert "new function" in finding.detail
    said(finding)


def test_a_program_from_the_compilation_cache_is_traced_not_compiled(said: Said) -> None:
    cached = ("$pxla.py:954 lower_sharding_computation", "$compiler.py:769 _cache_read")
    lowered = ((cached[0], 900, 4_000), (cached[1], 5_000, 500), ("$api.py:194 jit", 5, 2))
    (finding,) = found(
        training(*every_step(COMPILING[0], ("lower_jaxpr_to_module", 900, 4_000), *lowered))
    )
    assert "compiles" not in finding.title
    assert "nothing is compiled" in finding.detail
    said(finding)


LAMBDA = """HloModule jit__lambda, is_scheduled=true

FileNames
1 "/home/me/train.py"
2 "/home/me/models.py"

FunctionNames
1 "train"
2 "train.<locals>.<lambda>"
3 "loss_of"

FileLocations
1 {file_name_id=1 function_name_id=1 line=90 end_line=90 column=1 end_column=2}
2 {file_name_id=1 function_name_id=2 line=40 end_line=40 column=1 end_column=2}
3 {file_name_id=2 function_name_id=3 line=27 end_line=27 column=1 end_column=2}

StackFrames
1 {file_location_id=1 parent_frame_id=0}
2 {file_location_id=2 parent_frame_id=1}
3 {file_location_id=3 parent_frame_id=2}

ENTRY %main (p: f32[8]) -> f32[8] {
  %p = f32[8]{0} parameter(0)
  ROOT %fusion.0 = f32[8]{0} negate(%p), metadata={op_name="jit(<lambda>)/neg" stack_frame_id=3}
}
"""


def test_a_lambda_is_told_by_its_line(said: Said) -> None:
    """Many have that name; what it calls lies elsewhere."""
    timeline = training(
        *every_step(("PjitFunction(<lambda>)", 10, 6_000), ("backend_compile", 900, 5_000))
    )
    (finding,) = found(timeline)
    assert finding.detail.startswith("<lambda> is compiled")
    build = EmbeddedProgram("jit__lambda", LAMBDA.encode)
    known = ProgramEntry(name="jit__lambda", variants={0: build})
    (finding,) = found(replace(timeline, programs=(*timeline.programs, known)))
    assert finding.detail.startswith("<lambda> (/home/me/train.py:40) is compiled")
    said(finding)


def test_only_the_outermost_function_of_a_call_is_named() -> None:
    traced = [("PjitFunction(matmul)", 100, 700), ("PjitFunction(tanh)", 950, 300)]
    (finding,) = found(training(*every_step(*COMPILING, *traced)))
    assert [it.what for it in finding.evidence] == ["train_step"]


def test_a_compile_that_the_next_step_waits_for_is_in_one_step(said: Said) -> None:
    (finding,) = found(training(replace(COMPILE, start=3 * STEP + 11_000)))
    assert "within 1 of" in finding.title
    said(finding)


def test_only_compiles_of_the_profiles_first_steps_may_be_start_up() -> None:
    assert found(training(replace(COMPILE, start=STEP + 100)))[0].doubt
    assert found(training(COMPILE))[0].doubt is None


def test_the_function_is_named_by_the_call_around_it() -> None:
    call = Event("PjitFunction(evaluate)", 3 * STEP, 6_000)
    compile_ = Event("backend_compile", 3 * STEP + 100, 5_000)
    both = training(call, compile_)
    assert "evaluate" in found(both)[0].detail


def test_a_look_into_the_cache_is_no_compile() -> None:
    assert not found(training(replace(COMPILE, length=900)))


def test_a_compile_before_the_steps_is_none_in_them() -> None:
    assert not found(training(replace(COMPILE, start=-9_000)))


def test_shapes_that_differ_are_named(said: Said) -> None:
    (finding,) = found(assemble([two_builds([COMPILE])], ["made"]))
    assert "f32[256], then f32[200]" in finding.detail
    said(finding)


def two_builds(events: list[Event]) -> Recording:
    """Eight runs of one build of the step, and one of another."""
    runs = [Execution(n * STEP, STEP) for n in range(8)]
    other = [Execution(8 * STEP, 1, program="jit_step")]
    recording = recorded([*runs, *other], events, [(n * STEP, STEP) for n in range(8)])
    return replace(
        recording,
        ops=recording.ops.with_columns(
            program_key=pl.lit("a"),
        ),
        executions=recording.executions.with_columns(
            program_key=pl.when(pl.col("start_ps") < 8 * STEP * 10**6)
            .then(pl.lit("a"))
            .otherwise(pl.lit("b"))
        ),
        programs={
            key: EmbeddedProgram("jit_step", HLO.replace("SIZE", size).encode)
            for key, size in (("a", "256"), ("b", "200"))
        },
    )


def test_a_run_that_compiled_its_step_again(said: Said) -> None:
    """A median step of 10 ms compiles nothing: the saving is one of the Run's mean step."""
    again = [replace(AGAIN, seconds=4.0, at_s=110.0 + 5 * n) for n in range(2)]
    (finding,) = found(training(), a_run(FIRST, *again))
    assert most(finding) == pytest.approx(8_000 / 16)
    assert finding.mean_step_ms == pytest.approx(1_000)
    said(finding)


def test_compiles_in_few_long_steps_are_the_largest_loss() -> None:
    """Longer per step than the median step lasts, and never more than the mean step."""
    explanation = explain(training(replace(COMPILE, length=900_000), compiling=900_000))
    first = explanation.findings[0]
    assert first.code == "STEP303"
    assert explanation.steps.median_ms is not None
    assert first.mean_step_ms is not None
    assert explanation.steps.median_ms < most(first) < first.mean_step_ms
    assert "STEP303" in largest_loss(explanation, "the step")
    assert "of the mean step" in largest_loss(explanation, "the step")


def test_a_run_whose_compiles_are_shorter_than_its_steps() -> None:
    each = [replace(AGAIN, seconds=0.05, at_s=110.0 + n) for n in range(2)]
    (finding,) = found(training(), a_run(FIRST, *each))
    assert most(finding) == pytest.approx(100 / 16)  # the steps after the first three


def test_a_run_without_times_of_steps_tells_what_it_compiled_again() -> None:
    each = [replace(AGAIN, seconds=0.2, at_s=110.0 + n) for n in range(12)]
    rank = Rank(0, "host0", Path("rank0"), ENDED, compiles=(FIRST, *each))
    (finding,) = found(training(), run_of(rank))
    assert finding.title.startswith("10 compiles")  # the first three may be the first steps'
    assert isinstance(finding.saves_ms, Unknown)
    assert "2.00 s" in finding.saves_ms.reason


def test_the_headline_tells_what_a_median_step_hides() -> None:
    late = [replace(AGAIN, seconds=0.5, at_s=110.0 + n) for n in range(8)]
    assert explain(training(), run=a_run(FIRST)).hidden is None
    told = explain(training(), run=a_run(FIRST, *late)).hidden
    assert told is not None
    assert "8 compiles" in told
    assert "4.0 of 16.0 s" in told
    assert "1,000.0 ms on average" in told
    few = explain(training(replace(COMPILE, length=30_000))).hidden
    assert few is None or "1 of 8 steps" in few


def test_the_headline_does_not_say_that_a_median_step_compiles_nothing_where_each_does() -> None:
    each = [replace(COMPILE, start=n * STEP + (5_000 if n > 3 else 0) + 100) for n in range(10)]
    late = [replace(AGAIN, seconds=0.9, at_s=104.0 + n) for n in range(16)]
    assert explain(training(*each), run=a_run(FIRST, *late)).hidden is None


@pytest.mark.parametrize(("seconds", "count"), [(40.0, 0), (70.0, 1)])
def test_more_than_a_minute_of_compiling_is_a_finding(seconds: float, count: int) -> None:
    compiles = (replace(FIRST, seconds=seconds), replace(FIRST, name="jit_init", seconds=5.0))
    context = Context(run=a_run(*compiles))
    findings = list(slow_compile.check(case(training(), context)))
    assert len(findings) == count
    for finding in findings:
        assert isinstance(finding.saves_ms, Unknown)
        assert "75.0 s" in finding.title
        assert "jit_step, 70.0 s" in finding.detail


def test_a_second_form_of_the_step_is_compiled_once_and_costs_nothing_per_step(said: Said) -> None:
    (finding,) = found(training(), a_run(FIRST, AGAIN))
    assert isinstance(finding.saves_ms, Unknown)
    assert "20.00 s" in finding.saves_ms.reason
    said(finding)


@pytest.mark.parametrize(
    "compiles",
    [
        (FIRST,),
        (FIRST, replace(AGAIN, name="jit_evaluate")),
        (FIRST, replace(AGAIN, kind="cache_hit")),
    ],
    ids=["once", "another function", "from the cache"],
)
def test_runs_that_did_not(compiles: tuple[Compile, ...]) -> None:
    assert not found(training(), a_run(*compiles))


LOWERED = """\
module @jit_step attributes {mhlo.num_partitions = 4 : i32} {
  func.func public @main(ARGUMENTS) -> (tensor<f32> {jax.result_info = "result"}) {
  }
}
#loc1 = loc("batch")
"""
FREE = "tensor<8x4xf32> loc(\"params['w']\")"
PLACED = FREE.replace(" loc", ' {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>} loc')
MANY = FREE.replace(" loc", " {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>} loc")
GSPMD = FREE.replace(" loc", ' {mhlo.sharding = "{devices=[4,1]<=[4]}"} loc')
BATCH = "tensor<2xi32> {tf.aliasing_output = 0 : i32} loc(#loc1)"
SHORT = "tensor<1xi32> loc(#loc1)"


def with_builds(path: Path, *signatures: tuple[str, ...]) -> Run:
    """A Run whose step was compiled within its first steps, and what JAX lowered."""
    for number, given in enumerate(signatures):
        text = ", ".join(f"%arg{at}: {one}" for at, one in enumerate(given))
        name = f"jax_ir{number:04}_jit_step_compile.mlir"
        (path / name).write_text(LOWERED.replace("ARGUMENTS", text))
    run = a_run(FIRST, replace(AGAIN, at_s=101.5, where="train.py:7"))
    return replace(run, ranks=(replace(run.ranks[0], ir=path),))


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        ((FREE, BATCH), (PLACED, BATCH), "argument 0 (params['w'], 8x4xf32)"),
        ((PLACED, BATCH), (MANY, BATCH), "P('data', None) to P()"),
        ((FREE, BATCH), (GSPMD, BATCH), "{devices=[4,1]<=[4]}"),
        ((FREE, BATCH), (FREE, SHORT), "2xi32 to 1xi32"),
        ((FREE, BATCH), (FREE,), "2 arguments, then 1"),
        ((FREE, BATCH), (PLACED, SHORT), "1 more of its 2 arguments"),
        ((FREE, BATCH), (FREE, BATCH), "static arguments"),
    ],
    ids=["placed", "replicated", "GSPMD", "shape", "fewer", "two of them", "none"],
)
def test_a_second_compile_at_the_start_costs_once(
    first: tuple[str, ...], second: tuple[str, ...], reason: str, tmp_path: Path, said: Said
) -> None:
    (finding,) = found(training(), with_builds(tmp_path, first, second))
    assert isinstance(finding.saves_ms, Unknown)
    assert reason in finding.detail
    assert "train.py:7" in finding.detail
    said(finding)


@pytest.mark.parametrize(("second", "most"), [(SHORT, 2), (BATCH, 100)])
def test_of_builds_in_each_step_no_more_are_read_than_it_takes(
    second: str, most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []

    def counted(lowered: str) -> tuple[builds.LoweredArgument, ...]:
        read.append(lowered)
        return arguments(lowered)

    arguments = builds.arguments
    monkeypatch.setattr(builds, "arguments", counted)
    run = with_builds(tmp_path, *[(FREE, BATCH), (FREE, second)] * 200)
    (finding,) = found(training(), run)
    assert ("changes from 2xi32 to 1xi32" in finding.detail) == (second == SHORT)
    assert 2 <= len(read) <= most


def test_where_a_run_kept_no_programs_the_argument_is_not_known(said: Said) -> None:
    (finding,) = found(training(), a_run(FIRST, replace(AGAIN, at_s=101.5)))
    said(finding)


def test_small_helpers_that_are_compiled_for_many_shapes_are_no_finding(said: Said) -> None:
    helper = Compile("jit_multiply", 0.05, "backend", 50.0, where="train.py:3")
    assert not found(training(), a_run(helper, replace(helper, at_s=51.0), FIRST))
    slow = replace(helper, seconds=2.0)
    (finding,) = found(training(), a_run(slow, replace(slow, at_s=53.0), FIRST))
    elsewhere = replace(slow, at_s=53.0, where="train.py:4")
    assert not found(training(), a_run(slow, elsewhere, FIRST))
    assert "jit_multiply" in finding.title
    said(finding)
