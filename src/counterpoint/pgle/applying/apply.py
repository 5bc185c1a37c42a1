"""Applies a profile: compiles without and with it, and proves from XLA's own log that it was used.

XLA's use of a profile is read from two independent sources: its log says what it found in the file,
and the comparison of the schedules shows the effect. libtpu logs nothing, but dumps the times that
its scheduler gave each instruction (libtpu.py).
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from counterpoint.compile.assumptions import assumed_options
from counterpoint.compile.compiler import CompiledProgram, compile_workload
from counterpoint.compile.failures import CompileFailed
from counterpoint.compile.inputs.scheduled import own_programs
from counterpoint.compile.inputs.workload import Workload
from counterpoint.compile.task import TIMEOUT_S, CompileTask
from counterpoint.core import CounterpointError
from counterpoint.core.scratch import scratch_directory
from counterpoint.flags.versions import LHS, PROFILE, false_stops_scheduler, scheduler_on
from counterpoint.hardware.target import Target
from counterpoint.hlo.model.program import Program
from counterpoint.pgle.applying.libtpu import (
    INIT_ARGS,
    compute_costs,
    fit_by_names,
    profile_argument,
    scheduler_log,
    tpu_profile,
)
from counterpoint.pgle.applying.movement import Movement, movement
from counterpoint.pgle.checking.check import Coverage, check_profile
from counterpoint.pgle.compiler_log import (
    VERBOSE_LOG,
    CompilerLog,
    ModuleUse,
    ProfileUse,
    read_compiler_log,
)
from counterpoint.pgle.complaints import ComplaintKind
from counterpoint.pgle.lookups import costs_found
from counterpoint.pgle.making.origin import other_recorded
from counterpoint.pgle.profiles.files import read_profile, write_profile
from counterpoint.pgle.profiles.profile import Profile
from counterpoint.pgle.staleness import ProfileFit, reused_names, source_fingerprints

CHECKER: Final = "xla_gpu_pgle_accuracy_checker"
_PROOF: Final = (
    "Using PGLE profile from",
    "Found profile",
    "PGLE fallback",
    "instructions from the profile",
)
_ENOUGH: Final = 0.9  # share of the instructions that XLA looks up
_DOUBTS: Final = {
    ProfileFit.STALE: "the profile belongs to another program",
    ProfileFit.FOREIGN: "the profile belongs to another program",
    ProfileFit.UNTOLD: "it is unknown whether the profile was made from this program",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedProfile:
    """Two compiles of a workload, without and with a profile, and the differences between them."""

    path: Path
    profile: Profile
    without: CompiledProgram
    compiled: CompiledProgram  # with the profile
    evidence: CompilerLog
    module: ModuleUse | None  # the log's report on the step's module
    coverage: Coverage
    movement: Movement
    own: Program | None = (
        None  # the program that the profile was made from, compiled on its own devices
    )
    for_libtpu: Profile | None = None  # the same costs in the names that libtpu looks up
    times: tuple[str, ...] = ()  # of libtpu's scheduler, beside those of the profile

    @property
    def target(self) -> Target:
        return self.compiled.target

    @property
    def options(self) -> Mapping[str, str]:
        """The options of both compiles."""
        return {name: value for name, value in self.compiled.options.items() if name != PROFILE}

    @property
    def used(self) -> bool:
        """True if XLA scheduled this module by costs of the profile."""
        return self.module is not None and self.module.use is ProfileUse.USED

    @property
    def reason(self) -> str:
        """The reason for the verdict."""
        return self.module.reason if self.module is not None else self.evidence.reason

    @property
    def changed(self) -> bool:
        """True if the schedules differ."""
        return self.movement.reordered

    @property
    def stale(self) -> bool:
        """True if it was made from another program: XLA takes costs by name, of any program."""
        if self.own is not None and self.renamed <= (1 - _ENOUGH) * self.found:
            return False
        return self.coverage.staleness.fit in (ProfileFit.STALE, ProfileFit.FOREIGN)

    @property
    def fits(self) -> bool:
        """True if XLA used it, and there is no sign that it is of another program."""
        return self.used and not self.stale

    @property
    def looked_up(self) -> tuple[int, int]:
        """The costs that XLA found, and those that it looked up, by its own count.

        By the names that the program has if its log counts none, as libtpu's.
        """
        part = self.coverage.instructions
        if self.found:
            return self.found, self.found + self.missing
        return round(part.found), round(part.whole)

    @property
    def partial(self) -> bool:
        """True if it lacks much of what XLA looks up."""
        with_cost, whole = self.looked_up
        return with_cost < _ENOUGH * whole

    @property
    def proof(self) -> tuple[str, ...]:
        """The compiler's own lines about the profile."""
        if self.times:
            return self.times
        lines = [line for line in self.compiled.log.splitlines() if "] " in line]
        return tuple(line for line in lines if any(mark in line for mark in _PROOF))

    @property
    def found(self) -> int:
        """Number of costs XLA found: by its count, else by its lines on single instructions."""
        if self.module is None:
            return 0
        return len(self.module.looked_up) if self.module.found is None else self.module.found

    @property
    def missing(self) -> int:
        """Number of instructions XLA missed; it writes no count if there are none."""
        return (self.module.missing or 0) if self.module is not None else 0

    @property
    def warnings(self) -> tuple[str, ...]:
        """Possible problems even if it was used, the worst first."""
        stale = self.coverage.staleness
        problems: list[str] = []
        if self.own is not None:
            problems.append(self._made_there(self.own))
        elif stale.fit in _DOUBTS:
            problems.append(f"{_DOUBTS[stale.fit]}: {stale.reason}")
        other = other_recorded(self.profile.origin, self.compiled.target)
        if other is not None:
            target = self.compiled.target
            problems.append(f"its costs are of {other}, but this compile is for {target}")
        problems += [
            f"made under different conditions: {difference}" for difference in stale.differences
        ]
        had, whole = self.looked_up
        if self.used and self.partial:
            problems.append(
                f"{whole - had:,} of {whole:,} instructions have no cost in it: XLA schedules "
                "those by its own model"
            )
        if self.used and not self.changed:
            problems.append("the schedule is the same with and without the profile")
        problems += filter(None, [self._scheduler_denied()])
        # This one is not due to the profile: the scheduler runs both times.
        problems += [
            f"{complaint.text} ({complaint.next})"
            for complaint in self.evidence.complaints
            if complaint.kind is not ComplaintKind.SCHEDULER_ANYWAY
        ]
        return tuple(problems)

    def _made_there(self, own: Program) -> str:
        """Return the warning that the workload's own run compiled it differently."""
        old, new = self.profile.origin.get("jaxlib"), self.compiled.versions.get("jaxlib")
        message = (
            f"made from this program as its own run compiled it ({own.fingerprint}"
            f"{f', jaxlib {old}' if old else ''}); this compile, without a GPU, differs "
            f"({self.compiled.fingerprint}, jaxlib {new})"
        )
        names = (
            f", although {self.renamed:,} names seem to stand for other operations here"
            if self.renamed
            else ""
        )
        return f"{message}: applied by the names of instructions, without fingerprints{names}"

    @property
    def renamed(self) -> int:
        """Number of names that stood for another operation where the profile was made."""
        return len(reused_names(self.own, self.compiled.program)) if self.own is not None else 0

    def _scheduler_denied(self) -> str | None:
        """Return the warning about a scheduler that was turned off."""
        if self.options.get(LHS, "true").lower() not in ("false", "0"):
            return None
        version = self.compiled.versions.get("jaxlib")
        if false_stops_scheduler(version, profile=True):
            return f"{LHS}=false: jaxlib {version} then does not read a profile"
        if false_stops_scheduler(version):
            alone = "without one it does not"
        else:
            alone = "on Hopper and newer without one, too, elsewhere not"
        return (
            f"{LHS}=false: jaxlib {version} runs the scheduler anyway with a profile; {alone}, so"
            " the schedules may differ by the scheduler, not by the costs"
        )


def apply_profile(
    workload: Workload,
    target: Target,
    path: Path | str,
    options: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
    say: Callable[[str], None] = lambda _: None,
    timeout_s: float = TIMEOUT_S,
) -> AppliedProfile:
    """Compile a workload without and with a profile, all else equal.

    A profile that XLA would silently ignore is refused first (`InputError`); `used` tells whether
    XLA used the rest.
    """
    place = Path(path).absolute()
    profile = read_profile(place)
    if target.tpu is not None:
        task = CompileTask(
            workload=workload,
            target=target,
            options=options or {},
            environment=environment or {},
            timeout_s=timeout_s,
            schedule_only=True,
        )
        return apply_on_tpus(task, place, profile, say)
    # A profile turns the scheduler on where it would otherwise be off, so it is on for both
    # compiles.
    requested = {**dict(scheduler_on()), **(options or {})}
    plain = {name: value for name, value in requested.items() if name != PROFILE}
    loud = {**VERBOSE_LOG, **(environment or {})}

    def compiler(given: Mapping[str, str]) -> CompiledProgram:
        return compile_workload(workload, target, given, loud, timeout_s)

    say(f"compiling {workload.name} for {target} without the profile")
    # Without a profile there is nothing to check; newer XLAs fail if asked to check anyway.
    without = compiler(_unchecked(plain))
    sources = source_fingerprints(profile)
    library = assumed_options(workload, target, plain, environment or {}).options
    if sources and without.fingerprint not in sources and library != plain:
        # Costs that `predict` made are of a program whose GEMMs are library calls.
        say(f"compiling {workload.name} for {target} with GEMMs as library calls")
        predicted = compiler(_unchecked(library))
        if predicted.fingerprint in sources:
            plain, without = dict(library), predicted
    source_program = next((it for it in own_programs(workload) if it.fingerprint in sources), None)
    say(f"compiling {workload.name} for {target} with the profile")
    if source_program is None or without.fingerprint in sources:
        compiled = _compile_with(compiler, {**plain, PROFILE: str(place)})
        return compare_compiles(place, profile, without, compiled, source_program)
    with scratch_directory("pgle") as scratch:
        bare = by_name(profile, source_program)
        file = write_profile(bare, scratch / f"{place.stem}.pbtxt")
        compiled = _compile_with(compiler, {**plain, PROFILE: str(file)})
        return compare_compiles(place, bare, without, compiled, source_program)


def by_name(profile: Profile, program: Program) -> Profile:
    """Return the costs of one program under bare names, which XLA takes in any program.

    A compile without the device has another fingerprint than that of the run, and XLA drops costs
    of another fingerprint. It is for a program that is known to be the same.
    """
    costs = (
        replace(cost, fingerprint=None)
        for cost in profile.costs
        if cost.fingerprint in (None, program.fingerprint)
    )
    return replace(profile, costs=tuple(costs))


def apply_on_tpus(
    task: CompileTask, place: Path, profile: Profile, say: Callable[[str], None] = lambda _: None
) -> AppliedProfile:
    """Schedule without and with the profile; what follows the schedule does not read it.

    The task compiles only the schedule.
    """

    def schedule(environment: Mapping[str, str], *, seen: bool) -> CompiledProgram:
        workload, target = task.workload, task.target
        return compile_workload(
            workload,
            target,
            task.options,
            environment,
            task.timeout_s,
            schedule_only=True,
            scheduler_view=seen,
        )

    say(f"scheduling {task.workload.name} for {task.target} without the profile")
    without, named = (schedule(task.environment, seen=seen) for seen in (True, False))
    given = tpu_profile(profile, named.program, without)
    compiled = without
    if given.file.costs:
        say(f"scheduling {task.workload.name} for {task.target} with the profile")
        with scratch_directory("pgle") as scratch:
            file = write_profile(given.file, scratch / "libtpu.pb")
            words = [task.environment.get(INIT_ARGS), profile_argument(file)]
            told = {**task.environment, INIT_ARGS: " ".join(filter(None, words))}
            compiled = schedule(told, seen=True)
    log, times = scheduler_log(given.costs, without, compiled)
    coverage = check_profile(
        given.costs, compiled.program, None, compiled.versions, compiled.clock.us
    )
    differences = coverage.staleness.differences
    fit = replace(fit_by_names(profile, named.program), differences=differences)
    return AppliedProfile(
        path=place,
        profile=profile,
        without=without,
        compiled=compiled,
        evidence=log,
        module=log.modules[0],
        coverage=replace(coverage, staleness=fit),
        movement=movement(without.program, compiled.program, compute_costs(given.costs, without)),
        for_libtpu=given.file,
        times=tuple(times),
    )


def _unchecked(options: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in options.items() if name != CHECKER}


def compare_compiles(
    path: Path,
    profile: Profile,
    without: CompiledProgram,
    compiled: CompiledProgram,
    made_of: Program | None = None,
) -> AppliedProfile:
    """Evaluate two compiles: one without the profile, one with it and a verbose log."""
    log = read_compiler_log(compiled.log, compiled.options)
    costs, name = costs_found(profile.costs, compiled.fingerprint), compiled.program.name
    return AppliedProfile(
        path=path,
        profile=profile,
        without=without,
        compiled=compiled,
        evidence=log,
        # XLA in jaxlib 0.9 works on a clone and logs the name of the original.
        module=log.of(name) or log.of(name.removesuffix("-clone")),
        coverage=check_profile(profile, compiled.program, circumstances=compiled.versions),
        movement=movement(without.program, compiled.program, costs),
        own=made_of if compiled.fingerprint not in source_fingerprints(profile) else None,
    )


def _compile_with(
    compiler: Callable[[Mapping[str, str]], CompiledProgram], options: Mapping[str, str]
) -> CompiledProgram:
    try:
        return compiler(options)
    except CompileFailed as failure:  # without it, the same compile succeeded
        if failure.from_outside:  # not caused by the profile
            raise
        strict = options.get(CHECKER, "").endswith("ERROR")
        raise CounterpointError(
            "the profile is not used: with it, and only with it, the compile fails",
            why=failure.why or failure.what,
            next=f"use --set {CHECKER}=PGLE_STRICTNESS_LEVEL_WARN"
            if strict
            else f"counterpoint pgle check {shlex.quote(options[PROFILE])} --program DUMP",
        ) from None
