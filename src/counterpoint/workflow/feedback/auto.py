"""`pgle auto`: JAX measures the first calls of each function, and recompiles it with the result.

AutoPGLE reports little: where it can't engage (a program compiled ahead of time, a backend without
device events, a conflicting profiler) it continues without a profile, with a warning at most. So
each of these is checked before the run or in its output.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from counterpoint.core import Unknown, UsageError
from counterpoint.flags.settings import Settings
from counterpoint.flags.versions import expect_pgle_known
from counterpoint.pgle.compiler_log import CompilerLog, ProfileUse, read_compiler_log
from counterpoint.pgle.complaints import ComplaintKind
from counterpoint.pgle.making.contention import ProfilerConflict
from counterpoint.runs.run import Compile, Run
from counterpoint.runs.scores import Score, score
from counterpoint.workflow.feedback.nsys import require_nsys
from counterpoint.workflow.feedback.profile_proof import log_text, platforms_without_pgle
from counterpoint.workflow.feedback.run_comparison import RunComparison, compare_runs
from counterpoint.workflow.feedback.task import (
    NO_CACHE,
    FeedbackTask,
    Say,
    claim_directory,
    directory_phase,
    log_phase,
    refuse_contention,
    refuse_flags,
    refuse_platform,
    run_phase,
    run_workload,
    script,
    step_times_phase,
)

_CALLS: Final = "JAX_PGLE_PROFILING_RUNS"
_PERCENTILE: Final = "JAX_PGLE_AGGREGATION_PERCENTILE"
_USUAL: Final = {_CALLS: "3", _PERCENTILE: "50"}
"""Where the user sets none: with JAX's own 90, one slow call of a few decides the cost."""
_STEP_SHARE: Final = 0.3  # share of the longest compile that may be the step itself
_LOGGED: Final = "jax._src.compiler,jax._src.compilation_cache"


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoOptions:
    """The number of calls that JAX measures, whether to run before, and nsys on the run after.

    Without `calls` it is the user's JAX_PGLE_PROFILING_RUNS, or else 3.
    """

    calls: int | None = None
    before: bool = True
    nsys: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoResult:
    """The result. `used` only if a program was compiled with costs that JAX measured."""

    directory: Path
    before: Run | None
    optimise: Run
    after: Run | None
    used: bool
    reasons: tuple[str, ...]
    evidence: CompilerLog
    ahead_of_time: tuple[Compile, ...]
    conflicts: tuple[ProfilerConflict, ...]
    scores: tuple[Score | Unknown, Score | Unknown] | None  # before and after
    comparison: RunComparison | Unknown

    @property
    def on_gpu(self) -> bool:
        """True if it ran on GPUs, as far as is known."""
        return not platforms_without_pgle(self.optimise)


def auto(task: FeedbackTask, how: AutoOptions, say: Say) -> AutoResult:
    """Run with AutoPGLE; if it optimized a program, run unchanged, and from the cache it filled."""
    in_the_way = _look_ahead(task, how)
    measure = _measurement(task, how)
    claim_directory(task.directory)
    settings = _settings(task, measure)
    say(
        f"run with AutoPGLE: JAX measures {measure[_CALLS]} calls, and takes percentile"
        f" {measure[_PERCENTILE]} of an instruction's times"
    )
    optimise = run_workload(task, "optimise", settings["optimise"], say, profile=False)
    log = read_compiler_log(_log(optimise), dict(optimise.settings.xla))
    ahead = ahead_of_time(optimise)
    reasons = _why_not(optimise, log, ahead)
    before = after = None
    if not reasons and how.before:
        say("unchanged run")
        before = run_workload(task, "before", task.under(env=NO_CACHE), say, profile=True)
    if not reasons and expect_pgle_known(task.jaxlib):
        say("run from the cache")
        own = not how.nsys
        command = () if own else _nsys_command(task)
        after = run_workload(task, "after", settings["after"], say, profile=own, command=command)
        reasons = _why_not_loaded(after)
    scores = None if before is None or after is None else (score(before), score(after))
    return AutoResult(
        directory=task.directory,
        before=before,
        optimise=optimise,
        after=after,
        used=not reasons,
        reasons=reasons or (log.reason,),
        evidence=log,
        ahead_of_time=ahead,
        conflicts=in_the_way,
        scores=scores,
        comparison=_compared(scores),
    )


def _look_ahead(task: FeedbackTask, how: AutoOptions) -> tuple[ProfilerConflict, ...]:
    """Reject what can't work before anything is run; return possible conflicts."""
    refuse_platform(task)
    refuse_flags(task)
    if how.nsys:
        require_nsys(task)
    return refuse_contention(task)


def auto_script(task: FeedbackTask, how: AutoOptions) -> str:
    """Return the commands that `auto` runs, as a script."""
    measure = _measurement(task, how)
    settings = _settings(task, measure)
    measuring = f"JAX measures {measure[_CALLS]} calls of each function and recompiles it"
    pattern = "Using PGLE profile|Found profile|empty trace"
    phases = [
        directory_phase(task),
        run_phase(task, "optimise", measuring, settings["optimise"]),
        log_phase("The compiler's log about it", pattern, task.log("optimise")),
    ]
    names: list[str] = []
    if how.before:
        names.append("before")
        why = "The unchanged program, for comparison"
        phases.append(run_phase(task, "before", why, task.under(env=NO_CACHE)))
    if expect_pgle_known(task.jaxlib):
        names.append("after")
        why = "The optimized program from the cache; another profiler may attach"
        after = run_phase(task, "after", why, settings["after"])
        phases.append(replace(after, command=_nsys_command(task)) if how.nsys else after)
    return script(
        "The commands of counterpoint pgle auto", [*phases, step_times_phase(task, names)]
    )


def _measurement(task: FeedbackTask, how: AutoOptions) -> dict[str, str]:
    """Return what JAX measures; the user's own values are kept, also those that are inherited."""
    given = {**task.inherited, **task.request.settings.variables}
    measure = {name: given.get(name) or usual for name, usual in _USUAL.items()}
    if how.calls is not None:
        measure[_CALLS] = str(how.calls)
    if not measure[_CALLS].isdecimal() or int(measure[_CALLS]) < 1:
        raise UsageError(
            f"{_CALLS}={measure[_CALLS]}: JAX would measure nothing",
            why="it is the number of calls of each function that AutoPGLE measures",
            next=f"use --runs {_USUAL[_CALLS]}",
        )
    if not measure[_PERCENTILE].isdecimal() or int(measure[_PERCENTILE]) > 100:
        raise UsageError(
            f"{_PERCENTILE}={measure[_PERCENTILE]}: not a percentile from 0 to 100",
            why="with any other number, XLA makes a profile without costs; the usual one is"
            f" {_USUAL[_PERCENTILE]}",
            next="unset it",
        )
    return measure


def _settings(task: FeedbackTask, measurement: Mapping[str, str]) -> dict[str, Settings]:
    cache = (
        ("JAX_ENABLE_COMPILATION_CACHE", "true"),
        ("JAX_COMPILATION_CACHE_DIR", str((task.directory / "cache").absolute())),
        # JAX does not cache what compiles in under a second; the step must be cached.
        ("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0"),
        ("JAX_DEBUG_LOG_MODULES", _LOGGED),
    )
    measure = (("JAX_ENABLE_PGLE", "true"), *measurement.items())
    expect = (("JAX_COMPILATION_CACHE_EXPECT_PGLE", "true"),)
    return {
        "optimise": task.under(env=(*cache, *measure)),
        "after": task.under(env=(*cache, *expect)),
    }


def _nsys_command(task: FeedbackTask) -> tuple[str, ...]:
    report = f"--output={task.directory / 'after-nsys'}"
    return ("nsys", "profile", "--trace=cuda,nvtx", "--sample=none", report, *task.command)


def ahead_of_time(run: Run) -> tuple[Compile, ...]:
    """Return the programs compiled by `.lower().compile()`, the longest compile first."""
    compiles = [
        compile_
        for rank in run.ranks
        for compile_ in rank.compiles
        if compile_.kind == "backend" and compile_.aot
    ]
    return tuple(sorted(compiles, key=lambda compile_: -compile_.seconds))


def _why_not(run: Run, log: CompilerLog, ahead: tuple[Compile, ...]) -> tuple[str, ...]:
    """Return why JAX has compiled nothing with a profile; empty if it has."""
    backend = [
        compile_ for rank in run.ranks for compile_ in rank.compiles if compile_.kind == "backend"
    ]
    reasons: list[str] = []
    if ahead and ahead[0].seconds >= _STEP_SHARE * max(compile_.seconds for compile_ in backend):
        reasons.append(f"{_what(ahead[0])} is compiled ahead of time, where AutoPGLE does not work")
    if where := platforms_without_pgle(run):
        nothing = f"JAX found no GPU kernels to measure on the {where} backend"
        reasons.append(f"{nothing}: it made no PGLE profile, and kept no optimized program")
    if reasons or (log.use is ProfileUse.USED and log.sources):
        return tuple(reasons)
    if any(complaint.kind is ComplaintKind.EMPTY_TRACE for complaint in log.complaints):
        return ("JAX's profiler recorded no kernels: another tool holds CUPTI",)
    return (log.reason if backend else "the program compiled nothing",)


def _what(one: Compile) -> str:
    return f"{one.name or 'the step'}{f' ({one.where})' if one.where else ''}"


def _why_not_loaded(run: Run) -> tuple[str, ...]:
    log = read_compiler_log(_log(run))
    if log.from_cache:
        return ()
    miss = next(
        (complaint for complaint in log.complaints if complaint.kind is ComplaintKind.CACHE_MISS),
        None,
    )
    return (
        miss.text if miss else "the second run did not load the optimized program from the cache",
    )


def _log(run: Run) -> str:
    return "".join(log_text(rank.stderr) for rank in run.ranks)


def _compared(scores: tuple[Score | Unknown, Score | Unknown] | None) -> RunComparison | Unknown:
    if scores is None:
        return Unknown("a comparison needs a run before and a run after")
    before, after = scores
    if isinstance(before, Unknown):
        return before
    if isinstance(after, Unknown):
        return after
    return compare_runs([before.seconds], [after.seconds])
