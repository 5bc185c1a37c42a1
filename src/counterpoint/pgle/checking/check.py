"""How much of a program a profile covers: by instruction, by time, and for its collectives.

XLA prices missing instructions by its own model. For compute that is often good enough; a
collective without a cost is the one the scheduler can't hide well, so they are counted separately.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from counterpoint.core import InputError, Unknown
from counterpoint.hlo import Program
from counterpoint.hlo.origin import provenance
from counterpoint.hlo.schedule import loop_multiplier
from counterpoint.hlo.work import Category, category, describe
from counterpoint.pgle.lookups.names import UnusedCost, unused_costs
from counterpoint.pgle.lookups.needed import (
    Lookup,
    ProfileFit,
    Staleness,
    base_name,
    costs_found,
    lookup_name,
    staleness,
    xla_lookups,
)
from counterpoint.pgle.making.samples import MeasuredTimes
from counterpoint.pgle.profiles.profile import ENDINGS, TEXT, Profile
from counterpoint.pgle.proving.proof import ComplaintKind, LogComplaint

_LONGEST_US: Final = 60e6
_FAR_OFF: Final = 5.0
_UNMEASURED: Final = "the program has no times; pass a profile or a Run that has them"


@dataclass(frozen=True, slots=True)
class CoveredPart:
    """Found, out of a total: instructions, or microseconds of device time."""

    found: float
    whole: float

    @property
    def share(self) -> float:
        """1 if there is nothing to find."""
        return self.found / self.whole if self.whole else 1.0


@dataclass(frozen=True, slots=True)
class LookupAnswer:
    """The profile's answer to one lookup. `us` is None if it has no such name."""

    lookup: Lookup
    us: float | None
    category: Category
    source: str | None
    what: str
    executions: int | None
    measured_us: float | None

    @property
    def name(self) -> str:
        """The name under which a profile should have it."""
        return self.lookup.names[0]


@dataclass(frozen=True, slots=True)
class ImplausibleCost:
    """An implausible cost."""

    name: str
    us: float
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """The coverage of a program by a profile."""

    module: str
    fingerprint: str | None
    answers: tuple[LookupAnswer, ...]
    instructions: CoveredPart
    collectives: CoveredPart
    time: CoveredPart | Unknown
    measured: str | None
    extra: tuple[UnusedCost, ...]
    duplicates: tuple[str, ...]
    doubts: tuple[ImplausibleCost, ...]
    latencies: int  # XLA:GPU ignores these
    staleness: Staleness

    @property
    def missing(self) -> tuple[LookupAnswer, ...]:
        """Longest first if times are known; else collectives, then schedule order."""
        gone = [answer for answer in self.answers if answer.us is None]
        return tuple(
            sorted(
                gone, key=lambda answer: (-(answer.measured_us or 0), not answer.lookup.collective)
            )
        )


def check_profile(
    profile: Profile,
    program: Program,
    measured: MeasuredTimes | Unknown | None = None,
    circumstances: Mapping[str, str] | None = None,
) -> Coverage:
    """Return what XLA would find in `profile` when it schedules `program`."""
    if not program.is_scheduled:
        raise InputError(
            f"{program.name} is not scheduled: its instructions have no final names yet",
            why="XLA looks up costs after it has optimized the program",
            next="pass the dump that ends in after_optimizations.hlo.pb, or compiled.as_text()",
        )
    lookups = xla_lookups(program)
    costs = costs_found(profile.costs, program.fingerprint)
    times = _times(program, lookups, measured) if isinstance(measured, MeasuredTimes) else {}
    answers = tuple(_answer(program, lookup, costs, times) for lookup in lookups)
    collectives = [answer for answer in answers if answer.lookup.collective]
    return Coverage(
        module=program.name,
        fingerprint=program.fingerprint,
        answers=answers,
        instructions=_count(answers),
        collectives=_count(collectives),
        time=_time(answers, measured),
        measured=measured.how if isinstance(measured, MeasuredTimes) else None,
        extra=unused_costs(profile.costs, program, lookups),
        duplicates=tuple(profile.duplicates),
        doubts=tuple(filter(None, map(_doubt, answers))),
        latencies=len(profile.latencies),
        staleness=staleness(profile, program, circumstances),
    )


def _answer(
    program: Program, lookup: Lookup, costs: Mapping[str, float], times: Mapping[str, float]
) -> LookupAnswer:
    instruction = lookup.instruction
    return LookupAnswer(
        lookup=lookup,
        us=next((costs[name] for name in lookup.names if name in costs), None),
        category=category(program, instruction),
        source=provenance(program, instruction).source,
        what=describe(program, instruction),
        executions=loop_multiplier(program, instruction.computation),
        measured_us=times.get(lookup.names[0]),
    )


def _times(
    program: Program, lookups: Iterable[Lookup], measured: MeasuredTimes
) -> dict[str, float]:
    """Return measured time by lookup; rematerialized clones count toward their original."""
    times: dict[str, float] = {}
    wanted = {lookup.names[0] for lookup in lookups}
    for name, us in measured.us.items():
        instruction = program.instruction(name)
        base = lookup_name(instruction) if instruction else base_name(name)
        if base in wanted:
            times[base] = times.get(base, 0.0) + us
    return times


def _count(answers: Sequence[LookupAnswer]) -> CoveredPart:
    return CoveredPart(sum(answer.us is not None for answer in answers), len(answers))


def _time(
    answers: tuple[LookupAnswer, ...], measured: MeasuredTimes | Unknown | None
) -> CoveredPart | Unknown:
    if measured is None:
        return Unknown(_UNMEASURED)
    if isinstance(measured, Unknown):
        return measured
    whole = sum(answer.measured_us or 0.0 for answer in answers)
    if not whole:
        return Unknown("XLA looks up none of the measured instructions")
    return CoveredPart(
        sum(answer.measured_us or 0.0 for answer in answers if answer.us is not None), whole
    )


def _doubt(answer: LookupAnswer) -> ImplausibleCost | None:
    us = answer.us
    if us is None:
        return None
    if us == 0:
        return ImplausibleCost(answer.name, us, "a cost of zero: XLA would overlap nothing with it")
    if us > _LONGEST_US:
        return ImplausibleCost(answer.name, us, "longer than a minute: are these nanoseconds?")
    execution_us = _one_execution(answer)
    if execution_us and not 1 / _FAR_OFF < us / execution_us < _FAR_OFF:
        return ImplausibleCost(
            answer.name, us, f"one execution was measured as {execution_us:.4g} us"
        )
    return None


def _one_execution(answer: LookupAnswer) -> float | None:
    """Return one execution's measured time; None for collectives, where waiting would count too."""
    if not answer.measured_us or not answer.executions or answer.lookup.collective:
        return None
    return answer.measured_us / answer.executions


COVERAGE: Final = 0.9
TIME: Final = 0.9
"""Default minimum shares for a profile to pass."""

_SHOWN: Final = 3
_UNNAMED: Final = "logdir"  # the name used in the guides
_NO_TIME: Final = "the covered share of time is unknown"
_TIMES: Final = (
    "counterpoint run -- python train.py"
    "   # then pass its Run as --program: only a recording has times"
)


@dataclass(frozen=True, slots=True)
class CoverageVerdict:
    """The verdict. `reasons` are its problems, `remarks` other useful facts."""

    passed: bool
    reasons: tuple[str, ...]
    remarks: tuple[str, ...]
    next: str


def judge(
    coverage: Coverage,
    min_coverage: float = COVERAGE,
    min_time: float | None = None,
    recording: str | None = None,
) -> CoverageVerdict:
    """Judge a profile against its program. An explicit `min_time` requires known times.

    `recording` is the file the program was found in, if a profile can be made from it.
    """
    reasons = tuple(
        filter(
            None,
            (
                _stale(coverage),
                _too_few("instructions", coverage.instructions, min_coverage),
                _collectives(coverage, min_coverage),
                _too_short(coverage, min_time),
            ),
        )
    )
    return CoverageVerdict(
        passed=not reasons,
        reasons=reasons,
        remarks=tuple(_remarks(coverage)),
        next=_next(coverage, reasons, recording) if reasons else "",
    )


def _stale(coverage: Coverage) -> str | None:
    fit = coverage.staleness
    return f"{fit.fit}: {fit.reason}" if fit.fit in (ProfileFit.STALE, ProfileFit.FOREIGN) else None


def _too_few(what: str, part: CoveredPart, least: float) -> str | None:
    if part.share >= least:
        return None
    return (
        f"it has costs of {part.found:,.0f} of {part.whole:,.0f} {what} ({part.share:.0%}), "
        f"fewer than {least:.0%}"
    )


def _collectives(coverage: Coverage, least: float) -> str | None:
    reason = _too_few("collectives", coverage.collectives, least)
    names = {answer.name for answer in coverage.answers if answer.lookup.collective}
    misnamed = next((extra for extra in coverage.extra if extra.meant in names), None)
    if reason is None or misnamed is None:
        return reason
    return f"{reason}; {misnamed.name} should be {misnamed.meant}, the name that XLA looks up"


def _too_short(coverage: Coverage, least: float | None) -> str | None:
    time = coverage.time
    if isinstance(time, Unknown):
        if least is None:
            return None
        return f"{_NO_TIME}: {time.reason}"
    wanted = TIME if least is None else least
    if time.share >= wanted:
        return None
    return f"its costs cover {time.share:.0%} of the measured time, less than {wanted:.0%}"


def _remarks(coverage: Coverage) -> Iterator[str]:
    fit = coverage.staleness
    if fit.fit is ProfileFit.UNTOLD:
        yield f"it is unknown whether it was made from this program: {fit.reason}"
    yield from fit.differences
    if coverage.duplicates:
        yield f"duplicates, of which the last counts: {_some(coverage.duplicates)}"
    if coverage.latencies:
        many = coverage.latencies > 1
        which = f"{coverage.latencies:,} latencies" if many else "one latency"
        yield f"XLA:GPU ignores its {which}"
    if not coverage.collectives.whole:
        yield "the program has no collectives, so a profile has nothing to hide"


def _some(names: Sequence[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more:,} more" if more > 0 else "")


def _next(coverage: Coverage, reasons: Sequence[str], recording: str | None) -> str:
    if all(reason.startswith(_NO_TIME) for reason in reasons):
        return _TIMES
    make = shlex.join(["counterpoint", "pgle", "make", recording or _UNNAMED, "-o", "step.pbtxt"])
    if coverage.staleness.fit is ProfileFit.STALE and coverage.staleness.differences:
        return f"{make}   # recorded with the flags it will be used with"
    return make


_EXPECT: Final = (
    "fill the compilation cache in a run with JAX_ENABLE_PGLE=true, then profile a second one "
    "with JAX_COMPILATION_CACHE_EXPECT_PGLE=true"
)

_LINES: Final = (
    (
        ComplaintKind.MISSING_FILE,
        re.compile(r"(PGLE profile file does not exist: .*)"),
        "check --xla_gpu_pgle_profile_file_or_directory_path on every host; use an absolute path",
    ),
    (
        ComplaintKind.UNREADABLE,
        re.compile(r"(Tried but failed to parse PGLE proto from .*|Unable to parse fdo_profile.*)"),
        "counterpoint pgle show FILE",
    ),
    (
        ComplaintKind.DISCARDED,
        re.compile(r"(Found \d+ missing instructions\. Discarding the profile\.)"),
        "--xla_gpu_pgle_accuracy_checker=PGLE_STRICTNESS_LEVEL_WARN, or a profile of this program",
    ),
    (
        ComplaintKind.RENAMED,
        re.compile(r"(Expected instruction name to remain the same\..*)"),
        (
            "--xla_gpu_pgle_accuracy_checker=PGLE_STRICTNESS_LEVEL_WARN: from 0.12 on ERROR fails "
            "all that has a collective which ends up synchronous, also without a profile"
        ),
    ),
    (
        ComplaintKind.SCHEDULER_ANYWAY,
        re.compile(
            r"(Profile data detected but `xla_gpu_enable_latency_hiding_scheduler` unset.*)"
        ),
        "nothing: with a profile XLA runs its latency hiding scheduler whatever that flag says",
    ),
    (ComplaintKind.EMPTY_TRACE, re.compile(r"(PGLE collected an empty trace.*)"), _EXPECT),
    (
        ComplaintKind.CONTENTION,
        re.compile(r"(.*(?:CUPTI_ERROR_MULTIPLE_SUBSCRIBERS|nother profiling session active).*)"),
        "end the other profiler (nsys, DCGM: dcgmi profile --pause), or " + _EXPECT,
    ),
    (
        ComplaintKind.CACHE_MISS,
        re.compile(r"(PERSISTENT CACHE MISS for PGLE-optimized .*)"),
        "run the program with JAX_ENABLE_PGLE=true until it has been recompiled",
    ),
    (
        ComplaintKind.CACHE_WRITE,
        re.compile(r"(PERSISTENT CACHE WRITE with key .*)"),
        "run both times with the same program, flags and jax: a key differs",
    ),
)


def complaint(message: str) -> LogComplaint | None:
    """Return the complaint in a line; None for other lines."""
    for trouble, pattern, next_step in _LINES:
        found = pattern.search(message)
        if found:
            return LogComplaint(trouble, found[1].strip(), next_step)
    return None


_DIGITS: Final = 12
_ADDRESSED: Final = re.compile(rf"-[0-9a-f]{{{_DIGITS}}}$")


def content_addressed_name(data: bytes, stem: str = "step", ending: str = TEXT) -> str:
    """Return `step-<12 digits of the content's SHA-256>.pbtxt`.

    JAX's key of the persistent compilation cache holds the flags, so the path of a profile but not
    its content: a profile replaced under its old name brings back the executable that was compiled
    with the previous one.
    """
    if ending not in ENDINGS:
        raise ValueError(f"XLA reads no profile that ends in {ending}")
    return f"{stem}-{hashlib.sha256(data).hexdigest()[:_DIGITS]}{ending}"


def content_addressed(path: Path) -> Path:
    """Return the content-addressed name for a profile, in the same directory."""
    return path.with_name(content_addressed_name(path.read_bytes(), _stem(path), path.suffix))


def is_content_addressed(path: Path) -> bool:
    """Return whether a file has its content-addressed name."""
    return path == content_addressed(path)


def _stem(path: Path) -> str:
    return _ADDRESSED.sub("", path.stem)
