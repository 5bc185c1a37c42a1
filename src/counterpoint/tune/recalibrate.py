"""Recalibration: the cost model is fitted to the steps that a study measured.

Each arm that ran left its scheduled program in its Run, and the median of its runs is its step
time. That is one number per arm for five scalars, so each scalar moves no further than its own
uncertainty makes likely (workflow/calibration/step_fit.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

from counterpoint.core import CounterpointError, Unknown
from counterpoint.core.outputs import write_whole
from counterpoint.cost.scalars import Scalars, default_scalars
from counterpoint.hardware.chip import find_chip
from counterpoint.hardware.target import Target
from counterpoint.hlo.model.program import Program
from counterpoint.hlo.reader import read_program
from counterpoint.runs.reader import read_run
from counterpoint.runs.run import Run
from counterpoint.tune.arm import Arm
from counterpoint.tune.study.ledger import stamp
from counterpoint.tune.study.records import ModelFitted
from counterpoint.tune.study.study import Study, Trial
from counterpoint.tune.trial.report import Purpose
from counterpoint.workflow.calibration import (
    Calibration,
    MeasuredStep,
    StepOf,
    calibrate_steps,
    predicted_step,
)

CALIBRATION: Final = "calibration.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalibrated:
    """A calibration and its errors: means over the arms of |predicted / measured - 1|."""

    calibration: Calibration
    path: Path
    arms: int
    error_before: float
    error_after: float


def fit_model(
    study: Study, directory: Path, target: Target, start: Scalars | None = None
) -> ModelFitted:
    """Recalibrate, and return the result as a record of the study."""
    outcome = recalibrate(study, directory, target, start)
    if isinstance(outcome, Unknown):
        return ModelFitted(
            path=None, arms=0, error_before=None, error_after=None, why=outcome.reason, at=stamp()
        )
    return ModelFitted(
        path=outcome.path.name,
        arms=outcome.arms,
        error_before=outcome.error_before,
        error_after=outcome.error_after,
        why="",
        at=stamp(),
    )


def recalibrate(
    study: Study,
    directory: Path,
    target: Target,
    start: Scalars | None = None,
    step_of: StepOf = predicted_step,
) -> Recalibrated | Unknown:
    """Fit to all arms that were both predicted and measured, and write the calibration.

    Return Unknown if the fit would mislead the model: another chip, too few arms, or programs that
    can no longer be read.
    """
    steps: list[MeasuredStep] = []
    why = "no arm was both predicted and measured"
    for arm in study.arms:
        found = _step(study, directory, target, arm)
        if isinstance(found, Unknown):
            why = found.reason
        elif found is not None:
            steps.append(found)
    if not steps:
        return Unknown(why)
    calibration = calibrate_steps(steps, start or default_scalars(target.gpu), step_of=step_of)
    if any(step.worse for step in calibration.steps):
        worse = next(step for step in calibration.steps if step.worse)
        return Unknown(f"a fit to the other arms would predict {worse.name} worse than before")
    if not calibration.fitted:
        return Unknown("no step depends on any scalar of the model")
    path = directory / CALIBRATION
    write_whole(path, calibration.toml().encode())
    count = len(calibration.steps)
    return Recalibrated(
        calibration=calibration,
        path=path,
        arms=count,
        error_before=sum(abs(step.before_s / step.measured_s - 1) for step in calibration.steps)
        / count,
        error_after=sum(abs(step.after_s / step.measured_s - 1) for step in calibration.steps)
        / count,
    )


def _step(study: Study, directory: Path, target: Target, arm: Arm) -> MeasuredStep | Unknown | None:
    """Return None for an arm without data to fit, Unknown if its data can't be used."""
    timed = [
        trial
        for trial in study.trials_of(arm.name)
        if trial.counts and trial.started.purpose is not Purpose.PROFILE
    ]
    seconds = [
        trial.report.steady.median_s for trial in timed if trial.report and trial.report.steady
    ]
    if arm.predicted is None or not seconds:
        return None
    found = _program(timed, directory, target)
    if isinstance(found, Unknown):
        return found
    return MeasuredStep(name=arm.name, program=found, target=target, seconds=median(seconds))


def _program(timed: list[Trial], directory: Path, target: Target) -> Program | Unknown:
    """Return the step as compiled in the arm's last run, if that was on the target's chip."""
    place = directory / timed[-1].started.directory
    try:
        run = read_run(place)
    except CounterpointError as error:
        return Unknown(error.what)
    chip = _other_chip(run, target)
    if chip is not None:
        return Unknown(f"it ran on {chip}, but the target is {target.gpu}")
    for rank in run.ranks:
        for path in rank.hlo[:1]:
            try:
                program = read_program(path)
            except CounterpointError as error:
                return Unknown(error.what)
            if program.is_scheduled:
                return program
    return Unknown(f"{place}: it contains no scheduled program")


def _other_chip(run: Run, target: Target) -> str | None:
    """Return the device that the run used if it is not the target's chip."""
    named = {
        device for rank in run.ranks for process in rank.processes for device in process.devices
    }
    for name in sorted(named):
        chip = find_chip(name)
        if chip is None or chip.name != target.chip.name:
            return name
    return None if named else "unknown devices"


def errors(found: Recalibrated) -> Mapping[str, tuple[float, float]]:
    """Return predicted / measured - 1 for each arm, before and after."""
    return {
        step.name: (step.before_s / step.measured_s - 1, step.after_s / step.measured_s - 1)
        for step in found.calibration.steps
    }
