"""The result of `counterpoint predict`: a step on hardware that is not here, and its basis.

Prediction ── base ──► Forecast ── simulation ──► Timeline
├── candidates ──► RankedCandidate (a Forecast, or why there is none), the best first
├── what_if ─────► WhatIfAnswer: the same schedule on other hardware
├── gain ────────► Gain: the most that a profile of real costs could save
└── against ─────► MeasurementComparison, op by op
"""

from __future__ import annotations

from collections.abc import Mapping

from counterpoint.core import as_html
from counterpoint.core.frozen import frozen
from counterpoint.cost import PriceSource
from counterpoint.diagnose import Explanation
from counterpoint.hardware import Target
from counterpoint.timeline import Timeline
from counterpoint.trainers import TokensInStep
from counterpoint.workflow.forecast.ranking import Forecast, RankedCandidate
from counterpoint.workflow.prediction.against import MeasurementComparison
from counterpoint.workflow.prediction.gain import Gain, UnansweredWhatIf, WhatIfAnswer


@frozen(kw_only=True, eq=False)
class Prediction:
    """The result of `counterpoint predict`; `basis` has shares of priced device time by source."""

    workload: str  # the module's name
    origin: str
    target: Target
    base: Forecast
    explanation: Explanation
    basis: Mapping[PriceSource, float]
    candidates: tuple[RankedCandidate, ...] = ()
    what_if: tuple[WhatIfAnswer, ...] = ()
    unanswered: tuple[UnansweredWhatIf, ...] = ()
    gain: Gain | None = None
    against: MeasurementComparison | None = None
    tokens: TokensInStep | None = None
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def __repr__(self) -> str:
        low, high = self.base.range_s.low * 1e3, self.base.range_s.high * 1e3
        best = "".join(f", best {standing.name!r}" for standing in self.candidates[:1])
        return (
            f"<Prediction of {self.workload!r} on {self.target}: step {self.step_s * 1e3:,.2f} ms"
            f" ({low:,.2f} to {high:,.2f}), {len(self.candidates)} candidates{best}>"
        )

    def _repr_html_(self) -> str | None:
        return as_html(self)

    @property
    def step_s(self) -> float:
        return self.base.step_s

    @property
    def tokens_per_s(self) -> float | None:
        """Tokens per second on all devices; None if nothing tells the tokens of a step."""
        if self.tokens is None or self.step_s <= 0:
            return None
        return self.tokens.count / self.step_s

    @property
    def timeline(self) -> Timeline:
        """The simulated step, with its settings if it was compiled here."""
        return self.base.timeline
