"""Apply a profile: compile without and with it, and prove by XLA's own log that it was used.

What XLA does with a profile is read in two places that can't err together: its log says what it
found in the file, and the schedules, compared, what it made of that.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from counterpoint.compile import TIMEOUT_S, Compiled, CompileFailed, compile_workload
from counterpoint.compile.inputs import Workload, own_programs
from counterpoint.core import CounterpointError
from counterpoint.flags.versions import LHS, PROFILE, false_is_obeyed, scheduler_on
from counterpoint.hardware import Target
from counterpoint.hlo import Program
from counterpoint.pgle.applying.evidence import read_evidence
from counterpoint.pgle.applying.movement import Movement, movement
from counterpoint.pgle.checking.check import Coverage, check_profile
from counterpoint.pgle.lookups.needed import Fit, costs_found, made_for, renamed
from counterpoint.pgle.making.origin import other_recorded
from counterpoint.pgle.profiles.files import read_profile
from counterpoint.pgle.profiles.profile import Profile
from counterpoint.pgle.proving.proof import LOUD, Evidence, ModuleUse, Trouble, Use

PATH: Final = PROFILE
CHECKER: Final = "xla_gpu_pgle_accuracy_checker"
_PROOF: Final = (
    "Using PGLE profile from",
    "Found profile",
    "PGLE fallback",
    "instructions from the profile",
)
_ENOUGH: Final = 0.9  # of what XLA asks for
_DOUBTS: Final = {
    Fit.STALE: "the profile is of another program",
    Fit.FOREIGN: "the profile is of another program",
    Fit.UNTOLD: "nobody can tell whether the profile was made of this program",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """Two compiles of a workload, without and with a profile, and what lies between them."""

    path: Path
    profile: Profile
    without: Compiled
    compiled: Compiled  # with the profile
    evidence: Evidence
    module: ModuleUse | None  # what the log says of the step
    coverage: Coverage
    movement: Movement
    own: Program | None = None  # what the profile was made of: the same program on its own devices

    @property
    def target(self) -> Target:
        return self.compiled.target

    @property
    def options(self) -> Mapping[str, str]:
        """What both were compiled with."""
        return {name: it for name, it in self.compiled.options.items() if name != PATH}

    @property
    def used(self) -> bool:
        """Whether XLA scheduled this module by costs of the profile."""
        return self.module is not None and self.module.use is Use.USED

    @property
    def reason(self) -> str:
        """What the verdict rests on."""
        return self.module.reason if self.module is not None else self.evidence.reason

    @property
    def changed(self) -> bool:
        """Whether the schedule differs."""
        return self.movement.reordered

    @property
    def stale(self) -> bool:
        """Whether it was made of another program: XLA takes costs by name, whatever they are of."""
        if self.own is not None and self.renamed <= (1 - _ENOUGH) * self.found:
            return False
        return self.coverage.staleness.fit in (Fit.STALE, Fit.FOREIGN)

    @property
    def fits(self) -> bool:
        """Whether XLA used it, and nothing says that it is of another program."""
        return self.used and not self.stale

    @property
    def partial(self) -> bool:
        """Whether much of what XLA asks for is not in it."""
        return self.coverage.instructions.share < _ENOUGH

    @property
    def proof(self) -> tuple[str, ...]:
        """The compiler's own lines about the profile, as it wrote them."""
        lines = [line for line in self.compiled.log.splitlines() if "] " in line]
        return tuple(line for line in lines if any(mark in line for mark in _PROOF))

    @property
    def found(self) -> int:
        """Costs that XLA found: by its count, else by its lines on single instructions."""
        if self.module is None:
            return 0
        return len(self.module.looked_up) if self.module.found is None else self.module.found

    @property
    def missing(self) -> int:
        """What XLA missed; what it does not miss it does not count."""
        return (self.module.missing or 0) if self.module is not None else 0

    @property
    def warnings(self) -> tuple[str, ...]:
        """What may be wrong although it was used, the worst first."""
        stale = self.coverage.staleness
        found: list[str] = []
        if self.own is not None:
            found.append(self._made_there(self.own))
        elif stale.fit in _DOUBTS:
            found.append(f"{_DOUBTS[stale.fit]}: {stale.reason}")
        other = other_recorded(self.profile.origin, self.compiled.target)
        if other is not None:
            here = self.compiled.target
            found.append(f"its costs were measured on {other}, and this compile is for {here}")
        found += [f"made under other circumstances: {it}" for it in stale.differences]
        asked = self.coverage.instructions
        if self.used and self.partial:
            left = asked.whole - asked.found
            found.append(
                f"{left:,.0f} of {asked.whole:,.0f} instructions have no cost in it: XLA schedules "
                "those by its own model"
            )
        if self.used and not self.changed:
            found.append("the schedule is the same with and without the profile")
        found += filter(None, [self._scheduler_denied()])
        # Of what the scheduler does unasked nothing is owed to the profile: it runs both times.
        found += [
            f"{it.text} ({it.next})"
            for it in self.evidence.complaints
            if it.trouble is not Trouble.SCHEDULER_ANYWAY
        ]
        return tuple(found)

    def _made_there(self, own: Program) -> str:
        """What it means that the run of this workload had compiled it otherwise."""
        there, here = self.profile.origin.get("jaxlib"), self.compiled.versions.get("jaxlib")
        said = (
            f"made of this program as its own run compiled it ({own.fingerprint}"
            f"{f', jaxlib {there}' if there else ''}); this compile, without a GPU, is another one "
            f"({self.compiled.fingerprint}, jaxlib {here})"
        )
        if self.keyed:
            return f"{said}: XLA drops the costs, whose names bear the other fingerprint"
        return (
            f"{said}: applied by name, where {self.renamed:,} names seem to stand "
            "for other operations here"
        )

    @property
    def renamed(self) -> int:
        """Names that stood for another operation where the profile was made."""
        return len(renamed(self.own, self.compiled.program)) if self.own is not None else 0

    @property
    def keyed(self) -> bool:
        """Whether each of its costs is of one module, named by its fingerprint."""
        return all(it.fingerprint is not None for it in self.profile.costs)

    def _scheduler_denied(self) -> str | None:
        """What it means that the scheduler was asked not to run."""
        if self.options.get(LHS, "true").lower() not in ("false", "0"):
            return None
        version = self.compiled.versions.get("jaxlib")
        if false_is_obeyed(version):
            return f"{LHS}=false: jaxlib {version} then does not read a profile"
        return (
            f"{LHS}=false: jaxlib {version} runs the scheduler all the same with a profile, and on "
            "Hopper and newer without one, too; elsewhere the schedules differ by the scheduler, "
            "not by the costs"
        )


def apply_profile(
    workload: Workload,
    target: Target,
    path: Path | str,
    options: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
    say: Callable[[str], None] = lambda _: None,
    timeout_s: float = TIMEOUT_S,
) -> Applied:
    """Compile a workload without and with a profile, all else equal.

    A profile that XLA would pass over in silence is refused before (`InputError`); whether the
    rest was used is a matter of proof: ask `used`.
    """
    place = Path(path).absolute()
    profile = read_profile(place)
    # A profile switches the scheduler on, where it would not run without: so it runs both times.
    asked = {**dict(scheduler_on()), **(options or {})}
    plain = {name: value for name, value in asked.items() if name != PATH}
    loud = {**LOUD, **(environment or {})}

    def compiler(given: Mapping[str, str]) -> Compiled:
        return compile_workload(workload, target, given, loud, timeout_s)

    say(f"compiling {workload.name} for {target} without the profile")
    # Without a profile there is nothing to check; jaxlib 0.12 fails when asked to all the same.
    without = compiler({name: it for name, it in plain.items() if name != CHECKER})
    say(f"compiling {workload.name} for {target} with the profile")
    compiled = _compile_with(compiler, {**plain, PATH: str(place)})
    sources = made_for(profile)
    made_of = next((it for it in own_programs(workload) if it.fingerprint in sources), None)
    return weigh(place, profile, without, compiled, made_of)


def weigh(
    path: Path,
    profile: Profile,
    without: Compiled,
    compiled: Compiled,
    made_of: Program | None = None,
) -> Applied:
    """What two compiles prove: one without the profile, one with it and a loud log."""
    evidence = read_evidence(compiled.log, compiled.options)
    costs, name = costs_found(profile.costs, compiled.fingerprint), compiled.program.name
    return Applied(
        path=path,
        profile=profile,
        without=without,
        compiled=compiled,
        evidence=evidence,
        # XLA of jaxlib 0.9 works on a clone and logs the name of the original.
        module=evidence.of(name) or evidence.of(name.removesuffix("-clone")),
        coverage=check_profile(profile, compiled.program, circumstances=compiled.versions),
        movement=movement(without.program, compiled.program, costs),
        own=made_of if compiled.fingerprint not in made_for(profile) else None,
    )


def _compile_with(
    compiler: Callable[[Mapping[str, str]], Compiled], options: Mapping[str, str]
) -> Compiled:
    try:
        return compiler(options)
    except CompileFailed as failure:  # without it, the very same compile went through
        if failure.from_outside:  # no verdict on the profile
            raise
        strict = options.get(CHECKER, "").endswith("ERROR")
        raise CounterpointError(
            "the profile is not used: with it, and only with it, the compile fails",
            why=failure.why or failure.what,
            next=f"--set {CHECKER}=PGLE_STRICTNESS_LEVEL_WARN"
            if strict
            else f"counterpoint pgle check {shlex.quote(options[PATH])} --program DUMP",
        ) from None
