"""Measured costs of one Program, applied to another compile of the same workload.

Names of instructions change with every flag, so costs are transferred by stable key. A cost is
looked up by name if both are the same module, else by the whole key, else among equals of the same
scope (their median), else among all instructions of that kind and those shapes (their median). A
collective matches only one among as many devices.
"""

from __future__ import annotations

import difflib
import math
import re
import statistics
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from counterpoint.core import UsageError
from counterpoint.cost.model import Price, PriceFamily, PriceSource
from counterpoint.hlo import Instruction, Program
from counterpoint.hlo.collectives import collective
from counterpoint.hlo.model import launched, launches
from counterpoint.hlo.origin import stable_key
from counterpoint.hlo.schedule import is_done
from counterpoint.hlo.work import Category, category


class CostMatch(StrEnum):
    """How a measured cost was matched to its instruction, the most reliable first."""

    NAME = "same module, same name"
    KEY = "same scope, shapes and place"
    EQUALS = "same scope and shapes"
    SHAPES = "same operation and shapes"


_REACH: Final = {
    CostMatch.NAME: 0.03,
    CostMatch.KEY: 0.05,
    CostMatch.EQUALS: 0.08,
    CostMatch.SHAPES: 0.15,
}
"""Relative error of a cost in another run, besides the variation among equals; rules of thumb."""
_FAMILIES: Final = {
    Category.MATMUL: PriceFamily.MATMUL,
    Category.CONVOLUTION: PriceFamily.MATMUL,
    Category.ATTENTION: PriceFamily.ATTENTION,
    Category.CUSTOM_CALL: PriceFamily.CUSTOM,
    Category.HOST: PriceFamily.HOST,
}
_RUNNING: Final = ("while", "conditional", "call", "call-start", "async-start")


@dataclass(frozen=True, slots=True)
class FoundCost:
    """A measured cost: the median, minimum and maximum of the matches."""

    seconds: float
    low: float
    high: float
    match: CostMatch

    def price(self, family: PriceFamily, origin: str) -> Price:
        """Return it as a price, with the error of a measurement."""
        reach = 1 + _REACH[self.match]
        return Price(
            self.seconds,
            self.low / reach,
            self.high * reach,
            PriceSource.MEASURED,
            family,
            f"{origin}, {self.match}",
        )


class MeasuredCosts:
    """Costs of one Program's instructions, to be looked up for another Program's."""

    def __init__(self, program: Program, costs: Mapping[str, float], origin: str) -> None:
        """Store costs.

        `costs` are seconds of one execution by instruction name, `origin` their source.
        """
        self.origin = origin
        self._program = program
        self._by_name: dict[str, float] = {}
        self._by_key: dict[Hashable, list[float]] = {}
        wanted: dict[str, float] = {}
        for name, cost in costs.items():
            # Profilers may name the instruction in an async wrapper: its time is the start's.
            bare = name.removeprefix("%")
            wanted[program.wrapped.get(bare, bare)] = cost
        for computation in launched(program):
            for instruction in computation.instructions:
                cost = wanted.get(instruction.name, math.nan)
                if _is_priced(instruction) and 0 <= cost < math.inf:
                    self._by_name[instruction.name] = cost
                    for key in _keys(program, instruction).values():
                        self._by_key.setdefault(key, []).append(cost)

    def find(self, program: Program, instruction: Instruction) -> FoundCost | None:
        """Return the measured cost of an instruction; None if there is no match."""
        if not _is_priced(instruction):
            return None
        if _is_same(program, self._program):
            cost = self._by_name.get(instruction.name)
            if cost is not None:
                return _found([cost], CostMatch.NAME)
        for match, key in _keys(program, instruction).items():
            costs = self._by_key.get(key)
            if costs:
                return _found(costs, match)
        return None

    def price(
        self, program: Program, instruction: Instruction, family: PriceFamily | None = None
    ) -> Price | None:
        """Return the measured cost as a Price; its family by the kind of work unless given."""
        found = self.find(program, instruction)
        if found is None:
            return None
        kind = category(program, instruction)
        communicates = kind is Category.COLLECTIVE
        known = family or _FAMILIES.get(
            kind, PriceFamily.DOMAIN if communicates else PriceFamily.MEMORY
        )
        return found.price(known, self.origin)

    def matches(self, program: Program) -> Mapping[CostMatch | None, int]:
        """Count a program's instructions by match; under None those without one."""
        found: Counter[CostMatch | None] = Counter()
        for computation in launched(program):
            for instruction in computation.instructions:
                if _is_priced(instruction):
                    answer = self.find(program, instruction)
                    found[answer.match if answer else None] += 1
        return found


def _found(costs: Sequence[float], match: CostMatch) -> FoundCost:
    return FoundCost(statistics.median(costs), min(costs), max(costs), match)


def _is_priced(it: Instruction) -> bool:
    return launches(it) and not is_done(it) and it.opcode not in _RUNNING


def _is_same(one: Program, other: Program) -> bool:
    if one is other:
        return True
    return one.fingerprint is not None and one.fingerprint == other.fingerprint


def _keys(program: Program, it: Instruction) -> dict[CostMatch, Hashable]:
    """Return the lookup keys of an instruction, the most reliable first."""
    key = stable_key(program, it)
    communication = collective(program, it)
    among = communication.group_size if communication else 0
    where = (key.scope, key.phase, key.opcode, key.shapes, among)
    # An opcode alone does not identify a fusion or a custom call.
    what = (key.opcode, it.custom_call_target, category(program, it), key.shapes, among)
    return {
        CostMatch.KEY: (*where, key.occurrence),
        CostMatch.EQUALS: where,
        CostMatch.SHAPES: what,
    }


_PARTS: Final[Mapping[str, PriceFamily]] = {
    "nic": PriceFamily.NETWORK, "network": PriceFamily.NETWORK, "nvlink": PriceFamily.DOMAIN,
    "domain": PriceFamily.DOMAIN, "hbm": PriceFamily.MEMORY, "memory": PriceFamily.MEMORY,
    "matmul": PriceFamily.MATMUL, "gemm": PriceFamily.MATMUL, "flops": PriceFamily.MATMUL,
    "attention": PriceFamily.ATTENTION, "host": PriceFamily.HOST, "pcie": PriceFamily.HOST,
    "custom": PriceFamily.CUSTOM, "custom-call": PriceFamily.CUSTOM, "launch": PriceFamily.LAUNCH,
}  # fmt: skip
_REBUILT: Final = frozenset(
    {
        PriceFamily.NETWORK,
        PriceFamily.DOMAIN,
        PriceFamily.MEMORY,
        PriceFamily.MATMUL,
        PriceFamily.HOST,
    }
)
"""Families repriced by their formulas with the faster part, instead of scaling their prices."""
_LINKS: Final = frozenset({PriceFamily.NETWORK, PriceFamily.DOMAIN})
_FACTOR: Final = re.compile(r"(\d+(?:\.\d*)?|\.\d+)x?")
_EXAMPLE: Final = "--what-if nic=2x,hbm=1.5x,collective:all-gather-start.3=0"


@dataclass(frozen=True, slots=True)
class WhatIf:
    """Speeds of families of prices (2.0 is twice as fast), and factors of single instructions."""

    speed: Mapping[PriceFamily, float] = field(default_factory=dict[PriceFamily, float])
    # By the name of an instruction or a kind of collective: 0.5 is half as long, 0 is free.
    instructions: Mapping[str, float] = field(default_factory=dict[str, float])

    def of(self, family: PriceFamily) -> float:
        """Return the speedup of a family."""
        return self.speed.get(family, 1.0)

    def apply(self, program: Program, instruction: Instruction, price: Price) -> Price:
        """Return the price under the what-if, from a machine that already has the faster parts.

        Links belong to the machine: a collective can wait for either of the links that it takes.
        """
        factor = 1.0
        measured = price.source in (PriceSource.MEASURED, PriceSource.USER_TABLE)
        if price.family not in _REBUILT or (measured and price.family not in _LINKS):
            factor /= self.of(price.family)
        factor *= self._own(program, instruction)
        if factor == 1.0:
            return price
        return replace(price.times(factor), how=f"{price.how}, what if {factor:g}x".lstrip(", "))

    def _own(self, program: Program, instruction: Instruction) -> float:
        if instruction.name in self.instructions:
            return self.instructions[instruction.name]
        if not self.instructions:
            return 1.0
        found = collective(program, instruction)
        return self.instructions.get(found.kind, 1.0) if found else 1.0


def parse_what_if(text: str) -> WhatIf:
    """Parse `nic=2x,hbm=1.5x,collective:all-gather-start.3=0`.

    Raise UsageError if it is invalid.
    """
    speed: dict[PriceFamily, float] = {}
    instructions: dict[str, float] = {}
    for part in filter(None, (word.strip() for word in text.split(","))):
        name, equals, value = (word.strip() for word in part.partition("="))
        if not equals or not name:
            raise _refused(part, "it is no NAME=FACTOR")
        kind, colon, own = name.partition(":")
        if colon:
            if kind not in ("collective", "op", "instruction"):
                raise _refused(part, f"{kind}: is neither collective: nor op:")
            own = own.strip().removeprefix("%")
            factor = _factor(part, value, least=0.0)
            instructions[own] = _unlike(part, instructions.get(own), factor)
        elif name.casefold() in _PARTS:
            family = _PARTS[name.casefold()]
            speed[family] = _unlike(part, speed.get(family), _factor(part, value, least=1e-3))
        else:
            raise _refused(part, _nearest(name))
    if not speed and not instructions:
        raise _refused(text, "it is empty")
    return WhatIf(speed, instructions)


def _unlike(part: str, before: float | None, factor: float) -> float:
    """Return the factor, unless the same part was given a different one."""
    if before not in (None, factor):
        raise _refused(part, f"{before:g}x was given for the same part before it")
    return factor


def _factor(part: str, value: str, least: float) -> float:
    found = _FACTOR.fullmatch(value.casefold())
    factor = float(found[1]) if found else math.nan
    if not least <= factor <= 1e6:
        raise _refused(part, f"{value or 'nothing'} is no factor from {least:g} on, such as 2x")
    return factor


def _nearest(name: str) -> str:
    near = difflib.get_close_matches(name.casefold(), _PARTS, n=1)
    if near:
        return f"no part is called {name}; {near[0]} is"
    return f"no part is called {name}; known are {', '.join(_PARTS)}, collective:NAME and op:NAME"


def _refused(part: str, why: str) -> UsageError:
    return UsageError(f"--what-if {part}: not understood", why=why, next=_EXAMPLE)
