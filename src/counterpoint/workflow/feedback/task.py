"""The task of a workflow: a workload to run several times, and the directory for its results."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, TypeAlias

from counterpoint.capture import (
    JaxInterpreter,
    ProfileSchedule,
    RunRequest,
    find_interpreter,
    is_python,
    launch,
    may_have_gpu,
)
from counterpoint.core import InputError, UsageError, WriteError, unused_path
from counterpoint.core.arguments import option_words
from counterpoint.core.bounds import check_number
from counterpoint.flags.forms import quoted
from counterpoint.flags.settings import Settings, inherited_settings
from counterpoint.flags.text import render_xla_flags
from counterpoint.flags.versions import LHS, PROFILE, false_stops_scheduler
from counterpoint.pgle.compiler_log import VERBOSE_LOG
from counterpoint.pgle.making.contention import ProfilerConflict, conflicts, processes_here
from counterpoint.pgle.profiles.profile import check_percentile
from counterpoint.runs.outcomes import OutcomeKind
from counterpoint.runs.run import Run

Say: TypeAlias = Callable[[str], None]

_GPUS: Final = frozenset({"cuda", "gpu", "rocm"})
_OF_GPUS: Final = ("jax-cuda", "jax-rocm")  # packages of JAX's GPU backends

NO_CACHE: Final = (("JAX_ENABLE_COMPILATION_CACHE", "false"),)
"""For compared runs: each compiles, so that each log shows what it compiled with."""


@dataclass(frozen=True, kw_only=True)
class LoopOptions:
    """The making of the profile, and the number of compared runs.

    Args:
        repeats: Pairs of runs without and with the profile, in ABBA order.
        percentile: The percentile of an instruction's times that is its cost.
        min_coverage: Stop if the profile covers a smaller share of its program.
    """

    repeats: int = 1
    percentile: float = 50.0
    min_coverage: float = 0.9

    def check(self) -> None:
        """Refuse numbers that make no sense."""
        check_number("--repeats", self.repeats, 1, instead=1)
        check_percentile(self.percentile)
        if not 0 <= self.min_coverage <= 1:
            raise UsageError(f"--min-coverage takes a share from 0 to 1, not {self.min_coverage:g}")


@dataclass(frozen=True, kw_only=True)
class FeedbackTask(LoopOptions):
    """One workload, given by `request`, to be run several times under `directory`."""

    request: RunRequest
    directory: Path

    @property
    def command(self) -> tuple[str, ...]:
        """The command to run."""
        return self.request.command

    @property
    def inherited(self) -> Mapping[str, str]:
        """The environment that every phase starts from."""
        current = self.request.environment
        return os.environ if current is None else current

    @property
    def jaxlib(self) -> str | None:
        """The version that the workload will run; None if it can't be determined."""
        interpreter = find_interpreter(self.command, self.inherited)
        return interpreter.versions.get("jaxlib") if interpreter else None

    def under(self, *flags: tuple[str, str], env: tuple[tuple[str, str], ...] = ()) -> Settings:
        """Return the user's settings, the scheduler and its log, and what the phase needs.

        The scheduler's flag is set in every phase, so that no comparison credits a profile with the
        scheduler's effect; a user's own value is preserved.
        """
        current = inherited_settings(self.inherited).merged(self.request.settings).flags
        base = Settings(() if LHS in current else ((LHS, "true"),), tuple(VERBOSE_LOG.items()))
        return base.merged(self.request.settings).merged(Settings(flags, env))

    @property
    def starts_ranks(self) -> bool:
        """True if `run` starts several processes: then the plain command is not enough."""
        return self.request.ranks is not None or self.request.per != "node"

    def log(self, name: str) -> Path:
        """Return the log of the run of that name, when it is run manually."""
        if self.starts_ranks:
            return self.directory / name / "rank0" / "stderr.log"
        return self.directory / f"{name}.log"

    def recorded(self, name: str, *, profile: bool = False) -> tuple[str, ...]:
        """Return the command that stores a Run in the directory of its phase."""
        window = self.request.window if profile else None
        options = option_words({**_window(window), **_ranks(self.request)})
        directory = self.directory / name
        return ("counterpoint", "run", *options, "-o", str(directory), "--", *self.command)


def _window(window: ProfileSchedule | None) -> dict[str, object]:
    if window is None:
        return {"no_profile": True}
    if window.start_step is None:
        return {}
    return {"profile_start_step": window.start_step, "profile_steps": window.steps}


def _ranks(request: RunRequest) -> dict[str, object]:
    return {"ranks": request.ranks, "per": None if request.per == "node" else request.per}


def claim_directory(directory: Path) -> None:
    """Make the directory, unless something is in it."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        used = any(directory.iterdir())
    except OSError as failure:
        raise WriteError(directory, failure, next="choose a writable directory with -o") from None
    if used:
        raise UsageError(
            f"{directory} is not empty",
            why="existing files are not overwritten",
            next=f"use -o {unused_path(directory)}",
        )


def on_tpus(task: FeedbackTask) -> bool:
    """Return whether the run is told to use TPUs, or has a JAX for them and for no GPUs."""
    name, platforms = _platforms(task)
    if name is not None:
        return "tpu" in platforms
    interpreter = find_interpreter(task.command, task.inherited)
    packages: Mapping[str, str] = {} if interpreter is None else interpreter.versions
    return "libtpu" in packages and not any(one.startswith(_OF_GPUS) for one in packages)


def _platforms(task: FeedbackTask) -> tuple[str | None, set[str]]:
    """Return the variable that names JAX's platforms, and these; None if there is none."""
    variables = {**task.inherited, **task.request.settings.variables}
    for name in ("JAX_PLATFORMS", "JAX_PLATFORM_NAME"):
        if variables.get(name):
            return name, {platform.strip() for platform in variables[name].lower().split(",")}
    return None, set()


def refuse_platform(task: FeedbackTask) -> None:
    """Reject a run that certainly has no GPUs: nothing else is compiled with a profile here."""
    variables = {**task.inherited, **task.request.settings.variables}
    name, platforms = _platforms(task)
    if on_tpus(task):
        words = ["counterpoint", "pgle", "manual", "--print-only"]
        words += ["--env", f"{name}=tpu"] if name is not None else []
        raise UsageError(
            "on TPUs, `pgle` prints its commands and runs none of them",
            why="libtpu looks up other names than a profile has; one of the commands finds them",
            next=shlex.join([*words, "--", *task.command]),
        )
    if name is None:
        interpreter = find_interpreter(task.command, task.inherited)
        versions: Mapping[str, str] = {} if interpreter is None else interpreter.versions
        if "jaxlib" in versions and not any(package.startswith(_OF_GPUS) for package in versions):
            where = interpreter.path if interpreter else "this Python"
            raise UsageError(
                f"the JAX of {where} has no GPU backend",
                why="it runs on the CPU, and XLA uses PGLE profiles on GPUs only",
                next=f"{_python(interpreter)} -m pip install 'jax[cuda13]'",
            )
        if "jaxlib" in versions and _runs_here(task) and not may_have_gpu(variables):
            raise UsageError(
                "this machine has no GPU: no driver device, no nvidia-smi, no libcuda.so",
                why="the program would run on the CPU, and XLA uses PGLE profiles on GPUs only",
                next="use --print-only",
            )
    elif not platforms & _GPUS:
        raise UsageError(
            f"{name}={variables[name]}: the program would not run on GPUs",
            why="XLA uses PGLE profiles on GPUs only",
            next=f"use --env {name}=cuda",
        )


def _runs_here(task: FeedbackTask) -> bool:
    """Return True for a Python command; srun, a script or Ray may go to another machine."""
    away = "RAY_ADDRESS" in {**task.inherited, **task.request.settings.variables}
    return is_python(task.command[0]) and not away


def _python(interpreter: JaxInterpreter | None) -> str:
    return "python" if interpreter is None else shlex.quote(str(interpreter.path))


def refuse_flags(task: FeedbackTask) -> None:
    """Reject flags under which no profile is read, or every run has one."""
    current = inherited_settings(task.inherited).merged(task.request.settings).flags
    if current.get(PROFILE):
        raise UsageError(
            f"--{PROFILE}={current[PROFILE]} is set already",
            why="the runs without a profile would use it, too",
            next=f"counterpoint pgle manual --profile {shlex.quote(current[PROFILE])}"
            f" -- {shlex.join(task.command)}",
        )
    if current.get(LHS) == "false" and false_stops_scheduler(task.jaxlib, profile=True):
        raise UsageError(
            f"--{LHS}=false: this XLA would ignore profiles",
            why="the scheduler uses the costs, and"
            f" {'this jaxlib' if task.jaxlib is None else f'jaxlib {task.jaxlib}'} obeys the flag",
            next=f"use --set {LHS}=true",
        )


def run_workload(
    task: FeedbackTask,
    name: str,
    settings: Settings,
    say: Say,
    *,
    profile: bool,
    command: tuple[str, ...] = (),
) -> Run:
    """Run the workload once, and store the Run under the task's directory.

    A run that fails ends the workflow; its files are kept.
    """
    original = task.request
    request = replace(
        original,
        command=command or original.command,
        directory=task.directory / name,
        name=name,
        settings=settings,
        window=original.window if profile else None,
    )
    run = launch(request, say)
    if run.outcome.kind is OutcomeKind.INTERRUPTED:
        raise KeyboardInterrupt
    if not run.outcome.ok:
        raise InputError(
            f"the {name} run failed: {run.outcome}",
            why=f"its output is in {run.path}",
            next=f"less {shlex.quote(str(_failed(run)))}",
        )
    _refuse_deaf(run, name)
    return run


def _refuse_deaf(run: Run, name: str) -> None:
    """Reject a run whose script overwrites our XLA_FLAGS: it would invalidate all that follows."""
    compiled = any(compile_.kind == "backend" for rank in run.ranks for compile_ in rank.compiles)
    if compiled and not any(rank.hlo for rank in run.ranks):
        raise InputError(
            f"the {name} run compiled, but not under our XLA_FLAGS: XLA dumped nothing",
            why="the program or its script overwrites XLA_FLAGS",
            next='append there: export XLA_FLAGS="... ${XLA_FLAGS:-}"; or pass the Python'
            " command itself",
        )


def refuse_contention(task: FeedbackTask) -> tuple[ProfilerConflict, ...]:
    """Reject a certain conflict with another profiler; return the possible ones."""
    profilers = conflicts(task.inherited, processes_here(), task.jaxlib)
    certain = next((conflict for conflict in profilers if conflict.certain), None)
    if certain is not None:
        raise UsageError(
            f"JAX's profiler can't measure here: {certain.who} ({certain.shown_by})",
            why=certain.effect,
            next=certain.next,
        )
    return profilers


def _failed(run: Run) -> Path:
    rank = next((rank for rank in run.ranks if not rank.outcome.ok), None)
    return run.path if rank is None else rank.stderr


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptPhase:
    """A command, its settings beside the user's environment, and its purpose.

    With `log`, its output is stored in that file, too. With `otherwise`, its failure does not end
    the script: that sentence is printed instead.
    """

    purpose: str
    command: tuple[str, ...]
    settings: Settings = field(default_factory=Settings)
    log: Path | None = None
    otherwise: str = ""


def script(title: str, phases: Iterable[ScriptPhase]) -> str:
    """Format the phases as shell commands that can be pasted."""
    parts = [f"#!/usr/bin/env bash\n# {title}\nset -euo pipefail"]
    parts += [_lines(number, phase) for number, phase in enumerate(phases, 1)]
    return "\n\n".join(parts) + "\n"


def run_phase(task: FeedbackTask, name: str, purpose: str, settings: Settings) -> ScriptPhase:
    """Return one run of the workload: its command, or `counterpoint run` if that starts ranks."""
    log = None if task.starts_ranks else task.log(name)
    command = task.recorded(name) if task.starts_ranks else task.command
    return ScriptPhase(purpose=purpose, command=command, settings=settings, log=log)


def directory_phase(task: FeedbackTask) -> ScriptPhase:
    """Return the first phase of each script, which makes the directory."""
    return ScriptPhase(
        purpose="A directory for the results", command=("mkdir", "-p", str(task.directory))
    )


def log_phase(purpose: str, lines: str, log: Path) -> ScriptPhase:
    """Return a phase that greps a log for the profile; the script continues if nothing is found."""
    return ScriptPhase(
        purpose=purpose,
        command=("grep", "-hE", lines, str(log)),
        otherwise="no such line: the profile was not used",
    )


def step_times_phase(task: FeedbackTask, names: Iterable[str]) -> ScriptPhase:
    """Return the last phase of each script, which shows the step times."""
    if not task.starts_ranks:
        return ScriptPhase(
            purpose="The last lines of each run, to compare step times; one pair is not conclusive",
            command=("tail", "-n", "5", *(str(task.log(name)) for name in names)),
        )
    return ScriptPhase(
        purpose="Median step times of the runs; one pair is not conclusive",
        command=("counterpoint", "runs", str(task.directory)),
    )


def _lines(number: int, phase: ScriptPhase) -> str:
    variables = [f"{name}={shlex.quote(value)}" for name, value in phase.settings.env]
    if phase.settings.xla:
        # Existing flags are kept: of two equal flags the last one wins.
        flags = quoted(render_xla_flags(phase.settings.xla))
        variables.append(f'XLA_FLAGS="${{XLA_FLAGS:-}} {flags}"')
    tee = f" 2>&1 | tee {shlex.quote(str(phase.log))}" if phase.log else ""
    fallback = f" || echo {shlex.quote(phase.otherwise)}" if phase.otherwise else ""
    lines = [*variables, shlex.join(phase.command) + tee + fallback]
    return f"# {number}. {phase.purpose}\n" + " \\\n  ".join(lines)
