"""Measured costs of one Program, applied to another compile of the same workload.

Names of instructions change with every flag, so costs are transferred by stable key. A cost is
looked up by name if both are the same module, else by the whole key, else among equals of the same
scope (their median), else among all instructions of that kind and those shapes (their median). A
collective matches only one among as many devices.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from counterpoint.cost.model import Price, PriceFamily, PriceSource
from counterpoint.hlo.category import Category, category
from counterpoint.hlo.collectives import collective
from counterpoint.hlo.model.instruction import Instruction
from counterpoint.hlo.model.program import Program, launched, launches
from counterpoint.hlo.provenance import stable_key
from counterpoint.hlo.schedule import is_done


class CostMatch(StrEnum):
    """The way a measured cost was matched to its instruction, the most reliable first."""

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
class MatchedCost:
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

    def find(self, program: Program, instruction: Instruction) -> MatchedCost | None:
        """Return the measured cost of an instruction; None if there is no match."""
        if not _is_priced(instruction):
            return None
        if _is_same(program, self._program):
            cost = self._by_name.get(instruction.name)
            if cost is not None:
                return _matched_cost([cost], CostMatch.NAME)
        for match, key in _keys(program, instruction).items():
            costs = self._by_key.get(key)
            if costs:
                return _matched_cost(costs, match)
        return None

    def price(
        self, program: Program, instruction: Instruction, family: PriceFamily | None = None
    ) -> Price | None:
        """Return the measured cost as a Price; its family by the kind of work unless given."""
        cost = self.find(program, instruction)
        if cost is None:
            return None
        kind = category(program, instruction)
        communicates = kind is Category.COLLECTIVE
        known = family or _FAMILIES.get(
            kind, PriceFamily.DOMAIN if communicates else PriceFamily.MEMORY
        )
        return cost.price(known, self.origin)

    def matches(self, program: Program) -> Mapping[CostMatch | None, int]:
        """Count a program's instructions by match; under None those without one."""
        counts: Counter[CostMatch | None] = Counter()
        for computation in launched(program):
            for instruction in computation.instructions:
                if _is_priced(instruction):
                    answer = self.find(program, instruction)
                    counts[answer.match if answer else None] += 1
        return counts


def _matched_cost(costs: Sequence[float], match: CostMatch) -> MatchedCost:
    return MatchedCost(statistics.median(costs), min(costs), max(costs), match)


def _is_priced(instruction: Instruction) -> bool:
    return launches(instruction) and not is_done(instruction) and instruction.opcode not in _RUNNING


def _is_same(first: Program, other: Program) -> bool:
    if first is other:
        return True
    return first.fingerprint is not None and first.fingerprint == other.fingerprint


def _keys(program: Program, instruction: Instruction) -> dict[CostMatch, Hashable]:
    """Return the lookup keys of an instruction, the most reliable first."""
    key = stable_key(program, instruction)
    communication = collective(program, instruction)
    among = communication.group_size if communication else 0
    where = (key.scope, key.phase, key.opcode, key.shapes, among)
    # An opcode alone does not identify a fusion or a custom call.
    what = (
        key.opcode,
        instruction.custom_call_target,
        category(program, instruction),
        key.shapes,
        among,
    )
    return {
        CostMatch.KEY: (*where, key.occurrence),
        CostMatch.EQUALS: where,
        CostMatch.SHAPES: what,
    }
