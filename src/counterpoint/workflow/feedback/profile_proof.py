"""Proof that the ranks of a run compiled with a profile, from their logs and programs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from counterpoint.core import CounterpointError, InputError
from counterpoint.hlo.model.program import Program
from counterpoint.hlo.reader import read_program
from counterpoint.pgle.applying.subject import heaviest
from counterpoint.pgle.checking.check import Coverage, check_profile
from counterpoint.pgle.compiler_log import ModuleUse, ProfileUse, read_compiler_log
from counterpoint.pgle.complaints import LogComplaint
from counterpoint.pgle.profiles.profile import Profile
from counterpoint.pgle.staleness import ProfileFit
from counterpoint.runs.run import Rank, Run


@dataclass(frozen=True, slots=True, kw_only=True)
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
    log = read_compiler_log(log_text(rank.stderr), dict(run.settings.xla))
    use = log.of(module)
    program = compiled(rank, module)
    coverage = None if program is None else check_profile(profile, program)
    is_used = use is not None and use.use is ProfileUse.USED
    wants = () if is_used else (_platform(run) or _log_says(log.reason, use),)
    missing = tuple(f"{where}{want}" for want in (*wants, _fits(coverage, module)) if want)
    reasons = missing or (f"{where}{use.reason}" if use else "",)
    return ProfileProof(
        used=not missing,
        reasons=reasons,
        module=use,
        coverage=coverage,
        complaints=log.complaints,
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
    platforms = {
        process.platform for rank in run.ranks for process in rank.processes if process.platform
    }
    return ", ".join(sorted(platforms)) if platforms <= {"cpu", "tpu"} else ""


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
