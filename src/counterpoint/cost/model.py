"""CostModel: prices instructions of a Program on a Target.

The simulator's only interface to costs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Protocol

from counterpoint.hlo.model.instruction import Instruction
from counterpoint.hlo.model.program import Program


class PriceSource(StrEnum):
    """The origin of a price, the most trusted first."""

    MEASURED = "measured"  # a profile of this workload
    USER_TABLE = "user table"  # nccl-tests logs or GEMM benchmarks from the user
    TABLE = "table"  # a table that Counterpoint ships
    COMPILER = "compiler"  # XLA's own estimate, which libtpu writes into the program
    ANALYTIC = "analytic"  # a formula
    BOUND = "bound"  # nothing prices it: its minimum and maximum
    FREE = "free"  # launches no work


class PriceFamily(StrEnum):
    """Prices whose errors are correlated: if one GEMM is priced low, all are."""

    MATMUL = "matmul"
    MEMORY = "memory"  # bound by device memory
    ATTENTION = "attention"
    CUSTOM = "custom call"
    DOMAIN = "collective within a domain"  # NVLink, NVSwitch
    NETWORK = "collective across domains"  # NICs
    HOST = "host"  # between device and host
    LAUNCH = "launch"  # fixed costs of starting work
    CONTENTION = "slowdown"  # of work beside a collective: not a price, but has a range


@dataclass(frozen=True, slots=True)
class Price:
    """Seconds of one execution: most likely, minimum, maximum."""

    seconds: float
    low: float
    high: float
    source: PriceSource
    family: PriceFamily
    # A short description: "4096x8192x8192 bf16 at 71% of peak", "ring, 2 x 8 ranks, Simple".
    how: str = ""
    # Of a collective, whether time or size decides: "latency" or "bandwidth".
    bound_by: str = ""
    # Of a collective, the links of its slowest part: "NVLink 4", "PCIe 5", "NIC".
    link: str = ""

    def __post_init__(self) -> None:
        if not 0 <= self.low <= self.seconds <= self.high:
            raise ValueError(f"a price runs from low to high, not {self.low}..{self.high}")

    def times(self, factor: float) -> Price:
        """Return the same work, slower or faster by a factor."""
        return replace(
            self, seconds=self.seconds * factor, low=self.low * factor, high=self.high * factor
        )

    def at_least(self, seconds: float) -> Price:
        """Return the price without what is below the least time that the work can take."""
        if self.low >= seconds:
            return self
        low, likely, high = (max(it, seconds) for it in (self.low, self.seconds, self.high))
        return replace(self, low=low, seconds=likely, high=high)


def price_around(
    seconds: float,
    reach: float,
    source: PriceSource,
    family: PriceFamily,
    how: str = "",
    bound_by: str = "",
    link: str = "",
) -> Price:
    """Return a price with a relative error to either side."""
    return Price(
        seconds, seconds / (1 + reach), seconds * (1 + reach), source, family, how, bound_by, link
    )


FREE = Price(0.0, 0.0, 0.0, PriceSource.FREE, PriceFamily.LAUNCH)


@dataclass(frozen=True, slots=True)
class Contention:
    """Slowdown of work concurrent with a collective: 0.1 is a tenth.

    NCCL's kernels take multiprocessors and memory bandwidth from concurrent work.
    """

    compute: float = 0.0
    collective: float = 0.0
    source: str = ""
    reach: float = 0.0  # relative error of both


class CostModel(Protocol):
    """The simulator's interface to costs. It is pure: equal questions get equal answers."""

    @property
    def contention(self) -> Contention: ...

    @property
    def launch_s(self) -> float:
        """Time between two pieces of work on one stream that the device itself needs."""
        ...

    def price(self, program: Program, instruction: Instruction) -> Price:
        """Price one execution.

        An asynchronous instruction's start has the price and its done is free.

        Loops, calls and branches are not priced: the simulator steps through them.
        """
        ...
