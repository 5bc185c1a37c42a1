"""Prices of a plan's instructions as columns, and the same with one family's errors in them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from counterpoint.cost import CostModel, Family, Price, Source
from counterpoint.hlo import Program
from counterpoint.simulate.plan import Plan, Seconds


@dataclass(frozen=True, slots=True, eq=False)
class Prices:
    """One row per instruction of the plan."""

    prices: tuple[Price, ...]
    likely: Seconds
    low: Seconds
    high: Seconds
    measured: NDArray[np.bool_]

    def families(self) -> Iterator[tuple[Family, Seconds, Seconds]]:
        """Each family that has a reach, with all costs when it alone is low, and high."""
        family = np.array([price.family for price in self.prices], object)
        reaches = (self.low < self.likely) | (self.high > self.likely)
        for one in Family:
            mine = family == one
            if (mine & reaches).any():
                yield (
                    one,
                    np.where(mine, self.low, self.likely),
                    np.where(mine, self.high, self.likely),
                )

    def by_source(self, times: Seconds) -> dict[Source, float]:
        """Seconds of work by where its price comes from; `times` has how often each runs."""
        sums: dict[Source, float] = {}
        for price, count in zip(self.prices, times.tolist(), strict=True):
            if price.source is not Source.FREE and count:
                sums[price.source] = sums.get(price.source, 0.0) + price.seconds * count
        return sums


def ask(program: Program, plan: Plan, model: CostModel) -> Prices:
    """What the model says of every instruction."""
    prices = tuple(model.price(program, it) for it in plan.instructions)
    return Prices(
        prices=prices,
        likely=np.array([price.seconds for price in prices]),
        low=np.array([price.low for price in prices]),
        high=np.array([price.high for price in prices]),
        measured=np.array([price.source is Source.MEASURED for price in prices]),
    )
