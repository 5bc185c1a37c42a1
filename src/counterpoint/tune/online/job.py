"""The Job of a trial: an arm's settings, its place, and limits that the base's first run taught."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Final

from counterpoint.capture.request import Window
from counterpoint.core.errors import CounterpointError
from counterpoint.flags import Settings
from counterpoint.runs.reader import read_run
from counterpoint.runs.run import Rank
from counterpoint.tune.arm import BASE, Arm
from counterpoint.tune.executors.executor import Job, Limits, Shape
from counterpoint.tune.plan import Plan
from counterpoint.tune.study.study import Study, Trial
from counterpoint.tune.trial.report import Failure, Purpose
from counterpoint.workflow.feedback.manual import COMMAND_BUFFERS_OFF
from counterpoint.workflow.feedback.task import NO_CACHE

_TIMES_AS_LONG: Final = 5
_TIMES_AS_SILENT: Final = 10
_AT_LEAST_S: Final = 60.0
_UNKNOWN_SILENCE_S: Final = 7200.0
"""For the first run of all: large programs compile for an hour, and say nothing."""
_PROFILED_STEPS: Final = 5
_AFTER_QUIET_S: Final = 20.0
"""A profile by the clock opens and closes within so long after the last compile."""


@dataclass(frozen=True, slots=True)
class Place:
    """Of a trial: its number, and where its Run is to lie."""

    number: int
    directory: str  # relative to the study


def place_of(study: Study, arm: Arm) -> Place:
    """The next free number."""
    number = max((it.started.number for it in study.trials), default=0) + 1
    return Place(number, f"runs/{_name(number, arm)}")


def job_of(study: Study, plan: Plan, trial: Trial, where: Path) -> Job:
    """What is run for a trial that was begun."""
    arm = study.arm(trial.started.arm)
    profiled = trial.started.purpose is Purpose.PROFILE
    settings = Settings(env=NO_CACHE).merged(arm.settings)
    if profiled:
        settings = settings.merged(Settings((COMMAND_BUFFERS_OFF,)))
    limits = limits_of(study, plan, where)
    window = None
    if profiled:
        window, limits = _window(study, limits)
    elif counts_no_steps(study):
        window = Window()
    return Job(
        name=_name(trial.started.number, arm),
        command=study.began.command,
        directory=where / trial.started.directory,
        settings=settings,
        shape=_shape(plan.shape, arm),
        limits=limits,
        window=window,
    )


def counts_no_steps(study: Study) -> bool:
    """Whether nobody saw the base's steps: then they are taken from a profile, for all arms."""
    return any(it.failure is Failure.NO_STEPS for it in study.trials_of(BASE))


def limits_of(study: Study, plan: Plan, where: Path) -> Limits:
    """As they are asked for; else five times as long as the base took, and ten times as silent."""
    asked = plan.limits
    first = next((it for it in study.trials_of(BASE) if it.counts), None)
    if first is None or first.wall_s is None:
        hang = asked.hang_after_s if asked.hang_after_s is not None else _UNKNOWN_SILENCE_S
        return replace(asked, hang_after_s=hang)
    learned = max(_AT_LEAST_S, _TIMES_AS_LONG * first.wall_s)
    timeout = asked.timeout_s if asked.timeout_s is not None else learned
    silent = longest_silence(where / first.started.directory, first.wall_s)
    hang = max(_AT_LEAST_S, min(_TIMES_AS_SILENT * silent, timeout))
    return Limits(
        timeout_s=timeout,
        hang_after_s=asked.hang_after_s if asked.hang_after_s is not None else hang,
        steps=asked.steps,
    )


def longest_silence(directory: Path, wall_s: float) -> float:
    """Seconds without a step or a compile that ended, of a run that took so long.

    Their clock has no beginning that we know, so the time before the first of them and after the
    last one counts as one.
    """
    try:
        run = read_run(directory)
    except CounterpointError:
        return wall_s
    return max((_silence(rank, wall_s) for rank in run.ranks), default=wall_s)


def _silence(rank: Rank, wall_s: float) -> float:
    signs = sorted(
        [
            *(it.start_s for it in rank.steps),
            *(it.at_s for it in rank.compiles if it.at_s is not None),
        ]
    )
    if not signs:
        return wall_s
    between = max((after - before for before, after in pairwise(signs)), default=0.0)
    return max(between, wall_s - (signs[-1] - signs[0]))


def _window(study: Study, limits: Limits) -> tuple[Window, Limits]:
    """A few steps after the warm-up; by the clock where only lines of the log name steps."""
    steady = next(
        (it.report.steady for it in study.trials_of(BASE) if it.report and it.report.steady), None
    )
    if steady is None or steady.source not in ("annotation", "api"):
        longer = math.ceil(_AFTER_QUIET_S / steady.median_s) if steady else 0
        return Window(), replace(limits, steps=limits.steps and limits.steps + longer)
    start = max(steady.warm_up, 2)
    end = start + _PROFILED_STEPS + 2
    window = Window(start_step=start, steps=_PROFILED_STEPS)
    return window, replace(limits, steps=limits.steps and max(limits.steps, end))


def _shape(shape: Shape, arm: Arm) -> Shape:
    return shape if arm.per is None else replace(shape, per=arm.per, ranks_per_node=None)


def _name(number: int, arm: Arm) -> str:
    plain = "".join(it if it.isalnum() or it in ".-" else "-" for it in arm.name)
    ascii_only = plain.encode("ascii", "replace").decode("ascii").replace("?", "-")
    return f"{number:04d}-{ascii_only[:60].strip('-.') or 'arm'}"
