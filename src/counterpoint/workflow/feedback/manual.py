"""`pgle manual`: JAX's profiler measures one run, and the next are compiled with its profile."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from counterpoint.core import InputError, UsageError
from counterpoint.core.arguments import option_words
from counterpoint.core.frozen import frozen
from counterpoint.flags import Settings, inherited_settings
from counterpoint.flags.versions import (
    DISABLED_PASSES,
    PROFILE,
    async_collectives_off,
    scheduler_off,
)
from counterpoint.pgle.applying import INIT_ARGS, profile_argument
from counterpoint.pgle.profiles import (
    MEDIAN,
    read_profile,
)
from counterpoint.timeline import read
from counterpoint.workflow.feedback.feedback import (
    Feedback,
    existing_profile,
    feed_back,
    measurement,
)
from counterpoint.workflow.feedback.run_comparison import abba_order
from counterpoint.workflow.feedback.task import (
    NO_CACHE,
    FeedbackTask,
    Say,
    ScriptPhase,
    claim_directory,
    directory_phase,
    log_phase,
    on_tpus,
    refuse_contention,
    refuse_flags,
    refuse_platform,
    run_phase,
    run_workload,
    script,
    step_times_phase,
)

COMMAND_BUFFERS_OFF: Final = ("xla_gpu_enable_command_buffer", "")
"""For a profiled run: kernels of a CUDA graph do not have the names of instructions."""


_WITH: Final = (
    "With the profile. Use a new absolute path for each new profile: JAX keys its "
    "compilation cache by the path, not by the content"
)


def manual(task: FeedbackTask, say: Say, profile: Path | None = None) -> Feedback:
    """Profile a run, make a profile of it, run without and with it, and prove that it was used."""
    refuse_platform(task)
    refuse_flags(task)
    if profile is not None:
        read_profile(profile)  # reports a bad profile before anything is created
    else:
        refuse_contention(task)
    claim_directory(task.directory)
    if profile is not None:
        return feed_back(task, "manual", None, existing_profile(task, profile), say)
    say("profile run")
    settings = task.under(COMMAND_BUFFERS_OFF, env=NO_CACHE)
    run = run_workload(task, "profile", settings, say, profile=True)
    if not run.profiles:
        raise InputError(
            f"{run.path}: the run left no profile",
            why=run.why_no_profile,
            next=f"counterpoint explain {shlex.quote(str(run.path))}",
        )
    timeline = read(*map(str, run.profiles))
    return feed_back(task, "manual", run, measurement(task, timeline, run, say), say)


def manual_script(task: FeedbackTask, profile: Path | None = None) -> str:
    """Return the commands that `manual` runs, as a script."""
    if profile is not None:
        read_profile(profile)
    if on_tpus(task):
        phases = [directory_phase(task), *_on_tpus(task, profile)]
        return script("The commands of counterpoint pgle manual on TPUs", phases)
    place = profile or task.directory / "step.pbtxt"
    measuring = () if profile else _measuring(task, place)
    phases = [directory_phase(task), *measuring, *comparing(task, place)]
    return script("The commands of counterpoint pgle manual", phases)


def _on_tpus(task: FeedbackTask, profile: Path | None) -> Iterator[ScriptPhase]:
    """Yield what measures, translates and compares; a .pb is taken for one that libtpu reads."""
    own = task.request.settings.merged(Settings((), NO_CACHE))
    profiled, costs = str(task.directory / "profile"), profile or task.directory / "step.pbtxt"
    file = task.directory / "libtpu.pb"
    if costs.suffix == file.suffix:
        file = costs
    else:
        command = task.recorded("profile", profile=True)
        yield ScriptPhase(purpose="Profile run", command=command, settings=own)
        if profile is None:
            yield make_phase(task, (profiled,), costs)
        place = {"program": profiled, "target": "v5e-8", "out": file}
        yield ScriptPhase(
            purpose="Put your slice for v5e-8. The names and times that libtpu looks up;"
            " exits with 1 if it does not use them",
            command=("counterpoint", "pgle", "apply", str(costs), *option_words(place)),
        )
    given = " ".join(
        filter(None, [task.inherited.get(INIT_ARGS), profile_argument(file.absolute())])
    )
    names: list[str] = []
    for with_it in abba_order(task.repeats):
        kind = "with" if with_it else "without"
        names.append(f"{kind}-{1 + sum(name.startswith(f'{kind}-') for name in names)}")
        settings = own.merged(Settings((), ((INIT_ARGS, given),))) if with_it else own
        why = f"{kind.capitalize()} the profile, all else equal"
        yield run_phase(task, names[-1], why, settings)
    yield step_times_phase(task, sorted(names))


def _measuring(task: FeedbackTask, profile_file: Path) -> tuple[ScriptPhase, ...]:
    profiled = str(task.directory / "profile")
    return (
        ScriptPhase(
            purpose="Profile run: CUDA graphs off, so that kernels carry their instructions' names",
            command=task.recorded("profile", profile=True),
            settings=task.under(COMMAND_BUFFERS_OFF, env=NO_CACHE),
        ),
        make_phase(task, (profiled,), profile_file),
        ScriptPhase(
            purpose="Does it cover the program? Exits with 1 if not",
            command=(
                "counterpoint",
                "pgle",
                "check",
                str(profile_file),
                *option_words({"program": profiled}),
            ),
        ),
    )


def make_phase(task: FeedbackTask, sources: tuple[str, ...], profile_file: Path) -> ScriptPhase:
    """Return the phase that makes the profile."""
    statistic = (
        () if task.percentile == MEDIAN else option_words({"percentile": f"{task.percentile:g}"})
    )
    return ScriptPhase(
        purpose="One cost per instruction, for the program it was measured on",
        command=("counterpoint", "pgle", "make", *sources, "-o", str(profile_file), *statistic),
    )


def comparing(
    task: FeedbackTask, profile_file: Path, *checks: ScriptPhase, dump: Path | None = None
) -> tuple[ScriptPhase, ...]:
    """Return the runs without and with a profile, and the checks that prove its use.

    The first run without it leaves XLA's dump in `dump`, for `checks` after the runs.
    """
    phases: list[ScriptPhase] = []
    names: list[str] = []
    for with_it in abba_order(task.repeats):
        kind = "with" if with_it else "without"
        names.append(f"{kind}-{1 + sum(name.startswith(f'{kind}-') for name in names)}")
        flags = ((PROFILE, str(profile_file.absolute())),) if with_it else ()
        if dump is not None and names[-1] == "without-1":
            flags = (("xla_dump_to", str(dump.absolute())),)
        settings = task.under(*flags, env=NO_CACHE)
        why = _WITH if with_it else "Without the profile, all else equal"
        phases.append(run_phase(task, names[-1], why, settings))
    pattern = "Using PGLE profile|Found profile|Found [0-9]+ instr|Missing [0-9]+"
    phases.append(log_phase("The compiler's log about the profile", pattern, task.log("with-1")))
    return (*phases, *checks, step_times_phase(task, sorted(names)))


_OPTIONS: Final = (
    "--trace=cuda,nvtx",
    "--sample=none",
    "--cpuctxsw=none",
    "--cuda-graph-trace=node",
)


@frozen
class NsysSource:
    """Existing exports, or options for `nsys profile`; async collectives may be disabled."""

    exports: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    disable_async: bool = False


def nsys(task: FeedbackTask, how: NsysSource, say: Say) -> Feedback:
    """Measure a run with nsys (or read exports of one), make a profile, run without and with it."""
    refuse_platform(task)
    refuse_flags(task)
    if not how.exports:
        require_nsys(task)
    if how.exports:
        timeline = read(*how.exports)  # rejected before anything is created
        claim_directory(task.directory)
        return feed_back(task, "nsys", None, measurement(task, timeline, None, say), say)
    claim_directory(task.directory)
    say("profile run under nsys")
    settings = _settings(task, disable_async=how.disable_async)
    command = _command(task, task.directory / "nsys", how.options)
    run = run_workload(task, "profile", settings, say, profile=False, command=command)
    reports = sorted(task.directory.glob("nsys*.nsys-rep"))
    if not reports:
        raise InputError(
            f"{task.directory}: nsys left no report",
            why="its own messages are in the run's stderr",
            next=f"less {run.ranks[0].stderr}",
        )
    timeline = read(*map(str, reports))
    return feed_back(task, "nsys", run, measurement(task, timeline, run, say), say)


def require_nsys(task: FeedbackTask) -> None:
    """Raise a UsageError if nsys is not on the PATH."""
    if shutil.which("nsys", path=task.inherited.get("PATH")) is None:
        raise UsageError(
            "nsys is not on the PATH",
            why="Nsight Systems is needed to record a run, and to read a .nsys-rep",
            next="install Nsight Systems, or pass an existing export with `from=`",
        )


def nsys_script(task: FeedbackTask, how: NsysSource) -> str:
    """Return the commands that `nsys` runs, as a script."""
    place, report = task.directory / "step.pbtxt", task.directory / "nsys"
    phases = [directory_phase(task)]
    if not how.exports:
        phases.append(
            ScriptPhase(
                purpose="Profile run: nothing overlaps, so that each time is an instruction's own",
                command=_command(task, report, how.options, single=True),
                settings=_settings(task, disable_async=how.disable_async),
            )
        )
    dump = None if task.starts_ranks else task.directory / "hlo"
    compiled = dump or task.directory / "without-1"
    check = ScriptPhase(
        purpose="Does it cover the program? Exits with 1 if not",
        command=("counterpoint", "pgle", "check", str(place), *option_words({"program": compiled})),
    )
    phases.append(make_phase(task, how.exports or (f"{report}.nsys-rep",), place))
    phases += comparing(task, place, check, dump=dump)
    return script("The commands of counterpoint pgle nsys", phases)


def _settings(task: FeedbackTask, *, disable_async: bool) -> Settings:
    base = task.under(COMMAND_BUFFERS_OFF, env=NO_CACHE)
    return serial_settings(base, task.inherited, task.jaxlib, disable_async=disable_async)


def _command(
    task: FeedbackTask, report: Path, options: tuple[str, ...], *, single: bool = False
) -> tuple[str, ...]:
    # Each process on this machine needs its own report: %p is its number.
    name = str(report) if single or (task.request.ranks in (None, 1)) else f"{report}-%p"
    return ("nsys", "profile", *_OPTIONS, *options, f"--output={name}", *task.command)


def serial_settings(
    settings: Settings,
    inherited: Mapping[str, str],
    version: str | None,
    *,
    disable_async: bool,
) -> Settings:
    """Turn the scheduler off, beside other disabled passes; async collectives on request.

    Nothing overlaps then, so an instruction's time is its own. XLA takes a program's fingerprint
    before scheduling, so disabling the scheduler's pass keeps the program. Disabling async
    collectives does not: it compiles another program, in which the same names stand for other
    instructions.
    """
    under = inherited_settings(inherited)
    for name, value in scheduler_off(version):
        settings = (
            settings.joined(name, value, under=under)
            if name == DISABLED_PASSES
            else settings.merged(Settings(((name, value),)))
        )
    if disable_async:
        settings = settings.merged(Settings(async_collectives_off(version)))
    return settings
