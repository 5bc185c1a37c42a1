"""The common part of `manual` and `nsys`, after the measurement.

    Timeline ─ make ─► profile ─ check ─► runs without and with it (ABBA) ─► proof, comparison

The profile's file is named by its content: JAX keys its compilation cache by the path alone, and
would return the executable of another profile. The cache is off in the compared runs, so that every
run compiles, and its log can prove what it compiled with.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from statistics import fmean, stdev
from typing import Final

from counterpoint.core import CounterpointError, InputError, Range, Unknown
from counterpoint.core.frozen import frozen
from counterpoint.core.outputs import write_whole
from counterpoint.flags.versions import (
    PROFILE,
)
from counterpoint.hlo import Program, read_program
from counterpoint.pgle import (
    LogComplaint,
    ModuleUse,
    ProfileFit,
    ProfileUse,
    costs_found,
    read_evidence,
)
from counterpoint.pgle.applying import Movement, heaviest, movement
from counterpoint.pgle.checking import Coverage, check_profile, judge
from counterpoint.pgle.making import make_profile, measured_times
from counterpoint.pgle.profiles import (
    Profile,
    content_addressed,
    content_addressed_name,
    read_profile,
    write_profile,
)
from counterpoint.runs import Rank, Run
from counterpoint.runs.scores import NEGLIGIBLE_CHANGE, RUN_TO_RUN_NOISE, Score, score, student_t
from counterpoint.timeline import Timeline
from counterpoint.workflow.feedback.task import NO_CACHE, FeedbackTask, Say, run_workload


class SpeedVerdict(StrEnum):
    """The conclusion of a comparison."""

    FASTER = "faster"
    SLOWER = "slower"
    SAME = "no difference"
    OPEN = "not decided"


@frozen
class RunComparison:
    """Median step times of runs without and with a change, in pairs."""

    without_s: tuple[float, ...]
    with_s: tuple[float, ...]
    change: float  # of the step time: -0.03 is 3% faster
    range: Range | Unknown
    verdict: SpeedVerdict

    @property
    def decided(self) -> bool:
        """True if the runs show a difference, or that there is none."""
        return self.verdict is not SpeedVerdict.OPEN


def compare_runs(without_s: Sequence[float], with_s: Sequence[float]) -> RunComparison | Unknown:
    """Compare paired runs by their median step times.

    The unit is the run, never the step: steps of one run share its compile, its placement and its
    neighbors, so tests on steps mistake noise for a gain most of the time. Runs are paired in the
    order in which they ran, and the range comes from the paired log ratios.
    """
    if not without_s or len(without_s) != len(with_s):
        return Unknown(
            f"{len(without_s)} runs without and {len(with_s)} with the change have step times, "
            "so they can't be paired"
        )
    logs = [math.log(b / a) for a, b in zip(without_s, with_s, strict=True)]
    change = math.expm1(fmean(logs))
    reach = _reach(logs)
    return RunComparison(tuple(without_s), tuple(with_s), change, reach, _verdict(reach))


def _reach(logs: Sequence[float]) -> Range | Unknown:
    if len(logs) < 2:
        return Unknown(
            "one pair of runs has no range; identical runs have been seen to differ by "
            f"{RUN_TO_RUN_NOISE:.1%} (rule of thumb)"
        )
    half = student_t(len(logs) - 1) * stdev(logs) / math.sqrt(len(logs))
    middle = fmean(logs)
    return Range(math.expm1(middle - half), math.expm1(middle + half))


def _verdict(reach: Range | Unknown) -> SpeedVerdict:
    if isinstance(reach, Unknown):
        return SpeedVerdict.OPEN
    if reach.high < 0:
        return SpeedVerdict.FASTER
    if reach.low > 0:
        return SpeedVerdict.SLOWER
    if reach.low >= -NEGLIGIBLE_CHANGE and reach.high <= NEGLIGIBLE_CHANGE:
        return SpeedVerdict.SAME
    return SpeedVerdict.OPEN


def abba_order(pairs: int) -> tuple[bool, ...]:
    """Return the order of runs without (False) and with (True) the change: ABBA.

    A drift of the machine then affects both equally.
    """
    return tuple(turn for pair in range(pairs) for turn in ((False, True), (True, False))[pair % 2])


@frozen(kw_only=True)
class ProfileProof:
    """The evidence of one run, and what is missing; `used` only if nothing is."""

    used: bool
    reasons: tuple[str, ...]
    module: ModuleUse | None = None
    coverage: Coverage | None = None
    complaints: tuple[LogComplaint, ...] = ()


def prove(run: Run, profile: Profile, module: str) -> ProfileProof:
    """Check that every rank of the run compiled `module` with the profile.

    A log may claim too much (`Found profile` is written for an empty one), and costs may be found
    under names that stand for other operations. So the proof has three parts: the compiler opened
    the profile for the step, it found costs there, and the module it compiled has the fingerprint
    of the program that was measured.
    """
    proofs = [_of_rank(rank, run, profile, module) for rank in run.ranks]
    failed = next((proof for proof in proofs if not proof.used), None)
    if failed is not None:
        return failed
    if not proofs:
        return ProfileProof(used=False, reasons=(f"{run.path} has no ranks",))
    return proofs[0]


def _of_rank(rank: Rank, run: Run, profile: Profile, module: str) -> ProfileProof:
    where = f"rank {rank.number}: " if len(run.ranks) > 1 else ""
    evidence = read_evidence(log_text(rank.stderr), dict(run.settings.xla))
    use = evidence.of(module)
    program = compiled(rank, module)
    coverage = None if program is None else check_profile(profile, program)
    is_used = use is not None and use.use is ProfileUse.USED
    wants = () if is_used else (_platform(run) or _log_says(evidence.reason, use),)
    missing = tuple(f"{where}{want}" for want in (*wants, _fits(coverage, module)) if want)
    reasons = missing or (f"{where}{use.reason}" if use else "",)
    return ProfileProof(
        used=not missing,
        reasons=reasons,
        module=use,
        coverage=coverage,
        complaints=evidence.complaints,
    )


def compiled(rank: Rank, module: str) -> Program | None:
    """Return the module of that name as the rank compiled it; the largest of several."""
    return next((program for program in _programs(rank.hlo) if program.name == module), None)


def step_module(run: Run, profile: Profile) -> str:
    """Return the profile's module: the one it names, or the one that computes most."""
    programs = [program for rank in run.ranks for program in _programs(rank.hlo)]
    named = heaviest(program for program in programs if program.fingerprint in profile.fingerprints)
    step = named or heaviest(programs)
    if step is None:
        raise InputError(
            f"{run.path}: XLA dumped no scheduled program",
            why="nothing was compiled, or --xla_dump_to points elsewhere",
            next=f"counterpoint runs {run.path.parent}",
        )
    return step.name


def _programs(paths: Iterable[Path]) -> Iterator[Program]:
    for path in paths:
        try:
            program = read_program(path)
        except CounterpointError:
            continue  # truncated by the end of the process
        if program.is_scheduled:
            yield program


def log_text(path: Path) -> str:
    """Return the text of a log; empty if it can't be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def platforms_without_pgle(run: Run) -> str:
    """Return the platforms of the run, if none takes PGLE profiles: only GPUs do."""
    found = {
        process.platform for rank in run.ranks for process in rank.processes if process.platform
    }
    return ", ".join(sorted(found)) if found <= {"cpu", "tpu"} else ""


def _platform(run: Run) -> str | None:
    where = platforms_without_pgle(run)
    return f"it ran on {where}, and XLA uses PGLE profiles on GPUs only" if where else None


def _log_says(reason: str, use: ModuleUse | None) -> str:
    return use.reason if use is not None else f"its log does not prove it: {reason}"


def _fits(coverage: Coverage | None, module: str) -> str | None:
    if coverage is None:
        return f"no scheduled module {module} was dumped, so the compiled program is unknown"
    if coverage.staleness.fit in (ProfileFit.STALE, ProfileFit.FOREIGN):
        return f"the profile is {coverage.staleness.fit}: {coverage.staleness.reason}"
    return None


_NOT_COMPARED: Final = Unknown("use of the profile is not proved, so step times are not compared")


@frozen(kw_only=True)
class ProfileMeasurement:
    """A profile for the scheduler, and the program it was measured on."""

    path: Path
    profile: Profile
    module: str | None  # None: whichever the profile turns out to be for
    coverage: Coverage | Unknown
    notes: tuple[str, ...] = ()


@frozen(kw_only=True)
class ComparedRuns:
    """Runs under the same settings, and their step times."""

    runs: tuple[Run, ...]
    scores: tuple[Score | Unknown, ...]


@frozen(kw_only=True)
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
