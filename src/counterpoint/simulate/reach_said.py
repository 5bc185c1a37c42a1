"""The range of a predicted step, as a stored Timeline notes it beside its settings."""

from __future__ import annotations

from typing import Final

from counterpoint.core.basis import Basis, Range
from counterpoint.timeline.model import Timeline

NOTED: Final = "prediction_range_s"


def range_noted(reach: Range) -> dict[str, str]:
    """For the environment of a Timeline."""
    return {NOTED: f"{float(reach.low)!r} {float(reach.high)!r}"}


def range_said(timeline: Timeline) -> Range | None:
    """What was noted; None where nothing was, or not in this way."""
    if timeline.basis is not Basis.PREDICTED:
        return None
    try:
        low, high = map(float, timeline.environment.get(NOTED, "").split())
        return Range(low, high)
    except ValueError:
        return None
