"""Costs that were measured: of one Program, carried over to another compile of the same workload.

Names of instructions change with every flag, so costs travel by stable key. A cost is looked for
by name where both are the same module, else by the whole key, else among equals of the same scope
(their median), else among all instructions of that kind and those shapes (their median). A
collective counts as the same only among as many devices.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from counterpoint.cost.price import Family, Price, Source
from counterpoint.hlo import (
    Category,
    Instruction,
    Program,
    category,
    collective,
    is_done,
    launched,
    launches,
    stable_key,
)


class Match(StrEnum):
    """How a measured cost found its instruction, the surest first."""

    NAME = "same module, same name"
    KEY = "same scope, shapes and place"
    EQUALS = "same scope and shapes"
    SHAPES = "same operation and shapes"


_REACH: Final = {Match.NAME: 0.03, Match.KEY: 0.05, Match.EQUALS: 0.08, Match.SHAPES: 0.15}
"""How far a cost may be off in another run, beside what equals differ by; rules of thumb."""
_FAMILIES: Final = {
    Category.MATMUL: Family.MATMUL,
    Category.CONVOLUTION: Family.MATMUL,
    Category.ATTENTION: Family.ATTENTION,
    Category.CUSTOM_CALL: Family.CUSTOM,
    Category.HOST: Family.HOST,
}
_RUNNING: Final = ("while", "conditional", "call", "call-start", "async-start")


@dataclass(frozen=True, slots=True)
class Found:
    """A measured cost: the median of what matched, and the least and the most of it."""

    seconds: float
    low: float
    high: float
    match: Match

    def price(self, family: Family, origin: str) -> Price:
        """As a price, with what a measurement may be off."""
        reach = 1 + _REACH[self.match]
        return Price(
            self.seconds,
            self.low / reach,
            self.high * reach,
            Source.MEASURED,
            family,
            f"{origin}, {self.match}",
        )


class Measured:
    """Costs of one Program's instructions, to be looked up for another Program's."""

    def __init__(self, program: Program, costs: Mapping[str, float], origin: str) -> None:
        """`costs` are seconds of one execution by instruction name; `origin` says of what."""
        self.origin = origin
        self._program = program
        self._by_name: dict[str, float] = {}
        self._by_key: dict[Hashable, list[float]] = {}
        wanted: dict[str, float] = {}
        for name, cost in costs.items():
            # Profilers may name what an async wrapper runs: its time is the start's.
            bare = name.removeprefix("%")
            wanted[program.wrapped.get(bare, bare)] = cost
        for computation in launched(program):
            for it in computation.instructions:
                cost = wanted.get(it.name, math.nan)
                if _is_priced(it) and 0 <= cost < math.inf:
                    self._by_name[it.name] = cost
                    for key in _keys(program, it).values():
                        self._by_key.setdefault(key, []).append(cost)

    def find(self, program: Program, instruction: Instruction) -> Found | None:
        """What the instruction was measured to cost; None where nothing like it was."""
        if not _is_priced(instruction):
            return None
        if _is_same(program, self._program):
            cost = self._by_name.get(instruction.name)
            if cost is not None:
                return _found([cost], Match.NAME)
        for match, key in _keys(program, instruction).items():
            costs = self._by_key.get(key)
            if costs:
                return _found(costs, match)
        return None

    def price(
        self, program: Program, instruction: Instruction, family: Family | None = None
    ) -> Price | None:
        """The same as a Price; its family by the kind of work unless told."""
        found = self.find(program, instruction)
        if found is None:
            return None
        kind = category(program, instruction)
        talks = kind is Category.COLLECTIVE
        known = family or _FAMILIES.get(kind, Family.DOMAIN if talks else Family.MEMORY)
        return found.price(known, self.origin)

    def matches(self, program: Program) -> Mapping[Match | None, int]:
        """How many instructions of a program were found how; under None those that were not."""
        found: Counter[Match | None] = Counter()
        for computation in launched(program):
            for it in computation.instructions:
                if _is_priced(it):
                    answer = self.find(program, it)
                    found[answer.match if answer else None] += 1
        return found


def _found(costs: Sequence[float], match: Match) -> Found:
    return Found(statistics.median(costs), min(costs), max(costs), match)


def _is_priced(it: Instruction) -> bool:
    return launches(it) and not is_done(it) and it.opcode not in _RUNNING


def _is_same(one: Program, other: Program) -> bool:
    if one is other:
        return True
    return one.fingerprint is not None and one.fingerprint == other.fingerprint


def _keys(program: Program, it: Instruction) -> dict[Match, Hashable]:
    """What an instruction is looked up by, the surest first."""
    key = stable_key(program, it)
    talks = collective(program, it)
    among = talks.group_size if talks else 0
    where = (key.scope, key.phase, key.opcode, key.shapes, among)
    # An opcode alone says little of a fusion or of a custom call.
    what = (key.opcode, it.custom_call_target, category(program, it), key.shapes, among)
    return {Match.KEY: (*where, key.occurrence), Match.EQUALS: where, Match.SHAPES: what}
