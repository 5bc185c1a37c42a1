"""XLA's lookups in a profile: which instructions, by which names, and which cost it finds.

Reimplemented from XLA:GPU's profile-guided estimator and its accuracy checker, and tested against
their own counts. The checker visits the entry and the computations that exactly one `while` runs
(its body and its condition), nothing inside fusions or branches. There it looks up

    a start of an async collective   the latency up to its done, by the start's own name; of a
                                     generic async start, else by the instruction that it wraps
    every other instruction          its cost, by its name

and counts as missing all except instructions that only name a value, loops, and copies. The done of
a collective is not looked up. Nor counted is a collective that a flag has made synchronous; in a
finished program it looks like one that the scheduler found nothing to overlap with, so both are
included here, and marked.

A finished program has other names than XLA looked up: clones by rematerialization
(`fusion.3.remat2` was `fusion.3`), and in newer XLAs collectives that were made synchronous again
(`all-gather.10` was `all-gather-start`). XLA notes the old name on most. Profilers see the new.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from counterpoint.hlo.collectives import collective
from counterpoint.hlo.model.instruction import Computation, Instruction
from counterpoint.hlo.model.program import Program
from counterpoint.hlo.schedule import is_done, is_start
from counterpoint.pgle.profiles.profile import InstructionCost, Profile

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

    The cost of a `collective` is how long it may overlap other work. A `sync` one ended up without
    overlap; XLA may have left it out of its counts.
    """

    instruction: Instruction
    names: tuple[str, ...]
    collective: bool = False
    sync: bool = False


def xla_lookups(program: Program) -> tuple[Lookup, ...]:
    """Return everything a complete profile of the program has a cost for, in schedule order."""
    wrapped = {start: inner for inner, start in program.wrapped.items()}
    lookups: dict[str, Lookup] = {}
    for instruction in visited_instructions(program):
        name = lookup_name(instruction)
        if name not in lookups and _is_asked(program, instruction):
            communicates = _talks(program, instruction)
            inner = wrapped.get(instruction.name) if communicates else None
            names = (name,) if inner is None else (name, inner)
            sync = communicates and (instruction.is_sync or not is_start(instruction))
            lookups[name] = Lookup(instruction, names, communicates, sync)
    return tuple(lookups.values())


def visited_instructions(program: Program) -> Iterator[Instruction]:
    """Yield the instructions that the checker visits, without those created after scheduling."""
    annotated = any(instruction.scheduling_name for instruction in program.instructions)
    for computation in visited_computations(program):
        for instruction in computation.instructions:
            if instruction.scheduling_name or not annotated:
                yield instruction


def visited_computations(program: Program) -> Iterator[Computation]:
    """Yield the computations that XLA's accuracy checker visits.

    Command buffers are created later, from instructions in the computation that calls them.
    """
    for name, computation in program.computations.items():
        callers = program.callers(name)
        loops = [caller for caller in callers if caller.opcode == "while"]
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
    """Return whether it starts or ends a transfer between devices (or to the host)."""
    return instruction.opcode in _P2P or collective(program, instruction) is not None


def lookup_name(instruction: Instruction) -> str:
    """Return the name under which XLA looks up the cost of this instruction."""
    return base_name(instruction.scheduling_name or instruction.name)


def cost_name(instruction: Instruction) -> str:
    """Return the name under which to write the cost of this instruction.

    A clone keeps its own name: XLA averages its cost with that of its original.
    """
    name = instruction.name
    return name if base_name(name) != name else instruction.scheduling_name or name


def base_name(name: str) -> str:
    """Return the name before rematerialization."""
    return _CLONE.sub("", name)


def costs_found(costs: Iterable[InstructionCost], fingerprint: str | None) -> Mapping[str, float]:
    """Return the costs XLA finds for the module of this fingerprint: microseconds by name.

    Costs of other fingerprints are dropped; of duplicates the last one counts. If there are
    rematerialized clones, all costs of a base name are averaged instead.
    """
    own = [(cost.name, cost.us) for cost in costs if cost.fingerprint in (None, fingerprint)]
    if not any(".remat" in name for name, _ in own):
        return dict(own)
    by_base: dict[str, list[float]] = {}
    for name, us in own:
        by_base.setdefault(_AVERAGED.sub("", name), []).append(us)
    return {name: sum(values) / len(values) for name, values in by_base.items()}


def effective_costs(profile: Profile) -> dict[str, InstructionCost]:
    """Return costs by key, each module's in the order of the file.

    A bare name that comes after a module's own overrides it, as in XLA.
    """
    by_module: dict[str | None, list[InstructionCost]] = {}
    for cost in profile.costs:
        by_module.setdefault(cost.fingerprint, []).append(cost)
    mixed = None in by_module and len(by_module) > 1
    return {
        cost.key: cost
        for fingerprint, own in by_module.items()
        for cost in _of_module(fingerprint, own, profile.costs if mixed else own)
    }


def _of_module(
    fingerprint: str | None, own: Iterable[InstructionCost], costs: Iterable[InstructionCost]
) -> Iterable[InstructionCost]:
    us_of = costs_found(costs, fingerprint)
    names = costs_found(own, fingerprint)
    return (InstructionCost(name, us_of.get(name, us), fingerprint) for name, us in names.items())


def same_costs(
    profile: Profile, taken: Mapping[str, InstructionCost]
) -> Mapping[str | None, tuple[str | None, ...]]:
    """Return groups of fingerprints with the same costs, by the first of each.

    Hosts may compile one module to different fingerprints; `make_profile` writes the costs of all
    hosts under each. They are costs of one module: a sum counts them once. Modules with different
    names in the file stay separate whatever they cost, and so do those of a single instruction,
    where equal costs prove nothing.
    """
    own: dict[str | None, dict[str, float]] = {}
    for cost in taken.values():
        own.setdefault(cost.fingerprint, {})[cost.name] = cost.us
    groups: dict[object, list[str | None]] = {}
    for fingerprint, costs in own.items():
        name = profile.origin.get(f"module {fingerprint}", "").partition(",")[0]
        alone = fingerprint if len(costs) == 1 else None
        groups.setdefault((name, alone, frozenset(costs.items())), []).append(fingerprint)
    return {group[0]: tuple(group) for group in groups.values()}
