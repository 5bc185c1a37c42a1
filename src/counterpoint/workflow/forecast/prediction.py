"""Prediction: the step time on hardware that is not available here, and what it is based on.

Prediction ── base ──► Forecast ── simulation ──► Timeline
├── candidates ──► Standing (a Forecast, or why there is none), the best first
├── what_if ─────► Answer: the same schedule on other hardware
├── gain ────────► the maximum gain from a profile of real costs
└── against ─────► Comparison with a measurement, op by op
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from counterpoint.core import CounterpointError, Range, as_html
from counterpoint.cost import PriceSource
from counterpoint.flags import Settings
from counterpoint.flags.text import render_xla_flags
from counterpoint.hardware import Target
from counterpoint.hlo import Program
from counterpoint.workflow.forecast.memory_fit import MemoryFit
from counterpoint.workflow.forecast.step_range import RangeCoverage, covered, step_range

if TYPE_CHECKING:
    from counterpoint.compile import CompiledProgram
    from counterpoint.diagnose import Explanation
    from counterpoint.simulate import Simulation
    from counterpoint.timeline import Timeline
    from counterpoint.workflow.prediction.against import MeasurementComparison
    from counterpoint.workflow.prediction.gain import Gain


_STEERS: Final = ("XLA_", "JAX_", "NCCL_", "CUDA_")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Forecast:
    """One program under one set of Settings: scheduled, priced and simulated."""

    name: str
    settings: Settings
    program: Program
    simulation: Simulation
    memory: MemoryFit
    compiled: CompiledProgram | None = field(
        default=None, repr=False
    )  # None: it was scheduled already
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        low, high = self.range_s.low * 1e3, self.range_s.high * 1e3
        step = f"step {self.step_s * 1e3:,.2f} ms ({low:,.2f} to {high:,.2f})"
        return f"<Forecast {self.name!r}: {step}>"

    @property
    def step_s(self) -> float:
        return self.simulation.step_s

    @property
    def range_s(self) -> Range:
        return step_range(self.simulation)

    @property
    def range_covers(self) -> RangeCoverage | None:
        """The share of published steps in such a range; None if no published step applies."""
        return covered(self.simulation)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RankedCandidate:
    """A candidate's rank: its Forecast, or the error that it ended with.

    `behind` is the difference of its step time to the best one's, as a share, and `reach` the range
    of that difference where errors that both share cancel. `tied` with the best: the difference may
    be irrelevant. `same_as` names one with the same scheduled program.
    """

    name: str
    settings: Settings
    forecast: Forecast | None = None
    error: CounterpointError | None = None
    is_base: bool = False
    behind: float | None = None
    reach: Range | None = None
    tied: bool = False
    same_as: str | None = None
    exposed_ms: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIfAnswer:
    """The predicted step on other hardware, with the schedule unchanged."""

    question: str
    step_s: float
    range_s: Range
    saves_s: float  # negative: it takes longer
    saves_range_s: Range


@dataclass(frozen=True, slots=True, kw_only=True)
class UnansweredWhatIf:
    """A question about something that the program lacks, which shows only once it is compiled."""

    question: str
    error: CounterpointError


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
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
    def timeline(self) -> Timeline:
        """The simulated step, with its settings if it was compiled here."""
        settings = {} if self.base.compiled is None else _noted(self.base.settings)
        simulated = self.base.simulation.timeline
        return replace(simulated, environment=settings, predicted_range=self.base.range_s)


def _noted(settings: Settings) -> dict[str, str]:
    """Return the flags of the environment and of the compile, and other variables of XLA and JAX.

    Everything else is dropped: a job's variables may hold secrets, and Timelines are shared.
    """
    flags = {**settings.flags, **dict(settings.options)}
    steering = {
        name: value for name, value in settings.variables.items() if name.startswith(_STEERS)
    }
    return {**steering, "XLA_FLAGS": render_xla_flags(flags.items())}
