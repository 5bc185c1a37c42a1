"""The common part of `manual` and `nsys`, after the measurement.

    Timeline ─ make ─► profile ─ check ─► runs without and with it (ABBA) ─► proof, comparison

The profile's file is named by its content: JAX keys its compilation cache by the path alone, and
would return the executable of another profile. The cache is off in the compared runs, so that every
run compiles, and its log can prove what it compiled with.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from counterpoint.core import CounterpointError, InputError, Unknown
from counterpoint.core.outputs import write_whole
from counterpoint.flags.versions import PROFILE
from counterpoint.hlo.model.program import Program
from counterpoint.pgle.applying.movement import Movement, movement
from counterpoint.pgle.checking.check import Coverage, check_profile
from counterpoint.pgle.checking.verdict import judge
from counterpoint.pgle.lookups import costs_found
from counterpoint.pgle.making.make import make_profile
from counterpoint.pgle.making.samples import measured_times
from counterpoint.pgle.profiles.files import (
    content_addressed,
    content_addressed_name,
    read_profile,
    write_profile,
)
from counterpoint.pgle.profiles.profile import Profile
from counterpoint.runs.run import Run
from counterpoint.runs.scores import Score, score
from counterpoint.timeline.model import Timeline
from counterpoint.workflow.feedback.profile_proof import (
    ProfileProof,
    compiled,
    platforms_without_pgle,
    prove,
    step_module,
)
from counterpoint.workflow.feedback.run_comparison import RunComparison, abba_order, compare_runs
from counterpoint.workflow.feedback.task import NO_CACHE, FeedbackTask, Say, run_workload

_NOT_COMPARED: Final = Unknown("use of the profile is not proved, so step times are not compared")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileMeasurement:
    """A profile for the scheduler, and the program it was measured on."""

    path: Path
    profile: Profile
    module: str | None  # None: whichever the profile turns out to be for
    coverage: Coverage | Unknown
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedRuns:
    """Runs under the same settings, and their step times."""

    runs: tuple[Run, ...]
    scores: tuple[Score | Unknown, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Feedback:
    """The result of a feedback workflow."""

    way: str
    directory: Path
    measured: Run | None  # the profile run, if there was one
    measurement: ProfileMeasurement
    without: ComparedRuns
    with_profile: ComparedRuns
    proof: ProfileProof
    movement: Movement | Unknown
    comparison: RunComparison | Unknown

    @property
    def used(self) -> bool:
        """True if every run with the profile is proved to have been compiled with it."""
        return self.proof.used


def measurement(
    task: FeedbackTask, timeline: Timeline, run: Run | None, say: Say
) -> ProfileMeasurement:
    """Make a profile, store it, and check it against the program that was measured."""
    say("making the profile")
    versions = {} if run is None else run.versions
    about = {name: versions[name] for name in ("jaxlib", "jax") if name in versions}
    built = make_profile(timeline, percentile=task.percentile, about=about)
    written = write_profile(built.profile, task.directory / "step.pbtxt")
    path = written.rename(content_addressed(written))
    module = built.modules[0].name
    return ProfileMeasurement(
        path=path.resolve(),
        profile=read_profile(path),
        module=module,
        coverage=_coverage(built.profile, timeline, module),
        notes=built.notes,
    )


def _coverage(profile: Profile, timeline: Timeline, module: str) -> Coverage | Unknown:
    for index, entry in enumerate(timeline.programs):
        program = entry.hlo() if entry.name == module else None
        if program is not None and program.is_scheduled:
            times = measured_times(timeline, index)
            return check_profile(profile, program, None if isinstance(times, Unknown) else times)
    return Unknown(f"the recording does not contain the program {module}")


def existing_profile(task: FeedbackTask, path: Path) -> ProfileMeasurement:
    """Use an existing profile; the runs will show which program it is for."""
    profile = read_profile(path)
    if path.is_file():
        data = path.read_bytes()
        path = task.directory / content_addressed_name(data, ending=path.suffix)
        write_whole(path, data)
    return ProfileMeasurement(
        path=path.resolve(),
        profile=profile,
        module=None,
        coverage=Unknown("an existing profile does not include the program it was measured on"),
    )


def refuse_thin(measured: ProfileMeasurement, least: float) -> None:
    """Raise an error before any run if the profile does not cover the program it is from."""
    if isinstance(measured.coverage, Unknown):
        return
    judgment = judge(measured.coverage, least)
    if not judgment.passed:
        raise InputError(
            f"{measured.path}: does not cover {measured.module} well enough",
            why="; ".join(judgment.reasons),
            next=f"counterpoint pgle show {shlex.quote(str(measured.path))}",
        )


def refuse_unfit(run: Run, measured: ProfileMeasurement, module: str, least: float) -> None:
    """Raise an error after the first run if the profile does not fit the compiled program."""
    program = _program(run, module)
    if program is None:
        return
    if program.fingerprint is None and (where := platforms_without_pgle(run)):
        raise InputError(
            f"it ran on {where}, where XLA uses no PGLE profile",
            why="only the GPU compiler schedules by measured costs",
            next=f"counterpoint pgle apply {shlex.quote(str(measured.path))} --program"
            f" {shlex.quote(str(run.path))} --target 8xH100",
        )
    judgment = judge(check_profile(measured.profile, program), least)
    if not judgment.passed:
        raise CounterpointError(
            f"{measured.path}: does not cover {module} well enough as it is compiled here",
            why="; ".join(judgment.reasons),
            next=f"counterpoint pgle check {shlex.quote(str(measured.path))} "
            f"--program {shlex.quote(str(run.path))}",
        )


def feed_back(
    task: FeedbackTask, way: str, measured: Run | None, measurement: ProfileMeasurement, say: Say
) -> Feedback:
    """Run without and with the profile, and report what it changed.

    The first run that is not proved to use the profile is the last: there is nothing to compare.
    """
    refuse_thin(measurement, task.min_coverage)
    without: list[Run] = []
    with_profile: list[Run] = []
    module, proof = measurement.module or "", ProfileProof(used=False, reasons=())
    arms_in_order = abba_order(task.repeats)
    for number, with_it in enumerate(arms_in_order, 1):
        arm, name = (with_profile, "with") if with_it else (without, "without")
        say(f"run {number} of {len(arms_in_order)}: {name} the profile")
        flags = ((PROFILE, str(measurement.path)),) if with_it else ()
        settings = task.under(*flags, env=NO_CACHE)
        profiled = not _counts_steps(measured or next(iter(without), None))
        arm.append(run_workload(task, f"{name}-{len(arm) + 1}", settings, say, profile=profiled))
        module = module or step_module(arm[-1], measurement.profile)
        if number == 1:
            refuse_unfit(arm[-1], measurement, module, task.min_coverage)
        if with_it:
            proof = prove(arm[-1], measurement.profile, module)
            if not proof.used:
                break
    arms = [
        ComparedRuns(runs=tuple(runs), scores=tuple(map(score, runs)))
        for runs in (without, with_profile)
    ]
    return Feedback(
        way=way,
        directory=task.directory,
        measured=measured,
        measurement=measurement,
        without=arms[0],
        with_profile=arms[1],
        proof=proof,
        movement=_moved(without[0], with_profile[0], module, measurement.profile),
        comparison=_compared(*arms) if proof.used else _NOT_COMPARED,
    )


def _counts_steps(run: Run | None) -> bool:
    """Return True if the program counts its steps; otherwise they are taken from a profile."""
    return run is not None and any(rank.steps for rank in run.ranks)


def _moved(without: Run, with_profile: Run, module: str, profile: Profile) -> Movement | Unknown:
    before, after = (_program(run, module) for run in (without, with_profile))
    if before is None or after is None:
        return Unknown("the scheduled program was not dumped in both runs")
    return movement(before, after, costs_found(profile.costs, after.fingerprint))


def _program(run: Run, module: str) -> Program | None:
    return next((program for rank in run.ranks if (program := compiled(rank, module))), None)


def _compared(without: ComparedRuns, with_profile: ComparedRuns) -> RunComparison | Unknown:
    for scored in (*without.scores, *with_profile.scores):
        if isinstance(scored, Unknown):
            return scored
    return compare_runs(
        *(
            [scored.seconds for scored in arm.scores if isinstance(scored, Score)]
            for arm in (without, with_profile)
        )
    )
