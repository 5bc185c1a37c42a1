"""What XLA asks a profile: for which instructions, by which names, and which cost it finds.

Restated from XLA:GPU's profile-guided estimator and its accuracy checker, and held against their
own counts in the tests. The checker visits the entry and the computations that exactly one `while`
runs (its body and its condition), nothing inside fusions or branches. There it asks

    a start of an async collective   for the latency up to its done, by the start's own name; of a
                                     generic async start, else by the instruction that it wraps
    every other instruction          for its cost, by its name

and counts as missing all but what names a value only, loops, and copies. The done of a collective
is not asked. Nor counted is a collective that a flag has made synchronous; in a finished program
it looks like one that the scheduler left without anything to run beside, so both are taken as
asked here, and marked.

A finished program has other names than XLA asked for: of clones by rematerialisation
(`fusion.3.remat2` was `fusion.3`), and from 0.12 on of collectives that were made plain again
(`all-gather.10` was `all-gather-start`). XLA notes the old name beside most. Profilers see the new.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from counterpoint.hlo import Computation, Instruction, Program
from counterpoint.hlo.collectives import collective
from counterpoint.hlo.origin import stable_key
from counterpoint.hlo.schedule import is_done, is_start
from counterpoint.pgle.profiles.profile import Cost, Profile

_CLONE: Final = re.compile(r"\.remat\d*(\.\d+)*$")
_AVERAGED: Final = re.compile(r"\.remat\d*$")
_NAMES_A_VALUE: Final = frozenset(
    {
        *("get-tuple-element", "bitcast", "constant", "parameter", "tuple", "partition-id"),
        *("replica-id", "opt-barrier", "optimization-barrier"),
    }
)
_NOT_MISSED: Final = _NAMES_A_VALUE | {"while", "copy"}
_P2P: Final = ("send", "recv", "send-done", "recv-done")
_COMMAND_BUFFER: Final = "command_buffer"


@dataclass(frozen=True, slots=True)
class Lookup:
    """One instruction that XLA counts as found or missing, and the names it tries, in order.

    The cost of a `collective` is how long it may run beside other work. One that is `sync` ended up
    without such; XLA may have left it out of its counts.
    """

    instruction: Instruction
    names: tuple[str, ...]
    collective: bool = False
    sync: bool = False


def needed(program: Program) -> tuple[Lookup, ...]:
    """Everything that a complete profile of the program has a cost of, in schedule order."""
    wrapped = {start: inner for inner, start in program.wrapped.items()}
    annotated = any(it.scheduling_name for it in program.instructions)
    asked: dict[str, Lookup] = {}
    for computation in checked(program):
        for instruction in computation.instructions:
            if annotated and not instruction.scheduling_name:
                continue  # made after the scheduler
            name = asked_name(instruction)
            if name not in asked and _is_asked(program, instruction):
                talks = _talks(program, instruction)
                inner = wrapped.get(instruction.name) if talks else None
                names = (name,) if inner is None else (name, inner)
                sync = talks and (instruction.is_sync or not is_start(instruction))
                asked[name] = Lookup(instruction, names, talks, sync)
    return tuple(asked.values())


def checked(program: Program) -> Iterator[Computation]:
    """The computations that XLA's accuracy checker visits.

    Command buffers are made after it, out of instructions that stood beside their call.
    """
    for name, computation in program.computations.items():
        callers = program.callers(name)
        loops = [it for it in callers if it.opcode == "while"]
        if name == program.entry or len(loops) == 1:
            yield computation
            yield from _command_buffers(program, computation)


def _command_buffers(program: Program, computation: Computation) -> Iterator[Computation]:
    for instruction in computation.instructions:
        if _calls_command_buffer(instruction):
            yield program.computations[instruction.calls[0]]


def _calls_command_buffer(instruction: Instruction) -> bool:
    calls = instruction.calls
    return instruction.opcode == "call" and bool(calls) and calls[0].startswith(_COMMAND_BUFFER)


def _is_asked(program: Program, instruction: Instruction) -> bool:
    if instruction.opcode in _NOT_MISSED or _calls_command_buffer(instruction):
        return False
    return not (is_done(instruction) and _talks(program, instruction))


def _talks(program: Program, instruction: Instruction) -> bool:
    """Whether it starts or ends a transfer between devices (or to the host, by send and recv)."""
    return instruction.opcode in _P2P or collective(program, instruction) is not None


def asked_name(instruction: Instruction) -> str:
    """The name under which XLA looks for the cost of what runs as this instruction."""
    return base_name(instruction.scheduling_name or instruction.name)


def cost_name(instruction: Instruction) -> str:
    """The name to write the cost of what ran as this instruction under.

    A clone keeps its own: XLA averages it with its original, which ran beside it.
    """
    name = instruction.name
    return name if base_name(name) != name else instruction.scheduling_name or name


def base_name(name: str) -> str:
    """The name as XLA knew it before it recomputed things to save memory."""
    return _CLONE.sub("", name)


def costs_found(costs: Iterable[Cost], fingerprint: str | None) -> Mapping[str, float]:
    """What XLA looks up in a profile, for the module of this fingerprint: microseconds by name.

    Costs of other fingerprints are dropped, of duplicates the last one counts. With clones by
    rematerialisation among them, all costs of a base name are averaged instead.
    """
    own = [(cost.name, cost.us) for cost in costs if cost.fingerprint in (None, fingerprint)]
    if not any(".remat" in name for name, _ in own):
        return dict(own)
    by_base: dict[str, list[float]] = {}
    for name, us in own:
        by_base.setdefault(_AVERAGED.sub("", name), []).append(us)
    return {name: sum(values) / len(values) for name, values in by_base.items()}


_FINGERPRINT: Final = re.compile(r"\b[0-9a-f]{32}\b")
_SAME_WORKLOAD: Final = 0.5  # of the names: below it, another model's names match by chance
_SHOWN: Final = 3


class Fit(StrEnum):
    """What a profile is to a program."""

    FITS = "fits"
    STALE = "stale"  # XLA takes its costs, which are of other operations
    FOREIGN = "foreign"  # XLA takes none of its costs, or hardly any
    UNTOLD = "untold"


@dataclass(frozen=True, slots=True)
class Staleness:
    """The verdict, what it rests on, and what differs between making and using, if known."""

    fit: Fit
    reason: str
    differences: tuple[str, ...] = ()


def staleness(
    profile: Profile,
    program: Program,
    circumstances: Mapping[str, str] | None = None,
) -> Staleness:
    """Judge a profile by fingerprints; `circumstances` are told of the program as origin is.

    Keys that stand in both the profile's origin and the circumstances (versions, flags) are
    compared: they say why a fingerprint differs, or, without one, that it may.
    """
    differences = tuple(_differences(profile.origin, circumstances or {}))
    fit, reason = _by_fingerprint(profile, program, differences)
    return Staleness(fit, reason, differences)


def made_for(profile: Profile) -> tuple[str, ...]:
    """Fingerprints of the modules that a profile was made of, as its costs or its head tell."""
    told = [word for it in profile.origin.items() for word in _FINGERPRINT.findall(" ".join(it))]
    return tuple(dict.fromkeys((*profile.fingerprints, *told)))


def names_in_common(profile: Profile, program: Program) -> float:
    """Share of the program's lookups that bear a name of the profile, whatever its module."""
    lookups = needed(program)
    names = {cost.name for cost in profile.costs}
    return sum(any(name in names for name in it.names) for it in lookups) / max(len(lookups), 1)


def renamed(before: Program, after: Program) -> tuple[str, ...]:
    """Names that both programs ask a profile for, and that stand for different operations."""
    old = {it.names[0]: it.instruction for it in needed(before)}
    return tuple(
        it.names[0]
        for it in needed(after)
        if it.names[0] in old
        and stable_key(before, old[it.names[0]]) != stable_key(after, it.instruction)
    )


def _by_fingerprint(
    profile: Profile, program: Program, differences: tuple[str, ...]
) -> tuple[Fit, str]:
    sources = made_for(profile)
    if program.fingerprint is None:
        return Fit.UNTOLD, (
            "the program bears no fingerprint: XLA:GPU before jaxlib 0.5 wrote none, and compilers"
            " for other devices never do"
        )
    if program.fingerprint in sources:
        return Fit.FITS, f"made of this very program (fingerprint {program.fingerprint})"
    if not sources:
        untold = "its names are bare and it does not say which module it was made of"
        return (
            (Fit.STALE, f"made under other circumstances; {untold}")
            if differences
            else (
                Fit.UNTOLD,
                untold,
            )
        )
    made_of = ", ".join(sources[:_SHOWN]) + (" and others" if len(sources) > _SHOWN else "")
    share = names_in_common(profile, program)
    other = f"made of {made_of}, but this program is {program.fingerprint}"
    if all(cost.fingerprint is not None for cost in profile.costs):
        return Fit.FOREIGN, f"{other}; XLA drops each of its costs ({share:.0%} of names match)"
    if share < _SAME_WORKLOAD:
        return Fit.FOREIGN, f"{other}; {share:.0%} of the names match"
    return Fit.STALE, (
        f"{other}: {share:.0%} of the names match, but of another build they may stand for other "
        "operations, and XLA takes their costs without a word"
    )


def _differences(origin: Mapping[str, str], circumstances: Mapping[str, str]) -> Iterator[str]:
    for key, value in circumstances.items():
        if key in origin and origin[key] != value:
            yield f"{key}: {origin[key] or 'none'} when made, {value or 'none'} now"
