"""`measure`: all results of one trial, from its Run and from the end of its gang."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Final, cast

from counterpoint.capture.losses import read_losses
from counterpoint.core import CounterpointError, Unknown
from counterpoint.flags.settings import Settings
from counterpoint.hlo.model.program import Program
from counterpoint.hlo.reader import read_program
from counterpoint.runs import layout
from counterpoint.runs.compiles import all_compiles
from counterpoint.runs.reader import read_run
from counterpoint.runs.reports import effective_flags
from counterpoint.runs.run import BURSTS, Rank, Run, StepStart, longest_compiles, module_of
from counterpoint.runs.scores import disturbances, score, undisturbed
from counterpoint.runs.steady import FEWEST, Steady, steady
from counterpoint.tune.executors.executor import GangEnd
from counterpoint.tune.schedule_hash import schedule_hash
from counterpoint.tune.trial.applied_settings import why_not_applied
from counterpoint.tune.trial.failures import FailureCause, disk_full_line, why_failed, why_no_run
from counterpoint.tune.trial.report import Losses, TrialFailure, TrialReport

_UNCHANGED: Final = Settings()
NONE_SEEN: Final = "no steps were recorded"
_REMAT_TRIED: Final = "by rematerialization; only reduced to"
"""Message of XLA's hlo_rematerialization.cc if recomputation could not save enough."""
_COMPARED: Final = 8
"""Maximum number of ranks whose programs are compared, including the first."""
_NEAR: Final = 0.5
"""Share of the longest compile time above which a module may be the step."""
_MOST_NOTES: Final = 6


@dataclass(frozen=True, slots=True)
class TrialStepTimes:
    """Step times in seconds in order, their source, and notes on them."""

    seconds: tuple[float, ...]
    source: str
    notes: tuple[str, ...] = ()


def step_times(run: Run) -> TrialStepTimes | Unknown:
    """Return the steps of the slowest rank: ranks go in lockstep, so one that is late delays all.

    If no steps were recorded while it ran, return those of its profile, if there is one.
    """
    found = [times for rank in run.ranks if (times := _of_rank(rank)).seconds]
    if found:
        return max(found, key=lambda times: median(times.seconds))
    if any(rank.steps_in_bursts for rank in run.ranks):
        return Unknown(BURSTS)
    if not run.profiles:
        return Unknown(NONE_SEEN)
    scored = score(run)
    return scored if isinstance(scored, Unknown) else TrialStepTimes(scored.each_s, scored.source)


def _of_rank(rank: Rank) -> TrialStepTimes:
    source = rank.step_source or "log"
    if not rank.steps or rank.steps_in_bursts:
        return TrialStepTimes((), source)
    spans = disturbances(rank)
    own = _own_step_times(rank.steps, spans)
    seconds = undisturbed(rank.steps, spans) if own is None else own
    if len(seconds) >= FEWEST or len(rank.step_seconds) <= FEWEST:
        return TrialStepTimes(seconds, source)
    disturbed = "most steps were disturbed by compilation or profiling: all are counted"
    return TrialStepTimes(rank.step_seconds[1:], source, (disturbed,))


def _own_step_times(
    steps: Sequence[StepStart], spans: Sequence[tuple[float, float]]
) -> tuple[float, ...] | None:
    """Return the program's own step times, if any; it prints a line at the end of a step."""
    if any(step.seconds is None for step in steps):
        return None
    return tuple(
        after.seconds
        for before, after in pairwise(steps)
        if after.seconds is not None
        and not any(start < after.start_s and end > before.start_s for start, end in spans)
    )


def measure(directory: Path, ended: GangEnd, changes: Settings = _UNCHANGED) -> TrialReport:
    """Evaluate a trial; a directory without a complete Run is a failure of some kind.

    `changes` are the settings in which its arm differs from the base.
    """
    try:
        run = read_run(directory)
    except CounterpointError as damage:
        cause = why_no_run(directory, ended, damage.what)
        return TrialReport(failure=cause.failure, detail=cause.detail)
    losses = read_losses(run)
    step = _step_file(run.ranks[0])[0] if run.ranks else None
    options = effective_flags(run.ranks[0], step) if step else {}
    result = _steady_or_cause(run, ended, losses, why_not_applied(run, changes, options))
    program, notes = _program(run)
    peak, limit = _memory(run)
    return TrialReport(
        steady=result if isinstance(result, Steady) else None,
        failure=result.failure if isinstance(result, FailureCause) else None,
        detail=result.detail if isinstance(result, FailureCause) else "",
        program=schedule_hash(program) if program else None,
        compiled=_compiled(run, program, options),
        peak_bytes=peak,
        limit_bytes=limit,
        remat=_remat(run, program),
        losses=losses if losses.steps or losses.norm_steps else None,
        hosts=tuple(dict.fromkeys(rank.host for rank in run.ranks)),
        versions=tuple(sorted(run.versions.items())),
        notes=(*notes, *run.notes)[:_MOST_NOTES],
        steps_seen=_steps_seen(run),
        devices=_devices(run),
        compile_s=compiles.seconds if (compiles := all_compiles(run)) else None,
        start_s=_start_s(run, result) if isinstance(result, Steady) else None,
    )


def _start_s(run: Run, found: Steady) -> float | None:
    """Return what a run took beside its steps, as if all of them had been at the steady pace."""
    steps = max((_count_steps(rank.steps) for rank in run.ranks if rank.steps), default=None)
    if run.ended is None or steps is None:
        return None
    took_s = (run.ended - run.started).total_seconds()
    return max(took_s - steps * found.median_s, 0.0)


def _devices(run: Run) -> tuple[str, ...]:
    """Return each kind of device once."""
    seen = (
        device for rank in run.ranks for process in rank.processes for device in process.devices
    )
    return tuple(dict.fromkeys(seen))


def _steps_seen(run: Run) -> int | None:
    """Return the number of steps; None if the run was stopped after a fixed number of steps."""
    if (run.path / layout.STOPPED).exists():
        return None
    return max((_count_steps(rank.steps) for rank in run.ranks if rank.steps), default=None)


def _count_steps(steps: Sequence[StepStart]) -> int:
    """Count steps by their numbers, since a line may be printed only every tenth step."""
    first, last = steps[0].step, steps[-1].step
    return len(steps) if first is None or last is None else last - first + 1


def _steady_or_cause(
    run: Run, ended: GangEnd, losses: Losses, not_applied: str | None
) -> Steady | FailureCause:
    cause = why_failed(run, ended)
    if cause is not None:
        return cause
    if not_applied is not None:
        return FailureCause(TrialFailure.NOT_APPLIED, not_applied)
    if losses.values and not math.isfinite(losses.values[-1]):
        fact = f"the loss of step {losses.steps[-1]} is {losses.values[-1]}"
        return FailureCause(TrialFailure.NAN, f"{fact}; see {run.path}")
    times = step_times(run)
    if isinstance(times, Unknown):
        return _untimed(run, times.reason, few=True)
    found = steady(times.seconds, times.source)
    if isinstance(found, Unknown):
        return _untimed(run, found.reason, few=len(times.seconds) < FEWEST)
    return Steady(
        median_s=found.median_s,
        steps=found.steps,
        warm_up=found.warm_up,
        spread=found.spread,
        source=found.source,
        notes=(*times.notes, *found.notes),
    )


def _untimed(run: Run, reason: str, *, few: bool) -> FailureCause:
    """Return why a run that ended well has no step time."""
    if (full := disk_full_line(run)) is not None:
        return FailureCause(TrialFailure.DISK_FULL, full)
    failure = TrialFailure.NO_STEPS if few else TrialFailure.UNSTEADY
    return FailureCause(failure, f"{reason}; see {run.path}")


def _program(run: Run) -> tuple[Program | None, tuple[str, ...]]:
    """Return the scheduled step of the first rank, and a note if another rank's differs."""
    if not run.ranks:
        return None, ()
    first, *others = run.ranks
    program, why = _step_of(first)
    if program is None:
        return None, (why,) if why else ()
    mine = schedule_hash(program)
    for rank in others[: _COMPARED - 1]:
        theirs, _ = _step_of(rank)
        # Among small programs another may have taken longest to compile there: no evidence.
        same = theirs is not None and theirs.name == program.name
        if theirs is not None and same and schedule_hash(theirs) != mine:
            return program, (f"ranks {first.number} and {rank.number} run different programs",)
    return program, ()


def _compiled(run: Run, program: Program | None, options: Mapping[str, str]) -> str | None:
    """Return a hash of the step and of all compiler options; None if either is unknown."""
    if program is None or not options:
        return None
    place = str(run.path)
    kept = sorted(
        (name, value)
        for name, value in options.items()
        # A program from JAX's compilation cache names the dump of the run that compiled it.
        if place not in value and name != "xla_dump_to"
    )
    text = repr((schedule_hash(program), kept))
    return hashlib.blake2b(text.encode(errors="surrogateescape"), digest_size=8).hexdigest()


def _step_file(rank: Rank) -> tuple[Path | None, str]:
    """Return the file of a rank's scheduled step, or None and why there is none.

    A program from JAX's compilation cache may have no dump.
    """
    if not rank.hlo:
        return None, ""
    compiles = rank.step_compiles or rank.compiles
    cached = {it.name for it in compiles if it.kind == "cache_hit" and it.name}
    dumped = {module_of(path, cached) for path in rank.hlo}
    if missing := cached - dumped:
        names = ", ".join(sorted(missing)[:3])
        return None, f"its program is unknown: {names} came from JAX's compilation cache"
    compiled = {it.name for it in compiles if it.name}
    files = [path for path in rank.hlo if module_of(path, compiled)] or rank.hlo
    took = {} if cached else longest_compiles(compiles)
    seconds = {path: took.get(module_of(path, took), 0.0) for path in files}
    # Compile times of small programs are random: of those close to the longest, take the largest.
    near = [path for path in files if seconds[path] >= _NEAR * max(seconds.values())]
    return max(near, key=lambda path: path.stat().st_size), ""


def _step_of(rank: Rank) -> tuple[Program | None, str]:
    """Return a rank's program, or None and why it is unknown."""
    path, why = _step_file(rank)
    try:
        return read_program(path) if path else None, why
    except (CounterpointError, OSError, ValueError) as damage:
        return None, f"the dumped program can't be read: {damage}"


def _memory(run: Run) -> tuple[int | None, int | None]:
    """Return the highest peak of memory of any device, and the lowest limit."""
    peaks = [
        value
        for rank in run.ranks
        for process in rank.processes
        for name, value in process.peak_memory.items()
        if name.startswith("device")
    ]
    limits = [
        value
        for rank in run.ranks
        for process in rank.processes
        if isinstance(limits_of_devices := process.facts.get("memory_limit"), dict)
        for value in cast("dict[str, object]", limits_of_devices).values()
        if isinstance(value, int)
    ]
    return max(peaks, default=None), min(limits, default=None)


def _remat(run: Run, program: Program | None) -> bool | None:
    """Return True if XLA recomputed: it marks its clones. None without the program."""
    if any(_REMAT_TRIED in line.text for rank in run.ranks[:1] for line in rank.compiler_lines):
        return True
    return (
        None
        if program is None
        else any(".remat" in instruction.name for instruction in program.instructions)
    )
