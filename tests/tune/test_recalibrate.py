"""The cost model, fitted to what a study measured; and when that is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from counterpoint.core.basis import Range, Unknown
from counterpoint.cost.scalars import Scalars, read_scalars
from counterpoint.hardware.targets import parse_target
from counterpoint.runs.outcomes import Outcome, OutcomeKind
from counterpoint.runs.run import RunSettings
from counterpoint.runs.writer import RankStart, RunStart, RunWriter
from counterpoint.tune.arm import Predicted
from counterpoint.tune.recalibrate import Recalibrated, errors, recalibrate
from counterpoint.tune.study.study import Study
from counterpoint.tune.trial.report import Purpose
from counterpoint.workflow.calibration.step_fit import MeasuredStep
from tune_studies import Made, arm, change, report

TARGET = parse_target("1xH100")
SAID = Predicted(step_s=1.0, range_s=Range(0.9, 1.1), gain=0.0, gain_range=Range(0, 0), program="p")
PROGRAM = """HloModule jit_step, is_scheduled=true

ENTRY main {
  p = f32[8]{0} parameter(0)
  ROOT add = f32[8]{0} add(p, p)
}
"""


def study(tmp_path: Path, device: str = "NVIDIA H100 80GB HBM3", *, dumped: bool = True) -> Study:
    """Two arms that were predicted, with Runs as `counterpoint run` leaves them."""
    arms = [replace(arm(name, change(name)), predicted=SAID) for name in ("one", "two")]
    made = Made(*arms).entered(*arms).noise()
    for name, seconds in (("one", 0.8), ("two", 0.8)):
        made.ran(name, report(seconds), Purpose.SCREEN, 1)
        run(tmp_path / made.study.trials[-1].started.directory, device, dumped=dumped)
    return made.study


def run(place: Path, device: str, *, dumped: bool) -> None:
    start = RunStart(
        name="one",
        command=("python",),
        cwd="/",
        settings=RunSettings(),
        launcher="local",
        world_size=1,
        version="0",
    )
    writer = RunWriter.claim(place, start)
    rank = writer.add_rank(0)
    writer.start_rank(RankStart(0), 7)
    facts = {"pid": 7, "platform": "gpu", "devices": [device]}
    (rank / "agent" / "process-7.json").write_text(json.dumps(facts))
    if dumped:
        (rank / "xla").mkdir()
        (rank / "xla" / "module_0001.jit_step.gpu_after_optimizations.txt").write_text(PROGRAM)
    writer.end_rank(0, Outcome(OutcomeKind.OK, 0))
    writer.end()


def step_of(step: MeasuredStep, known: Scalars) -> float:
    """A step that memory alone decides: 1 s at the scalar's own value."""
    assert step.program.is_scheduled
    return 1 / known.memory.value


def test_scalars_move_towards_what_was_measured(tmp_path: Path) -> None:
    found = recalibrate(study(tmp_path), tmp_path, TARGET, step_of=step_of)
    assert isinstance(found, Recalibrated)
    assert found.arms == 2
    assert found.error_after < found.error_before
    kept = read_scalars(found.path)
    assert kept.chip == "H100"
    assert set(kept.scalars) == {"memory"}
    assert set(errors(found)) == {"one", "two"}


@pytest.mark.parametrize(
    ("device", "dumped", "said"),
    [
        ("NVIDIA A100-SXM4-40GB", True, "it ran on NVIDIA A100"),
        ("cpu", True, "it ran on cpu"),
        ("NVIDIA H100 80GB HBM3", False, "contains no scheduled program"),
    ],
)
def test_what_would_teach_something_untrue_is_refused(
    tmp_path: Path, device: str, dumped: bool, said: str
) -> None:
    found = recalibrate(study(tmp_path, device, dumped=dumped), tmp_path, TARGET, step_of=step_of)
    assert isinstance(found, Unknown)
    assert said in found.reason
    assert not (tmp_path / "calibration.toml").exists()


def test_arms_without_a_prediction_say_nothing(tmp_path: Path) -> None:
    made = Made(arm("a")).entered(arm("a")).noise()
    made.ran("a", report(0.9), Purpose.SCREEN, 1)
    found = recalibrate(made.study, tmp_path, TARGET, step_of=step_of)
    assert isinstance(found, Unknown)
    assert "no arm" in found.reason


def test_steps_that_no_scalar_moves_are_no_calibration(tmp_path: Path) -> None:
    def still(step: MeasuredStep, known: Scalars) -> float:
        del step, known
        return 0.8

    found = recalibrate(study(tmp_path), tmp_path, TARGET, step_of=still)
    assert isinstance(found, Unknown)
    assert "no step" in found.reason
    assert not (tmp_path / "calibration.toml").exists()
