"""`pgle manual`: JAX's profiler measures one run, and the next are compiled with its profile."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from counterpoint.core import InputError
from counterpoint.core.arguments import option_words
from counterpoint.flags.settings import Settings
from counterpoint.flags.versions import (
    PROFILE,
)
from counterpoint.pgle.applying.libtpu import INIT_ARGS, profile_argument
from counterpoint.pgle.profiles.files import read_profile
from counterpoint.pgle.profiles.profile import MEDIAN
from counterpoint.timeline.reading import read
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
