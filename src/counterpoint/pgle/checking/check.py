"""The coverage of a program by a profile: by instruction, by time, and for its collectives.

XLA prices missing instructions by its own model. For compute that is often good enough; a
collective without a cost is the one the scheduler can't hide well, so they are counted separately.
"""

from __future__ import annotations

import shlex
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Final

from counterpoint.core import InputError, Unknown
from counterpoint.core.frozen import frozen
from counterpoint.hlo import Program
from counterpoint.hlo.loops import loop_multiplier
from counterpoint.hlo.origin import provenance
from counterpoint.hlo.work import Category, category, describe
from counterpoint.pgle.lookups import (
    Lookup,
    ProfileFit,
    Staleness,
    UnusedCost,
    base_name,
    costs_found,
    lookup_name,
    staleness,
    unused_costs,
    xla_lookups,
)
from counterpoint.pgle.making.samples import MeasuredTimes
from counterpoint.pgle.profiles.profile import Profile

_LONGEST_US: Final = 60e6
_FAR_OFF: Final = 5.0
_UNMEASURED: Final = "the program has no times; pass a profile or a Run that has them"


@frozen
class CoveredPart:
    """Found, out of a total: instructions, or microseconds of device time."""

    found: float
    whole: float

    @property
    def share(self) -> float:
        """1 if there is nothing to find."""
        return self.found / self.whole if self.whole else 1.0


@frozen
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


@frozen
class ImplausibleCost:
    """An implausible cost."""

    name: str
    us: float
    why: str


@frozen(kw_only=True)
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
    scheduled: Container[str] | None = None,
) -> Coverage:
    """Return what XLA would find in `profile` when it schedules `program`.

    `scheduled` are the names that its scheduler looks at; by default, at all.
    """
    if not program.is_scheduled:
        raise InputError(
            f"{program.name} is not scheduled: its instructions have no final names yet",
            why="XLA looks up costs after it has optimized the program",
            next="pass the dump that ends in after_optimizations.hlo.pb, or compiled.as_text()",
        )
    lookups = [
        lookup
        for lookup in xla_lookups(program)
        if scheduled is None or lookup.names[0] in scheduled
    ]
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


@frozen
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
