"""Prediction: what a step would take on hardware that is not here, and what the answer rests on.

Prediction ── base ──► Forecast ── simulation ──► Timeline
├── candidates ──► Standing (a Forecast, or why there is none), the best first
├── what_if ─────► Answer: the same schedule on other hardware
├── gain ────────► what a profile of real costs could gain at most
└── against ─────► Comparison with a measurement, op by op
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from counterpoint.core import CounterpointError, Range, drawn
from counterpoint.cost import Source
from counterpoint.flags import Settings
from counterpoint.flags.text import render_xla_flags
from counterpoint.hardware import Target
from counterpoint.hlo import Program
from counterpoint.simulate import range_noted
from counterpoint.workflow.forecast.memory_fit import MemoryFit
from counterpoint.workflow.forecast.step_range import Covered, covered, step_range

if TYPE_CHECKING:
    from counterpoint.compile import Compiled
    from counterpoint.diagnose import Explanation
    from counterpoint.simulate import Simulation
    from counterpoint.timeline import Timeline
    from counterpoint.workflow.prediction.against import Against
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
    compiled: Compiled | None = field(default=None, repr=False)  # None: it was scheduled already
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
    def range_covers(self) -> Covered | None:
        """Which share of published steps lies in such a range; None where none can tell."""
        return covered(self.simulation)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Standing:
    """A candidate's place: its Forecast, or the error that it ended with.

    `behind` is by how much longer its step takes than the best one's, as a share, and `reach` the
    range of that difference where errors that both share cancel. `tied` with the best: the
    difference may be nothing that counts. `same_as` names one with the same scheduled program.
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
class Answer:
    """What a step would take if the hardware were another, with the schedule as it is."""

    question: str
    step_s: float
    range_s: Range
    saves_s: float  # negative: it takes longer
    saves_range_s: Range


@dataclass(frozen=True, slots=True, kw_only=True)
class Unanswered:
    """A question about what the program does not have: known only when it is compiled."""

    question: str
    error: CounterpointError


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Prediction:
    """What `counterpoint predict` knows; `basis` are shares of the priced device time by source."""

    workload: str  # the module's name
    origin: str
    target: Target
    base: Forecast
    explanation: Explanation
    basis: Mapping[Source, float]
    candidates: tuple[Standing, ...] = ()
    what_if: tuple[Answer, ...] = ()
    unanswered: tuple[Unanswered, ...] = ()
    gain: Gain | None = None
    against: Against | None = None
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def __repr__(self) -> str:
        low, high = self.base.range_s.low * 1e3, self.base.range_s.high * 1e3
        best = "".join(f", best {it.name!r}" for it in self.candidates[:1])
        return (
            f"<Prediction of {self.workload!r} on {self.target}: step {self.step_s * 1e3:,.2f} ms"
            f" ({low:,.2f} to {high:,.2f}), {len(self.candidates)} candidates{best}>"
        )

    def _repr_html_(self) -> str | None:
        return drawn(self)

    @property
    def step_s(self) -> float:
        return self.base.step_s

    @property
    def timeline(self) -> Timeline:
        """The simulated step, with the settings that it was compiled under, if it was here."""
        settings = {} if self.base.compiled is None else _noted(self.base.settings)
        noted = {**settings, **range_noted(self.base.range_s)}
        return replace(self.base.simulation.timeline, environment=noted)


def _noted(settings: Settings) -> dict[str, str]:
    """Flags of the environment and of the compile alike, and what else steers XLA and JAX.

    Nothing else is kept: a job's variables may hold secrets, and Timelines are passed on.
    """
    flags = {**settings.flags, **dict(settings.options)}
    steering = {it: value for it, value in settings.variables.items() if it.startswith(_STEERS)}
    return {**steering, "XLA_FLAGS": render_xla_flags(flags.items())}
