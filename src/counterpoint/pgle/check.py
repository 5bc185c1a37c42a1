"""How much of a program a profile covers: by instruction, by time, and its collectives apart.

What is missing XLA prices by its own model. For compute that is often good enough; a collective
without a cost is the one thing the scheduler can't hide well, so those are counted apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from counterpoint.core.basis import Unknown
from counterpoint.core.errors import InputError
from counterpoint.hlo import (
    Category,
    Program,
    category,
    describe,
    loop_multiplier,
    provenance,
)
from counterpoint.pgle.extras import Extra, extras
from counterpoint.pgle.measured import Measured
from counterpoint.pgle.needed import Lookup, asked_name, base_name, costs_found, needed
from counterpoint.pgle.profile import Profile
from counterpoint.pgle.staleness import Staleness, staleness

_LONGEST_US: Final = 60e6
_FAR_OFF: Final = 5.0
_UNMEASURED: Final = "the program was given without times: name a profile or a Run that has them"


@dataclass(frozen=True, slots=True)
class Part:
    """Found, of how much: instructions, or microseconds of device time."""

    found: float
    whole: float

    @property
    def share(self) -> float:
        """1 when there is nothing to be found."""
        return self.found / self.whole if self.whole else 1.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What the profile says to one lookup. `us` is None when it has no such name."""

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
class Doubt:
    """A cost that can't be right."""

    name: str
    us: float
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """What a profile gives to a program."""

    module: str
    fingerprint: str | None
    answers: tuple[Answer, ...]
    instructions: Part
    collectives: Part
    time: Part | Unknown
    measured: str | None
    extra: tuple[Extra, ...]
    duplicates: tuple[str, ...]
    doubts: tuple[Doubt, ...]
    latencies: int  # XLA:GPU leaves these out
    staleness: Staleness

    @property
    def missing(self) -> tuple[Answer, ...]:
        """Longest first where times are known; else collectives, then schedule order."""
        gone = [answer for answer in self.answers if answer.us is None]
        return tuple(
            sorted(gone, key=lambda it: (-(it.measured_us or 0), not it.lookup.collective))
        )


def check_profile(
    profile: Profile,
    program: Program,
    measured: Measured | Unknown | None = None,
    circumstances: Mapping[str, str] | None = None,
) -> Coverage:
    """What XLA would find of `profile` when it schedules `program`."""
    if not program.is_scheduled:
        raise InputError(
            f"{program.name} is not scheduled: its instructions have no final names yet",
            why="XLA looks costs up after it has optimised the program",
            next="give the dump that ends in after_optimizations.hlo.pb, or compiled.as_text()",
        )
    lookups = needed(program)
    costs = costs_found(profile.costs, program.fingerprint)
    times = _times(program, lookups, measured) if isinstance(measured, Measured) else {}
    answers = tuple(_answer(program, it, costs, times) for it in lookups)
    talks = [it for it in answers if it.lookup.collective]
    return Coverage(
        module=program.name,
        fingerprint=program.fingerprint,
        answers=answers,
        instructions=_count(answers),
        collectives=_count(talks),
        time=_time(answers, measured),
        measured=measured.how if isinstance(measured, Measured) else None,
        extra=extras(profile.costs, program, lookups),
        duplicates=tuple(profile.duplicates),
        doubts=tuple(filter(None, map(_doubt, answers))),
        latencies=len(profile.latencies),
        staleness=staleness(profile, program, circumstances),
    )


def _answer(
    program: Program, lookup: Lookup, costs: Mapping[str, float], times: Mapping[str, float]
) -> Answer:
    it = lookup.instruction
    return Answer(
        lookup=lookup,
        us=next((costs[name] for name in lookup.names if name in costs), None),
        category=category(program, it),
        source=provenance(program, it).source,
        what=describe(program, it),
        executions=loop_multiplier(program, it.computation),
        measured_us=times.get(lookup.names[0]),
    )


def _times(program: Program, lookups: Iterable[Lookup], measured: Measured) -> dict[str, float]:
    """Measured time by lookup; clones by rematerialisation count with what they are clones of."""
    times: dict[str, float] = {}
    asked = {it.names[0] for it in lookups}
    for name, us in measured.us.items():
        instruction = program.instruction(name)
        base = asked_name(instruction) if instruction else base_name(name)
        if base in asked:
            times[base] = times.get(base, 0.0) + us
    return times


def _count(answers: Sequence[Answer]) -> Part:
    return Part(sum(it.us is not None for it in answers), len(answers))


def _time(answers: tuple[Answer, ...], measured: Measured | Unknown | None) -> Part | Unknown:
    if measured is None:
        return Unknown(_UNMEASURED)
    if isinstance(measured, Unknown):
        return measured
    whole = sum(it.measured_us or 0.0 for it in answers)
    if not whole:
        return Unknown("none of the instructions that were measured is one that XLA asks for")
    return Part(sum(it.measured_us or 0.0 for it in answers if it.us is not None), whole)


def _doubt(answer: Answer) -> Doubt | None:
    us = answer.us
    if us is None:
        return None
    if us == 0:
        return Doubt(answer.name, us, "nothing takes no time: XLA would overlap nothing with it")
    if us > _LONGEST_US:
        return Doubt(answer.name, us, "longer than a minute: are these nanoseconds?")
    one = _one_execution(answer)
    if one and not 1 / _FAR_OFF < us / one < _FAR_OFF:
        return Doubt(answer.name, us, f"one execution was measured as {one:.4g} us")
    return None


def _one_execution(answer: Answer) -> float | None:
    """What it was measured as; of a collective, waiting for late ranks would count as well."""
    if not answer.measured_us or not answer.executions or answer.lookup.collective:
        return None
    return answer.measured_us / answer.executions
