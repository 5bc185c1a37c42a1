"""Prediction against measurement, op by op: by stable key where both hold the HLO, then by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class OpDifference:
    """One instruction's time per step, predicted and measured; None where one side has none."""

    name: str
    measured_name: str | None
    category: str
    predicted_ms: float | None
    measured_ms: float | None
    source: str | None = None

    @property
    def difference_ms(self) -> float:
        return (self.predicted_ms or 0.0) - (self.measured_ms or 0.0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Against:
    """How a prediction compares with what was measured."""

    origin: str
    predicted_ms: float
    measured_ms: float | None
    ops: tuple[OpDifference, ...]  # the largest difference first
    categories: Mapping[str, tuple[float, float]]  # predicted, measured: ms of a step
    matched_share: float  # of the measured device time
    how: str
    warnings: tuple[str, ...] = ()

    @property
    def ratio(self) -> float | None:
        return self.predicted_ms / self.measured_ms if self.measured_ms else None
