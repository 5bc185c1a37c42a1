"""Jobs: the job of one trial, with its limits, and the PGLE profile made from a profiled one."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Final

from counterpoint.capture import ProfileSchedule
from counterpoint.core import CounterpointError, InputError
from counterpoint.flags.settings import Settings
from counterpoint.flags.versions import LHS, PROFILE
from counterpoint.runs.reader import read_run
from counterpoint.runs.run import Rank
from counterpoint.tune.arm import BASE, Arm
from counterpoint.tune.command_options import with_options
from counterpoint.tune.executors.executor import (
    ProcessShape,
    TrialJob,
    TrialLimits,
)
from counterpoint.tune.plan import StudyPlan
from counterpoint.tune.study.study import Study, Trial
from counterpoint.tune.trial.applied_settings import changed_settings
from counterpoint.tune.trial.report import Purpose, TrialFailure
from counterpoint.workflow.feedback import COMMAND_BUFFERS_OFF, NO_CACHE

_TIMES_AS_LONG: Final = 5
_TIMES_AS_SILENT: Final = 10
_AT_LEAST_S: Final = 60.0
_UNKNOWN_SILENCE_S: Final = 7200.0
"""Limit for the very first run: large programs compile for an hour without output."""
_PROFILED_STEPS: Final = 5
_AFTER_QUIET_S: Final = 20.0
"""A profile taken by the clock opens and closes within this time after the last compile."""
PROFILES: Final = "profiles"


@dataclass(frozen=True, slots=True)
class TrialPlace:
    """A trial's number, and the directory of its Run."""

    number: int
    directory: str  # relative to the study


def place_of(study: Study, arm: Arm) -> TrialPlace:
    """Return the next free number and its directory."""
    number = max((trial.started.number for trial in study.trials), default=0) + 1
    return TrialPlace(number, f"runs/{_name(number, arm)}")


def job_of(study: Study, plan: StudyPlan, trial: Trial, study_directory: Path) -> TrialJob:
    """Return the job for a trial that was recorded as started."""
    arm = study.arm(trial.started.arm)
    profiled = trial.started.purpose is Purpose.PROFILE
    settings = Settings(env=NO_CACHE).merged(arm.settings)
    if profiled:
        settings = settings.merged(Settings((COMMAND_BUFFERS_OFF,)))
    limits = limits_of(study, plan, study_directory)
    window = None
    if profiled:
        window, limits = _window(study, limits)
    elif counts_no_steps(study):
        window = ProfileSchedule()
    return TrialJob(
        name=_name(trial.started.number, arm),
        command=with_options(study.began.command, arm.options),
        directory=study_directory / trial.started.directory,
        settings=settings,
        shape=_shape(plan.shape, arm),
        limits=limits,
        window=window,
    )


def counts_no_steps(study: Study) -> bool:
    """Return whether the base's steps were never found; then all arms are timed from profiles."""
    trials = study.trials_of(BASE)
    timed = {it.report.steady.source for it in trials if it.report and it.report.steady}
    lacking = any(trial.failure is TrialFailure.NO_STEPS for trial in trials)
    return lacking and timed <= {"profile"}


def limits_of(study: Study, plan: StudyPlan, study_directory: Path) -> TrialLimits:
    """Return the requested limits; by default 5 times the base's duration, 10 times its silence."""
    limits = plan.limits
    first = next((trial for trial in study.trials_of(BASE) if trial.counts), None)
    if first is None or first.wall_s is None:
        hang = limits.hang_after_s if limits.hang_after_s is not None else _UNKNOWN_SILENCE_S
        return replace(limits, hang_after_s=hang)
    learned = max(_AT_LEAST_S, _TIMES_AS_LONG * first.wall_s)
    timeout = limits.timeout_s if limits.timeout_s is not None else learned
    silent = longest_silence(study_directory / first.started.directory, first.wall_s)
    hang = max(_AT_LEAST_S, min(_TIMES_AS_SILENT * silent, timeout))
    return TrialLimits(
        timeout_s=timeout,
        hang_after_s=limits.hang_after_s if limits.hang_after_s is not None else hang,
        steps=limits.steps,
    )


def longest_silence(directory: Path, wall_s: float) -> float:
    """Return the longest time, in seconds, in which a run had no step or end of a compile.

    The zero of their clock is unknown, so the times before the first and after the last event are
    added together.
    """
    try:
        run = read_run(directory)
    except CounterpointError:
        return wall_s
    return max((_silence(rank, wall_s) for rank in run.ranks), default=wall_s)


def _silence(rank: Rank, wall_s: float) -> float:
    signs = sorted(
        [
            *(step.start_s for step in rank.steps),
            *(compiled.at_s for compiled in rank.compiles if compiled.at_s is not None),
        ]
    )
    if not signs:
        return wall_s
    between = max((after - before for before, after in pairwise(signs)), default=0.0)
    return max(between, wall_s - (signs[-1] - signs[0]))


def _window(study: Study, limits: TrialLimits) -> tuple[ProfileSchedule, TrialLimits]:
    """Return which steps to profile: a few after warm-up; by the clock if only logs name steps."""
    steady = next(
        (
            trial.report.steady
            for trial in study.trials_of(BASE)
            if trial.report and trial.report.steady
        ),
        None,
    )
    if steady is None or steady.source not in ("annotation", "api"):
        longer = math.ceil(_AFTER_QUIET_S / steady.median_s) if steady else 0
        return ProfileSchedule(), replace(limits, steps=limits.steps and limits.steps + longer)
    start = max(steady.warm_up, 2)
    end = start + _PROFILED_STEPS + 2
    window = ProfileSchedule(start_step=start, steps=_PROFILED_STEPS)
    return window, replace(limits, steps=limits.steps and max(limits.steps, end))


def _shape(shape: ProcessShape, arm: Arm) -> ProcessShape:
    return shape if arm.per is None else replace(shape, per=arm.per, ranks_per_node=None)


def _name(number: int, arm: Arm) -> str:
    plain = "".join(letter if letter.isalnum() or letter in ".-" else "-" for letter in arm.name)
    ascii_only = plain.encode("ascii", "replace").decode("ascii").replace("?", "-")
    return f"{number:04d}-{ascii_only[:60].strip('-.') or 'arm'}"


def profiled_settings(arm: Arm, run: Path, study: Path) -> Settings:
    """Return the arm's settings with a profile made from that Run.

    Raises InputError if no profile can be made.
    """
    from counterpoint.pgle.making.make import make_profile
    from counterpoint.pgle.profiles.files import content_addressed, write_profile
    from counterpoint.runs.reader import read_run
    from counterpoint.timeline.reading import read

    recorded = read_run(run)
    if not recorded.profiles:
        raise InputError(f"{run}: the run recorded no profile", why=recorded.why_no_profile)
    timeline = read(*map(str, recorded.profiles))
    versions = {
        name: recorded.versions[name] for name in ("jaxlib", "jax") if name in recorded.versions
    }
    built = make_profile(timeline, about=versions)
    place = study / PROFILES
    place.mkdir(exist_ok=True)
    written = write_profile(built.profile, place / f"{run.name}.pbtxt", overwrite=True)
    path = written.rename(content_addressed(written)).resolve()
    lhs = () if LHS in arm.settings.flags else ((LHS, "true"),)
    return arm.settings.merged(Settings((*lhs, (PROFILE, str(path)))))


def changes_in(study: Study, trial: Trial) -> Settings:
    """Return the settings in which a trial's arm differs from the base."""
    return changed_settings(study.arm(trial.started.arm).settings, study.arm(BASE).settings)
