"""CostModel: prices instructions of a Program on a Target. The simulator knows no more of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Protocol

from counterpoint.hlo import Instruction, Program


class Source(StrEnum):
    """Where a price comes from, the most trusted first."""

    MEASURED = "measured"  # a profile of this workload
    USER_TABLE = "user table"  # nccl-tests logs or GEMM benchmarks that the user gave
    TABLE = "table"  # a table that Counterpoint ships
    ANALYTIC = "analytic"  # a formula
    BOUND = "bound"  # nothing prices it: the least and the most that it can take
    FREE = "free"  # launches no work


class Family(StrEnum):
    """Prices whose errors go together: if one GEMM is priced low, all are."""

    MATMUL = "matmul"
    MEMORY = "memory"  # bound by device memory
    ATTENTION = "attention"
    CUSTOM = "custom call"
    DOMAIN = "collective within a domain"  # NVLink, NVSwitch
    NETWORK = "collective across domains"  # NICs
    HOST = "host"  # between device and host
    LAUNCH = "launch"  # fixed costs of starting work
    CONTENTION = "slowdown"  # of what runs beside a collective: no price, but it has a range too


@dataclass(frozen=True, slots=True)
class Price:
    """Seconds of one execution: most likely, at least, at most."""

    seconds: float
    low: float
    high: float
    source: Source
    family: Family
    # A few words for a table: "4096x8192x8192 bf16 at 71 % of peak", "ring, 2 x 8 ranks, Simple".
    how: str = ""
    # Whether time or size decides, of a collective: "latency" or "bandwidth".
    bound_by: str = ""
    # The links that its slowest part goes over, of a collective: "NVLink 4", "PCIe 5", "NIC".
    link: str = ""

    def __post_init__(self) -> None:
        if not 0 <= self.low <= self.seconds <= self.high:
            raise ValueError(f"a price runs from low to high, not {self.low}..{self.high}")

    def times(self, factor: float) -> Price:
        """The same work, slower or faster by a factor."""
        return replace(
            self, seconds=self.seconds * factor, low=self.low * factor, high=self.high * factor
        )


def around(
    seconds: float,
    reach: float,
    source: Source,
    family: Family,
    how: str = "",
    bound_by: str = "",
    link: str = "",
) -> Price:
    """A price that may be off by a share of itself to either side."""
    return Price(
        seconds, seconds / (1 + reach), seconds * (1 + reach), source, family, how, bound_by, link
    )


FREE = Price(0.0, 0.0, 0.0, Source.FREE, Family.LAUNCH)


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
