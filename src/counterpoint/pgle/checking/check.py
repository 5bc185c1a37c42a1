"""The coverage of a program by a profile: by instruction, by time, and for its collectives.

XLA prices missing instructions by its own model. For compute that is often good enough; a
collective without a cost is the one the scheduler can't hide well, so they are counted separately.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final

from counterpoint.core import InputError, Unknown
from counterpoint.core.field import Field, Form
from counterpoint.hlo.category import Category, category
from counterpoint.hlo.description import describe
from counterpoint.hlo.loops import loop_multiplier
from counterpoint.hlo.model.program import Program
from counterpoint.hlo.provenance import provenance
from counterpoint.pgle.lookups import Lookup, base_name, costs_found, lookup_name, xla_lookups
from counterpoint.pgle.making.samples import MeasuredTimes
from counterpoint.pgle.profiles.profile import Profile
from counterpoint.pgle.staleness import Staleness, staleness
from counterpoint.pgle.unused_costs import UnusedCost, unused_costs

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

    name: Annotated[str, Field("the instruction", "name", Form.NAME)]
    us: Annotated[float, Field("its cost, in microseconds", "us", Form.US)]
    why: Annotated[str, Field("why it is implausible", "why it is implausible")]


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
