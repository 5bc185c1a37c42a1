"""Whether a run was compiled with a profile: by its compiler's log, and by what it compiled.

A log may claim too much (`Found profile` is written for an empty one), and costs may be found
under names that stand for other operations. So the proof has three parts: the compiler opened the
profile for the step, it found costs there, and what it compiled bears the fingerprint of the
program that was measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from counterpoint.core.errors import CounterpointError, InputError
from counterpoint.hlo import Program, read_program
from counterpoint.pgle.check import Coverage, check_profile
from counterpoint.pgle.evidence import read_evidence
from counterpoint.pgle.profile import Profile
from counterpoint.pgle.proof import Complaint, ModuleUse, Use
from counterpoint.pgle.staleness import Fit
from counterpoint.pgle.step_module import heaviest
from counterpoint.runs import Rank, Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What was proved of one run, and what is missing; `used` only if nothing is."""

    used: bool
    reasons: tuple[str, ...]
    module: ModuleUse | None = None
    coverage: Coverage | None = None
    complaints: tuple[Complaint, ...] = ()


def prove(run: Run, profile: Profile, module: str) -> Proof:
    """Whether every rank of the run compiled `module` with the profile."""
    proofs = [_of_rank(rank, run, profile, module) for rank in run.ranks]
    failed = next((proof for proof in proofs if not proof.used), None)
    if failed is not None:
        return failed
    if not proofs:
        return Proof(used=False, reasons=(f"{run.path} has no ranks",))
    return proofs[0]


def _of_rank(rank: Rank, run: Run, profile: Profile, module: str) -> Proof:
    where = f"rank {rank.number}: " if len(run.ranks) > 1 else ""
    evidence = read_evidence(_text(rank.stderr), dict(run.settings.xla))
    use = evidence.of(module)
    program = compiled(rank, module)
    coverage = None if program is None else check_profile(profile, program)
    said = use is not None and use.use is Use.USED
    wants = () if said else (_platform(run) or _log_says(evidence.reason, use),)
    missing = tuple(f"{where}{want}" for want in (*wants, _fits(coverage, module)) if want)
    reasons = missing or (f"{where}{use.reason}" if use else "",)
    return Proof(
        used=not missing,
        reasons=reasons,
        module=use,
        coverage=coverage,
        complaints=evidence.complaints,
    )


def compiled(rank: Rank, module: str) -> Program | None:
    """The module of that name as the rank's compiler scheduled it; the largest of several."""
    return next((it for it in _programs(rank.hlo) if it.name == module), None)


def step_module(run: Run, profile: Profile) -> str:
    """The module that the profile is for: the one it names, else the one that computes most."""
    programs = [it for rank in run.ranks for it in _programs(rank.hlo)]
    named = heaviest(it for it in programs if it.fingerprint in profile.fingerprints)
    step = named or heaviest(programs)
    if step is None:
        raise InputError(
            f"{run.path}: XLA dumped no scheduled program",
            why="nothing was compiled, or --xla_dump_to went elsewhere",
            next=f"counterpoint runs {run.path.parent}",
        )
    return step.name


def _programs(paths: Iterable[Path]) -> Iterator[Program]:
    for path in paths:
        try:
            program = read_program(path)
        except CounterpointError:
            continue  # cut off by the end of the process
        if program.is_scheduled:
            yield program


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def elsewhere(run: Run) -> str:
    """The platforms it ran on, if none of them takes PGLE profiles: only GPUs do."""
    found = {it.platform for rank in run.ranks for it in rank.processes if it.platform}
    return ", ".join(sorted(found)) if found <= {"cpu", "tpu"} else ""


def _platform(run: Run) -> str | None:
    where = elsewhere(run)
    return f"it ran on {where}, where XLA takes no PGLE profile: GPUs do" if where else None


def _log_says(reason: str, use: ModuleUse | None) -> str:
    return use.reason if use is not None else f"its log does not prove it: {reason}"


def _fits(coverage: Coverage | None, module: str) -> str | None:
    if coverage is None:
        return f"no scheduled module {module} was dumped, so what was compiled is not known"
    if coverage.staleness.fit in (Fit.STALE, Fit.FOREIGN):
        return f"the profile is {coverage.staleness.fit}: {coverage.staleness.reason}"
    return None
