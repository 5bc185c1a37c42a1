"""Prices of calls into Python on the host: as bounds, since nobody knows what Python does there."""

from __future__ import annotations

from typing import Final

from counterpoint.cost.model import Price, PriceFamily, PriceSource

_CALLBACK_S: Final = (20e-6, 300e-6, 10e-3)
"""Minimum, likely, maximum; a rule of thumb."""


def price_callback(moving_s: float) -> Price:
    """Return the price of a call whose data takes `moving_s` on the way to or from the host."""
    low, likely, high = _CALLBACK_S
    return Price(
        likely + moving_s,
        low + moving_s,
        high + moving_s,
        PriceSource.BOUND,
        PriceFamily.CUSTOM,
        f"waits for Python: {low * 1e3:g} to {high * 1e3:g} ms",
    )
