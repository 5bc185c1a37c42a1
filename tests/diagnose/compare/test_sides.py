"""Runs as sides: their steps, their settings, and what is missing of them."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate
from pathlib import Path

import pytest
from compare_pairs import program, sine, timeline
from runs_with_memory import run_with
from xspace_builder import US, host, kernel, nvidia, step_marker, xspace

from counterpoint.core.basis import Basis, Range, Unknown
from counterpoint.diagnose.compare.comparison import StepDifference, compare
from counterpoint.diagnose.compare.experiment import DifferenceKind
from counterpoint.diagnose.compare.step_time import StepChange, StepVerdict
from counterpoint.runs.run import Run, RunSettings, StepStart
from counterpoint.runs.steady import Steady, steady
from counterpoint.timeline.model import Host
from counterpoint.tune.trial.measure import TrialStepTimes, step_times

HLO = program(sine("first", "mlp/sin"))
SPANS = [("first", 0.0, 4.0, 0)]


def steps_of_ten_ms() -> bytes:
    """A profile of six steps."""
    gpu, threads = nvidia(0), host()
    for number in range(6):
        at = number * 10_000 * US
        kernel(gpu, "Stream #7(Compute)", "k", at, 9_000 * US, op="sine.1", module=("jit_step", 3))
        step_marker(threads, "python", number, at, 9_990 * US)
    return xspace(gpu, threads)


def run(path: Path, seconds: float = 1.0, **flags: str) -> Run:
    """A Run that left steps and no profile."""
    made = run_with(path)
    starts = tuple(StepStart(number, number * seconds, "annotation") for number in range(9))
    return replace(
        made,
        ranks=(replace(made.ranks[0], steps=starts),),
        settings=RunSettings(tuple(flags.items()), ()),
    )


def test_runs_without_profiles_are_compared_by_their_steps(tmp_path: Path) -> None:
    found = compare(run(tmp_path / "a"), run(tmp_path / "b", 1.1))
    assert isinstance(found.step, StepChange)
    assert found.step.verdict is StepVerdict.SLOWER
    assert (found.step.a_s, found.step.b_s) == pytest.approx((1.0, 1.1))
    assert isinstance(found.work, Unknown)
    assert any("no profile" in note for note in found.notes)


def with_checkpoints(path: Path, every: int = 4, extra_s: float = 3.0) -> Run:
    """Forty steps of a second each, of which every fourth also writes a checkpoint."""
    made = run_with(path)
    lengths = [1.0 + extra_s * (number % every == 0) for number in range(1, 41)]
    starts = [StepStart(n, at, "annotation") for n, at in enumerate(accumulate(lengths))]
    return replace(made, ranks=(replace(made.ranks[0], steps=tuple(starts)),))


def test_checkpoints_that_medians_hide_are_said(tmp_path: Path) -> None:
    plain = with_checkpoints(tmp_path / "a", extra_s=0.0)
    often = with_checkpoints(tmp_path / "b")
    found = compare(plain, often)
    assert isinstance(found.step, StepChange)
    assert found.step.change == 0
    (note,) = [note for note in found.notes if "much longer" in note]
    assert "steps of B are much longer" in note
    assert "1,000.00 ms in A" in note
    said = " ".join(compare(often, plain).notes)
    assert "steps of A are much longer" in said
    assert "much longer" not in " ".join(compare(often, often).notes)


def with_slow_start(path: Path, *, slow: int = 20, steps: int = 60) -> Run:
    """A Run whose first steps take three seconds, and the others about one."""
    made = run_with(path)
    seconds = [3.0 if at < slow else 1.0 + at % 5 / 1000 for at in range(steps)]
    starts = tuple(
        StepStart(number, at, "annotation")
        for number, at in enumerate(accumulate(seconds, initial=0.0))
    )
    return replace(made, ranks=(replace(made.ranks[0], steps=starts),))


def test_a_run_has_the_step_time_that_tune_gives_it(tmp_path: Path) -> None:
    late, plain = (with_slow_start(tmp_path / str(slow), slow=slow) for slow in (20, 0))
    found = compare(late, plain)
    assert isinstance(found.step, StepChange)
    times = step_times(late)
    assert isinstance(times, TrialStepTimes)
    of_tune = steady(times.seconds, times.source)
    assert isinstance(of_tune, Steady)
    assert found.step.a_s == pytest.approx(of_tune.median_s)
    assert found.step.change == pytest.approx(0.0, abs=0.002)


def test_steps_that_never_settle_are_compared_as_they_are(tmp_path: Path) -> None:
    one = with_slow_start(tmp_path / "a", slow=3, steps=4)
    found = compare(one, with_slow_start(tmp_path / "b", slow=3, steps=4))
    assert isinstance(found.step, StepChange)
    assert found.step.a_s == pytest.approx(3.0)


def test_settings_and_versions_that_differ_are_said(tmp_path: Path) -> None:
    b = run(tmp_path / "b", xla_gpu_autotune_level="0")
    newer = replace(b.ranks[0].processes[0], versions={"jaxlib": "0.11.0"})
    b = replace(b, ranks=(replace(b.ranks[0], processes=(newer,)),))
    found = compare(run(tmp_path / "a"), b)
    told = {(it.about, it.what): (it.a, it.b) for it in found.differs}
    assert told[DifferenceKind.SETTING, "xla_gpu_autotune_level"] == (None, "0")
    assert told[DifferenceKind.VERSION, "jaxlib"] == ("0.10.2", "0.11.0")
    assert found.same_experiment


def test_where_runs_keep_their_dumps_is_no_setting(tmp_path: Path) -> None:
    a = run(tmp_path / "a", xla_dump_to=str(tmp_path / "a"))
    b = run(tmp_path / "b", xla_dump_to=str(tmp_path / "b"))
    assert compare(a, b).differs == ()


def test_more_ranks_are_another_experiment(tmp_path: Path) -> None:
    found = compare(run(tmp_path / "a"), replace(run(tmp_path / "b"), world_size=2))
    assert not found.same_experiment


def test_a_measurement_against_a_prediction_is_said_to_be_one() -> None:
    made = timeline(HLO, SPANS)
    predicted = replace(made, basis=Basis.PREDICTED, hosts=(Host(name="8xH100", source=""),))
    found = compare(made, predicted)
    assert isinstance(found.step, StepChange)
    assert found.step.verdict is StepVerdict.OPEN
    assert isinstance(found.step.range, Unknown)
    assert any("the prediction" in note for note in found.notes)
    assert isinstance(found.work, StepDifference)


def test_predictions_for_other_targets_are_another_experiment() -> None:
    made = replace(timeline(HLO, SPANS), basis=Basis.PREDICTED)
    sides = [replace(made, hosts=(Host(name=it, source=""),)) for it in ("8xH100", "8xB200")]
    (differs,) = compare(*sides).differs
    assert (differs.what, differs.a, differs.b) == ("simulated", "8xH100", "8xB200")


def test_flags_that_a_profile_tells_are_compared_without_our_own() -> None:
    made = timeline(HLO, SPANS)
    a = replace(made, environment={"XLA_FLAGS": "--xla_a=1 --xla_dump_to=/a", "process_id": "1"})
    b = replace(made, environment={"XLA_FLAGS": "--xla_a=2 --xla_dump_to=/b", "process_id": "2"})
    (differs,) = compare(a, b).differs
    assert (differs.about, differs.what) == (DifferenceKind.SETTING, "xla_a")
    assert (differs.a, differs.b) == ("1", "2")


def test_tables_that_go_the_other_way_than_the_step_are_said_to(tmp_path: Path) -> None:
    found = compare(run(tmp_path / "a"), run(tmp_path / "b", 1.1))
    assert found.contradicted is None
    work = compare(timeline(HLO, SPANS), timeline(HLO, SPANS, step_ms=8.0)).work
    said = replace(found, work=work).contradicted
    assert said is not None
    assert "20.0% shorter in B" in said
    assert (
        replace(found, work=compare(timeline(HLO, SPANS), timeline(HLO, SPANS)).work).contradicted
        is None
    )


def test_flags_are_those_of_the_step_and_not_of_a_helper_that_compiled_longer(
    tmp_path: Path,
) -> None:
    sides: list[Run] = []
    for name, first in (("a", "jit_step"), ("b", "jit_add")):
        made = run(tmp_path / name)
        place = made.path / "rank0" / "xla"
        place.mkdir(parents=True, exist_ok=True)
        helper, step = "module_0000.jit_add", "module_0008.jit_step"
        (place / f"{helper}.debug_options").write_text("xla_detailed_logging: false\n")
        (place / f"{step}.debug_options").write_text("xla_gpu_autotune_level: 4\n")
        for module in (helper, step):
            size = 9 if module.endswith(first) else 1
            (place / f"{module}.gpu_after_optimizations.txt").write_text("x" * size)
        sides.append(replace(made, ranks=(replace(made.ranks[0], dump=place),)))
    assert compare(*sides).differs == ()


def test_a_stored_prediction_keeps_its_range() -> None:
    made = replace(
        timeline(HLO, SPANS),
        basis=Basis.PREDICTED,
        predicted_range=Range(0.009, 0.012),
    )
    sides = [replace(made, target=target) for target in ("8xH100", "8xB200")]
    found = compare(*sides)
    assert isinstance(found.step, StepChange)
    assert isinstance(found.step.range, Range)
    assert [it.what for it in found.differs] == ["simulated"]


def test_steps_are_compared_with_steps_that_were_timed_alike(tmp_path: Path) -> None:
    """One run prints its steps, one does not: a profiler makes the steps of the other longer."""
    printed, silent = (run_with(tmp_path / name) for name in ("a", "b"))
    for made in (printed, silent):
        place = made.ranks[0].path / "profile" / "plugins" / "profile" / "t"
        place.mkdir(parents=True)
        (place / "h.xplane.pb").write_bytes(steps_of_ten_ms())
    starts = tuple(StepStart(number, number * 0.008, "log") for number in range(9))
    printed = replace(printed, ranks=(replace(printed.ranks[0], steps=starts),))
    found = compare(printed, silent)
    assert isinstance(found.step, StepChange)
    assert (found.step.a_s, found.step.b_s) == pytest.approx((0.01, 0.01))
    assert any("the profiled steps of all are compared" in note for note in found.notes)

    alone = replace(run(tmp_path / "c", 0.008))
    mixed = compare(alone, silent)
    assert isinstance(mixed.step, StepChange)
    assert (mixed.step.a_s, mixed.step.b_s) == pytest.approx((0.008, 0.01))
    assert any("the difference includes that" in note for note in mixed.notes)
    assert not any("outside the profile" in note for note in compare(printed, alone).notes)
