"""CostModel: prices instructions of a Program on a Target. The simulator knows no more of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from counterpoint.cost.price import Price
from counterpoint.hlo import Instruction, Program


@dataclass(frozen=True, slots=True)
class Contention:
    """How much longer work takes while a collective runs beside it: 0.1 is a tenth.

    NCCL's kernels take multiprocessors and memory bandwidth from whatever runs beside them.
    """

    compute: float = 0.0
    collective: float = 0.0
    source: str = ""
    reach: float = 0.0  # by which share of themselves both may be off


class CostModel(Protocol):
    """What the simulator asks. Answers depend on the question alone: the same asked twice."""

    @property
    def contention(self) -> Contention: ...

    @property
    def launch_s(self) -> float:
        """Time between two pieces of work on one stream that the device itself needs."""
        ...

    def price(self, program: Program, instruction: Instruction) -> Price:
        """One execution; of an asynchronous instruction its start has it and its done is free.

        Loops, calls and branches are not asked for: the simulator walks through them.
        """
        ...
