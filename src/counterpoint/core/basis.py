"""Where a number comes from, how far it reaches, and what to say when there is none.

Every figure that Counterpoint shows is measured, predicted or a rule of thumb; a figure that
can't be known is `Unknown` with its reason, never 0.0.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Basis(StrEnum):
    """What a figure rests on."""

    MEASURED = "measured"
    PREDICTED = "predicted"
    RULE_OF_THUMB = "rule of thumb"


@dataclass(frozen=True, slots=True)
class Range:
    """A figure with its reach: the truth is expected between `low` and `high`."""

    low: float
    high: float

    def __post_init__(self) -> None:
        if not self.low <= self.high:
            raise ValueError(f"a range runs from low to high, not {self.low} to {self.high}")


@dataclass(frozen=True, slots=True)
class Unknown:
    """A figure that can't be known, and why."""

    reason: str
