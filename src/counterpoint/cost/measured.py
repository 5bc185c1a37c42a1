"""Costs that were measured: of one Program, carried over to another compile of the same workload.

Names of instructions change with every flag, so costs travel by stable key. A cost is looked for
by name where both are the same module, else by the whole key, else among equals of the same scope
(their median), else among all instructions of that opcode and those shapes (their median).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from counterpoint.hlo import Instruction, Program


class Match(StrEnum):
    """How a measured cost found its instruction, the surest first."""

    NAME = "same module, same name"
    KEY = "same scope, shapes and place"
    EQUALS = "same scope and shapes"
    SHAPES = "same operation and shapes"


@dataclass(frozen=True, slots=True)
class Found:
    """A measured cost: the median of what matched, and the least and the most of it."""

    seconds: float
    low: float
    high: float
    match: Match


class Measured:
    """Costs of one Program's instructions, to be looked up for another Program's."""

    def __init__(self, program: Program, costs: Mapping[str, float], origin: str) -> None:
        """`costs` are seconds of one execution by instruction name; `origin` says of what."""
        self.origin = origin

    def find(self, program: Program, instruction: Instruction) -> Found | None:
        """What the instruction was measured to cost; None where nothing like it was."""
        raise NotImplementedError
