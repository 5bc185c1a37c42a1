"""What real PGLE could gain at most: a profile of predicted costs, given to the compiler.

The costs that the scheduler is told are those that the simulator then uses, so nothing it decides
is decided by a wrong one: measured costs can't do better in this model.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from counterpoint.core.basis import Range

if TYPE_CHECKING:
    from counterpoint.workflow.prediction import Forecast


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Gain:
    """A step that was scheduled by a synthetic profile, and what it saves."""

    forecast: Forecast
    saves_s: float
    reach_s: Range
    costs: int
    used: bool
    changed: bool  # whether the schedule did
    path: Path | None = None  # where the profile is kept, if it is
