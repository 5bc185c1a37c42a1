"""What `manual` and `nsys` have in common once something was measured.

    Timeline ─ make ─► profile ─ check ─► runs without and with it (ABBA) ─► proof, comparison

The profile's file is named by its content: JAX keys its compilation cache by the path alone, and
would hand out the executable of another profile. The cache is off in the compared runs, so that
every run compiles, and its log can prove what it compiled with.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from counterpoint.core.basis import Unknown
from counterpoint.core.errors import CounterpointError, InputError
from counterpoint.flags.version import PROFILE
from counterpoint.hlo import Program
from counterpoint.pgle.address import addressed, addressed_name
from counterpoint.pgle.check import Coverage, check_profile
from counterpoint.pgle.files import read_profile
from counterpoint.pgle.judgement import judge
from counterpoint.pgle.make import make_profile
from counterpoint.pgle.measured import measured_times
from counterpoint.pgle.movement import Movement, movement
from counterpoint.pgle.needed import costs_found
from counterpoint.pgle.profile import Profile
from counterpoint.pgle.writing import write_profile
from counterpoint.runs import Run
from counterpoint.runs.score import Score, score
from counterpoint.timeline.model import Timeline
from counterpoint.workflow.feedback.comparison import Comparison, compare_runs, order
from counterpoint.workflow.feedback.proof import Proof, compiled, elsewhere, prove, step_module
from counterpoint.workflow.feedback.task import NO_CACHE, Say, Task, carry_out

_NOT_COMPARED: Final = Unknown("the profile is not proved to be used: there is nothing to compare")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """A profile for the scheduler, and the program it was measured on."""

    path: Path
    profile: Profile
    module: str | None  # None: whichever the profile turns out to be for
    coverage: Coverage | Unknown
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """Runs under the same settings, and their step times."""

    runs: tuple[Run, ...]
    scores: tuple[Score | Unknown, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Feedback:
    """What came of it."""

    way: str
    directory: Path
    measured: Run | None  # the profile run, if there was one
    measurement: Measurement
    without: Arm
    with_profile: Arm
    proof: Proof
    movement: Movement | Unknown
    comparison: Comparison | Unknown

    @property
    def used(self) -> bool:
        """Whether every run with the profile is proved to have been compiled with it."""
        return self.proof.used


def measurement(task: Task, timeline: Timeline, run: Run | None, say: Say) -> Measurement:
    """Make a profile, keep it, and check it against the program that was measured."""
    say("making the profile")
    told = {} if run is None else run.versions
    about = {name: told[name] for name in ("jaxlib", "jax") if name in told}
    made = make_profile(timeline, percentile=task.percentile, about=about)
    written = write_profile(made.profile, task.directory / "step.pbtxt")
    path = written.rename(addressed(written))
    module = made.modules[0].name
    return Measurement(
        path=path.resolve(),
        profile=read_profile(path),
        module=module,
        coverage=_coverage(made.profile, timeline, module),
        notes=made.notes,
    )


def _coverage(profile: Profile, timeline: Timeline, module: str) -> Coverage | Unknown:
    for index, entry in enumerate(timeline.programs):
        program = entry.hlo() if entry.name == module else None
        if program is not None and program.is_scheduled:
            times = measured_times(timeline, index)
            return check_profile(profile, program, None if isinstance(times, Unknown) else times)
    return Unknown(f"what was measured does not hold the program {module}")


def given(task: Task, path: Path) -> Measurement:
    """A profile that exists already; the runs will show which program it is for."""
    profile = read_profile(path)
    if path.is_file():
        data = path.read_bytes()
        path = task.directory / addressed_name(data, ending=path.suffix)
        path.write_bytes(data)
    return Measurement(
        path=path.resolve(),
        profile=profile,
        module=None,
        coverage=Unknown("the profile was given, without the program it was measured on"),
    )


def refuse_thin(measured: Measurement, least: float) -> None:
    """Stop before any run where the profile does not even cover the program it was measured on."""
    if isinstance(measured.coverage, Unknown):
        return
    judgement = judge(measured.coverage, least)
    if not judgement.passed:
        raise InputError(
            f"{measured.path}: not good enough for {measured.module}",
            why="; ".join(judgement.reasons),
            next=f"counterpoint pgle show {shlex.quote(str(measured.path))}",
        )


def refuse_unfit(run: Run, measured: Measurement, module: str, least: float) -> None:
    """Stop after the first run where the profile is not one for what it compiled."""
    program = _program(run, module)
    if program is None:
        return
    if program.fingerprint is None and (where := elsewhere(run)):
        raise InputError(
            f"it ran on {where}, where XLA takes no PGLE profile",
            why="only the GPU compiler schedules by measured costs",
            next=f"counterpoint pgle apply {shlex.quote(str(measured.path))} --program"
            f" {shlex.quote(str(run.path))} --target 8xH100",
        )
    judgement = judge(check_profile(measured.profile, program), least)
    if not judgement.passed:
        raise CounterpointError(
            f"{measured.path}: not good enough for {module}, as the program compiles it",
            why="; ".join(judgement.reasons),
            next=f"counterpoint pgle check {shlex.quote(str(measured.path))} "
            f"--program {shlex.quote(str(run.path))}",
        )


def feed_back(
    task: Task, way: str, measured: Run | None, measurement: Measurement, say: Say
) -> Feedback:
    """Run without and with the profile, and say what it changed.

    The first run that is not proved to use the profile is the last: there is nothing to compare.
    """
    refuse_thin(measurement, task.min_coverage)
    without: list[Run] = []
    with_profile: list[Run] = []
    module, proof = measurement.module or "", Proof(used=False, reasons=())
    turns = order(task.repeats)
    for number, turn in enumerate(turns, 1):
        arm, name = (with_profile, "with") if turn else (without, "without")
        say(f"run {number} of {len(turns)}: {name} the profile")
        flags = ((PROFILE, str(measurement.path)),) if turn else ()
        settings = task.under(*flags, env=NO_CACHE)
        profiled = not _counts_steps(measured or next(iter(without), None))
        arm.append(carry_out(task, f"{name}-{len(arm) + 1}", settings, say, profile=profiled))
        module = module or step_module(arm[-1], measurement.profile)
        if number == 1:
            refuse_unfit(arm[-1], measurement, module, task.min_coverage)
        if turn:
            proof = prove(arm[-1], measurement.profile, module)
            if not proof.used:
                break
    arms = [
        Arm(runs=tuple(runs), scores=tuple(map(score, runs))) for runs in (without, with_profile)
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
    """Whether the program counts its steps; where not, they are taken from a profile."""
    return run is not None and any(rank.steps for rank in run.ranks)


def _moved(without: Run, with_profile: Run, module: str, profile: Profile) -> Movement | Unknown:
    before, after = (_program(run, module) for run in (without, with_profile))
    if before is None or after is None:
        return Unknown("the scheduled program was not dumped in both runs")
    return movement(before, after, costs_found(profile.costs, after.fingerprint))


def _program(run: Run, module: str) -> Program | None:
    return next((it for rank in run.ranks if (it := compiled(rank, module))), None)


def _compared(without: Arm, with_profile: Arm) -> Comparison | Unknown:
    for it in (*without.scores, *with_profile.scores):
        if isinstance(it, Unknown):
            return it
    return compare_runs(
        *(
            [it.seconds for it in arm.scores if isinstance(it, Score)]
            for arm in (without, with_profile)
        )
    )
