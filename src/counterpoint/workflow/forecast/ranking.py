"""Forecasts and their ranks: which Settings are best, which are tied, and which do not fit."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Protocol

from counterpoint.compile.compiler import PlannedMemory
from counterpoint.core import CounterpointError, Range
from counterpoint.cost.model import PriceFamily
from counterpoint.flags.settings import Settings
from counterpoint.flags.text import render_xla_flags
from counterpoint.hardware.target import Target
from counterpoint.hlo.model.program import Program
from counterpoint.workflow.forecast.step_range import (
    RangeCoverage,
    by_bounds,
    covered,
    step_range,
)

if TYPE_CHECKING:
    from counterpoint.compile.compiler import CompiledProgram
    from counterpoint.simulate.simulation import Simulation
    from counterpoint.timeline.model import Timeline


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Forecast:
    """One program under one set of Settings: scheduled, priced and simulated.

    If a step runs several programs, the forecast is of all of them, `parts` has each alone, and
    `order` the runs of one step as indices into them; `program` is then the main one.
    """

    name: str
    settings: Settings
    program: Program
    simulation: Simulation
    memory: MemoryFit
    compiled: CompiledProgram | None = field(
        default=None, repr=False
    )  # None: it was scheduled already
    notes: tuple[str, ...] = ()
    parts: tuple[Forecast, ...] = field(default=(), repr=False)
    order: tuple[int, ...] = ()

    def __repr__(self) -> str:
        low, high = self.range_s.low * 1e3, self.range_s.high * 1e3
        step = f"step {self.step_s * 1e3:,.2f} ms ({low:,.2f} to {high:,.2f})"
        return f"<Forecast {self.name!r}: {step}>"

    @property
    def main(self) -> int:
        """The number of the main program in `parts`."""
        return next(at for at, part in enumerate(self.parts) if part.program is self.program)

    @property
    def jaxlib(self) -> str | None:
        """The jaxlib that compiled it; None if it was scheduled already."""
        return self.compiled.versions.get("jaxlib") if self.compiled is not None else None

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

    @property
    def by_bounds(self) -> bool:
        return by_bounds(self.simulation)

    @property
    def timeline(self) -> Timeline:
        """The simulated step, with its settings if it was compiled here."""
        settings = {} if self.compiled is None else _noted(self.settings)
        simulated = self.simulation.timeline
        return replace(simulated, environment=settings, predicted_range=self.range_s)


_STEERS: Final = ("XLA_", "JAX_", "NCCL_", "CUDA_")


def _noted(settings: Settings) -> dict[str, str]:
    """Return the flags of the environment and of the compile, and other variables of XLA and JAX.

    Everything else is dropped: a job's variables may hold secrets, and Timelines are shared.
    """
    flags = {**settings.flags, **dict(settings.options)}
    steering = {
        name: value for name, value in settings.variables.items() if name.startswith(_STEERS)
    }
    return {**steering, "XLA_FLAGS": render_xla_flags(flags.items())}


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


INDIFFERENCE: Final = 0.015
"""Share of the best step: a smaller difference is no reason to prefer one to the other."""


class UncertainStep(Protocol):
    """A predicted step with the effect of price errors per family: usually a Simulation.

    `reach_s` are the seconds by which the step is shorter and longer with all prices of a family at
    the ends of their ranges.
    """

    @property
    def step_s(self) -> float: ...

    @property
    def reach_s(self) -> Mapping[PriceFamily, tuple[float, float]]: ...


def difference(one: UncertainStep, other: UncertainStep) -> Range:
    """Return the range of the seconds by which the first step is longer; shared errors cancel."""
    middle = one.step_s - other.step_s
    below = above = 0.0
    for family in {*one.reach_s, *other.reach_s}:
        mine, theirs = one.reach_s.get(family), other.reach_s.get(family)
        moves = [(mine[end] if mine else 0.0) - (theirs[end] if theirs else 0.0) for end in (0, 1)]
        below += min(*moves, 0.0) ** 2
        above += max(*moves, 0.0) ** 2
    return Range(middle - math.sqrt(below), middle + math.sqrt(above))


def same_programs(one: Forecast, other: Forecast) -> bool:
    """Return True if two forecasts are of the same schedules."""
    if len(one.parts) != len(other.parts):
        return False
    pairs = zip(one.parts or (one,), other.parts or (other,), strict=True)
    return all(same_schedule(mine.program, theirs.program) for mine, theirs in pairs)


def same_schedule(one: Program, other: Program) -> bool:
    """Return True if two compiles have the same instructions in the same order."""
    return one is other or (
        one.entry == other.entry
        and one.computations == other.computations
        and [instruction.name for instruction in one.instructions if instruction.is_sync]
        == [instruction.name for instruction in other.instructions if instruction.is_sync]
    )


def ranked(standings: Sequence[RankedCandidate]) -> tuple[RankedCandidate, ...]:
    """Sort the best first, then those that do not fit into memory, then those with errors."""
    order = sorted(standings, key=_place)
    best = order[0].forecast if order else None
    if best is None:
        return tuple(order)
    return tuple(_compared(standing, order) for standing in order)


def simplest(standings: Sequence[RankedCandidate]) -> RankedCandidate | None:
    """Return the one with the fewest changes to the base among those tied with the best.

    None if nothing is tied with it.
    """
    tied = [standing for standing in standings if standing.tied]
    base = next((standing.settings for standing in standings if standing.is_base), Settings())
    return (
        min(tied, key=lambda standing: _changed(base, standing.settings)) if len(tied) > 1 else None
    )


def _changed(base: Settings, settings: Settings) -> int:
    """Count the flags, variables and options that differ from the base's."""
    mine, theirs = (
        {**side.flags, **side.variables, **dict(side.options)} for side in (base, settings)
    )
    return sum(mine.get(name) != theirs.get(name) for name in {**mine, **theirs})


def _place(one: RankedCandidate) -> tuple[int, float, bool]:
    if one.forecast is None:
        return 2, 0.0, False
    return int(one.forecast.memory.fits is False), one.forecast.step_s, not one.is_base


def _compared(one: RankedCandidate, order: Sequence[RankedCandidate]) -> RankedCandidate:
    best = order[0].forecast
    if one.forecast is None or best is None:
        return one
    reach = difference(one.forecast.simulation, best.simulation)
    share = Range(reach.low / best.step_s, reach.high / best.step_s)
    runs = (one.forecast.memory.fits is False) == (best.memory.fits is False)
    return replace(
        one,
        behind=one.forecast.step_s / best.step_s - 1,
        reach=share,
        tied=runs and share.low <= INDIFFERENCE and share.high >= -INDIFFERENCE,
        same_as=_same_as(one, order),
    )


def _same_as(one: RankedCandidate, order: Sequence[RankedCandidate]) -> str | None:
    """Return the base if it has the same schedule, or else the first before it that has."""
    if one.is_base or one.forecast is None:
        return None
    before = [standing for standing in order if standing.is_base] + list(order[: order.index(one)])
    for other in before:
        if other.forecast and same_programs(one.forecast, other.forecast):
            return other.name
    return None


FRACTION: Final = "XLA_PYTHON_CLIENT_MEM_FRACTION"
_NEWER: Final = "XLA_CLIENT_MEM_FRACTION"
_ALLOCATOR: Final = "XLA_PYTHON_CLIENT_ALLOCATOR"
_WITHOUT_POOL: Final = "platform"  # every array is allocated separately, up to the whole memory
LIBTPU: Final = "libtpu"
USUAL: Final = 0.75  # jax's default: docs.jax.dev, "GPU memory allocation"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryFit:
    """Bytes on one device, as the compiler plans them, and the available bytes.

    `peak_bytes` is what a step allocates: arguments, outputs that reuse none of them, and the
    temporaries as the one block that they are. It is slightly low: workspaces of cuDNN and cuBLASLt
    are unknown without a device. `host_bytes` are those of the host that offloading pins.
    """

    peak_bytes: int | None  # None: unknown
    host_bytes: int | None = None
    least_bytes: int | None = None  # of an unknown peak: what buffers take
    memory_bytes: int | None  # of the chip
    fraction: float  # of it, that JAX's allocator takes
    fraction_source: str  # the variable that sets it, or the default

    @property
    def available_bytes(self) -> int | None:
        return None if self.memory_bytes is None else int(self.memory_bytes * self.fraction)

    @property
    def room(self) -> str:
        """The owner of the available bytes, as the beginning of a sentence."""
        on_tpus = self.fraction_source == LIBTPU
        return "libtpu leaves a program" if on_tpus else "JAX's allocator has"

    @property
    def fits(self) -> bool | None:
        """None if either side is unknown."""
        if self.peak_bytes is None or self.available_bytes is None:
            return None
        return self.peak_bytes <= self.available_bytes


def memory_fit(
    memory: PlannedMemory | None,
    target: Target,
    environment: Mapping[str, str],
    fraction: float | None = None,
) -> MemoryFit:
    """Compare the memory plan of a compile with a target's memory."""
    if target.tpu is not None:
        # libtpu refuses a program that does not fit, so a compiled one does. The sizes that it
        # reports add up to more for some that it accepts, such as MaxText's 22B on v4: their peak
        # is not known.
        peak = memory.peak if memory is not None else None
        known = peak is not None and peak <= target.memory_bytes
        return MemoryFit(
            peak_bytes=peak if known else None,
            least_bytes=memory.buffers if memory is not None else None,
            memory_bytes=target.memory_bytes,
            fraction=1.0,
            fraction_source=LIBTPU,
        )
    setting = next((name for name in (_NEWER, FRACTION) if environment.get(name)), None)
    if environment.get(_ALLOCATOR, "").strip().lower() == _WITHOUT_POOL:
        setting, fraction = f"{_ALLOCATOR}={_WITHOUT_POOL}: no pool", 1.0
    return MemoryFit(
        peak_bytes=memory.allocated if memory is not None else None,
        host_bytes=memory.on_host if memory is not None else None,
        memory_bytes=target.memory_bytes or None,
        fraction=_fraction(environment.get(setting or "")) if fraction is None else fraction,
        fraction_source=setting or "JAX's default",
    )


def _fraction(text: str | None) -> float:
    try:
        return float(text) if text else USUAL
    except ValueError:
        return USUAL
