"""A plan with its prices, which can be run again with other costs, for sums or for a Timeline."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from counterpoint.cost.model import Contention, CostModel, Price, PriceFamily, PriceSource
from counterpoint.hlo.model.program import Program
from counterpoint.simulate.engine import Engine, ExecutionTrace
from counterpoint.simulate.plan import MAIN_STREAM, ExecutionPlan, Load, Seconds


@dataclass(frozen=True, slots=True, eq=False)
class Prices:
    """Prices, one row per instruction of the plan."""

    prices: tuple[Price, ...]
    likely: Seconds
    low: Seconds
    high: Seconds
    measured: NDArray[np.bool_]

    def families(self) -> Iterator[tuple[PriceFamily, Seconds, Seconds]]:
        """Yield each uncertain family, with all costs when it alone is low, and when it is high."""
        family = np.array([price.family for price in self.prices], object)
        uncertain = (self.low < self.likely) | (self.high > self.likely)
        for member in PriceFamily:
            of_family = family == member
            if (of_family & uncertain).any():
                yield (
                    member,
                    np.where(of_family, self.low, self.likely),
                    np.where(of_family, self.high, self.likely),
                )

    def by_source(self, times: Seconds) -> dict[PriceSource, float]:
        """Return seconds of work by source of the price; `times` has the executions of each."""
        sums: dict[PriceSource, float] = {}
        for price, count in zip(self.prices, times.tolist(), strict=True):
            if price.source is not PriceSource.FREE and count:
                sums[price.source] = sums.get(price.source, 0.0) + price.seconds * count
        return sums

    def share_of(self, families: Collection[PriceFamily], times: Seconds) -> float:
        """Return the share of the work's seconds that these families have."""
        seconds = self.likely * times
        chosen = np.array([price.family in families for price in self.prices], bool)
        whole = float(seconds.sum())
        return float(seconds[chosen].sum()) / whole if whole else 0.0


def price_plan(program: Program, plan: ExecutionPlan, model: CostModel) -> Prices:
    """Return the model's price of every instruction."""
    prices = tuple(model.price(program, instruction) for instruction in plan.instructions)
    return Prices(
        prices=prices,
        likely=np.array([price.seconds for price in prices]),
        low=np.array([price.low for price in prices]),
        high=np.array([price.high for price in prices]),
        measured=np.array([price.source is PriceSource.MEASURED for price in prices]),
    )


@dataclass(frozen=True, slots=True, eq=False)
class PricedPlan:
    """A plan with its prices; `gap` is the time a stream needs between two pieces of work."""

    plan: ExecutionPlan
    prices: Prices
    contention: Contention
    gap: float

    def engine(self, costs: Seconds, trace: ExecutionTrace | None = None) -> Engine:
        """Return an engine for these costs, one per instruction."""
        times = self.block_times(costs).tolist()
        return Engine(self.plan, times, self.block_slowing.tolist(), trace)

    def step_s(self, costs: Seconds) -> float:
        return self.engine(costs).run()

    def slowed(self, more: float) -> PricedPlan:
        """Return the plan with contention scaled by 1 + `more`."""
        factor = max(0.0, 1 + more)
        compute, collective = self.contention.compute, self.contention.collective
        return replace(
            self,
            contention=Contention(compute=compute * factor, collective=collective * factor),
        )

    def block_times(self, costs: Seconds) -> Seconds:
        """Return the time of each block alone; what costs nothing needs no launch either."""
        return self.plan.block_sums(costs + self.gap * (costs > 0))

    def times(self, counts: list[int]) -> Seconds:
        """Return how often each instruction runs, given the executions of each block."""
        return np.array(counts, np.float64)[self.block_of] * self.plan.weights

    @property
    def block_slowing(self) -> Seconds:
        """The relative slowdown of each block by contention.

        Measured costs include it already: only the rest of a block is slowed down.
        """
        by_load = {
            Load.COMPUTE: self.contention.compute,
            Load.COLLECTIVE: self.contention.collective,
            Load.HOST: 0.0,
            Load.DMA: 0.0,
        }
        slowing = np.array([by_load[block.load] for block in self.plan.blocks])
        whole = self.plan.block_sums(self.prices.likely)
        rest = self.plan.block_sums(np.where(self.prices.measured, 0.0, self.prices.likely))
        return slowing * np.divide(rest, whole, out=np.ones_like(whole), where=whole > 0)

    @property
    def block_of(self) -> NDArray[np.int64]:
        """The block of every instruction."""
        sizes = [block.last - block.first for block in self.plan.blocks]
        return np.repeat(np.arange(len(sizes)), sizes)

    @property
    def loads(self) -> NDArray[np.int64]:
        """The resource that every instruction uses."""
        return np.array([block.load for block in self.plan.blocks], np.int64)[self.block_of]

    def by_load(self, times: Seconds) -> dict[Load, float]:
        """Return seconds of work of each kind, without contention."""
        work, loads = self.prices.likely * times, self.loads
        return {load: float(work[loads == load].sum()) for load in Load}

    def critical_path_s(self) -> float:
        """Return the step time if communication and asynchronous copies took no time.

        A copy that is a kernel is work of the main stream, and keeps its time.
        """
        return self.step_s(np.where(self.loads == Load.COMPUTE, self.prices.likely, 0.0))

    def busiest_lane_s(self, counts: list[int]) -> float:
        """Return the work of the busiest stream, in seconds."""
        streams = np.array([block.stream for block in self.plan.blocks])
        work = self.block_times(self.prices.likely) * np.array(counts, np.float64)
        return float(np.bincount(streams, work, minlength=MAIN_STREAM + 1).max())
