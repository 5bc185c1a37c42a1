"""What tests of prices share: scalars in round numbers, and how prices are asked for."""

from __future__ import annotations

from collections.abc import Callable

from counterpoint.cost.model import Price
from counterpoint.cost.scalars import Scalar, Scalars
from counterpoint.hlo.model.program import Program

Build = Callable[..., Program]
PriceLine = Callable[..., Price]


def known_scalars(matmul: float = 1.0, memory: float = 0.9) -> Scalars:
    """Round numbers, so that tests don't depend on what was calibrated."""

    def of(value: float) -> Scalar:
        return Scalar(value, 0.05, "test")

    return Scalars(
        matmul=of(matmul), memory=of(memory), attention=of(1.0), network=of(0.9), slowdown=of(0.05)
    )
