"""Unused costs: names in a profile that XLA does not look up, and what was meant by them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from counterpoint.hlo.model.program import Program
from counterpoint.pgle.lookups import Lookup, base_name, lookup_name, visited_instructions
from counterpoint.pgle.profiles.profile import InstructionCost

_STAGE: Final = re.compile(r"-(start|done)(?=$|\.)")


class UnusedReason(StrEnum):
    """The reason why XLA does not look up a name."""

    OTHER_MODULE = "of another module"
    COLLECTIVE = "a collective not named by its start"
    RENAMED = "a name that XLA gave after its lookup"
    ABSENT = "not in the program"
    NOT_ASKED = "in the program, but XLA does not look it up"


@dataclass(frozen=True, slots=True)
class UnusedCost:
    """An unused cost; `meant` is the name under which XLA would find it."""

    name: str
    us: float
    why: UnusedReason
    meant: str | None = None


def unused_costs(
    costs: Iterable[InstructionCost], program: Program, lookups: Iterable[Lookup]
) -> tuple[UnusedCost, ...]:
    """Return every unused name, once. XLA uses a copy's cost, though it never misses one.

    Tools that read profilers write a collective as `all-gather.3` or by its done. XLA looks only
    for its start, so the most important costs are lost.
    """
    listed = list(lookups)
    wanted = {name for lookup in listed for name in lookup.names}
    wanted |= {lookup_name(it) for it in visited_instructions(program) if it.opcode == "copy"}
    starts = {lookup.names[0]: _core(lookup.names[0]) for lookup in listed if lookup.collective}
    seen: dict[tuple[str, str | None], UnusedCost] = {}
    for cost in costs:
        extra = _extra(cost, program, wanted, starts)
        if extra is not None:
            seen[cost.name, cost.fingerprint] = extra
    return tuple(seen.values())


def _extra(
    cost: InstructionCost, program: Program, looked_up: set[str], starts: Mapping[str, str]
) -> UnusedCost | None:
    base = base_name(cost.name)
    if cost.fingerprint not in (None, program.fingerprint):
        return UnusedCost(cost.name, cost.us, UnusedReason.OTHER_MODULE)
    if base in looked_up:
        return None
    meant = next(_starts_meant(cost.name, starts), None)
    if meant is not None:
        return UnusedCost(cost.name, cost.us, UnusedReason.COLLECTIVE, meant)
    known = program.instruction(cost.name) or program.instruction(base)
    if known is None:
        return UnusedCost(cost.name, cost.us, UnusedReason.ABSENT)
    before = lookup_name(known)
    if before in looked_up:
        return UnusedCost(cost.name, cost.us, UnusedReason.RENAMED, before)
    return UnusedCost(cost.name, cost.us, UnusedReason.NOT_ASKED)


def _starts_meant(name: str, starts: Mapping[str, str]) -> Iterator[str]:
    core = _core(name)
    return (start for start, its_core in starts.items() if its_core == core and start != name)


def _core(name: str) -> str:
    """Return `all-gather.3` for `all-gather-start.3`, `all-gather-done.3` and itself."""
    return _STAGE.sub("", name)
