"""Predicted steps: what a simulation says of an arm relative to the base, and comparisons of two.

Errors that two predictions share cancel when they are compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from counterpoint.core import Range
from counterpoint.cost.model import PriceFamily
from counterpoint.simulate.simulation import Simulation
from counterpoint.tune.arm import Predicted
from counterpoint.workflow.forecast import (
    MemoryFit,
    step_range,
)
from counterpoint.workflow.prediction import (
    INDIFFERENCE,
    UncertainStep,
    difference,
)


@dataclass(frozen=True, slots=True)
class PredictedStep:
    """A predicted step, with what it takes to compare it with another."""

    step_s: float
    reach_s: Mapping[PriceFamily, tuple[float, float]]


def predicted(
    base: UncertainStep, simulation: Simulation, memory: MemoryFit, program: str
) -> Predicted:
    """Return the prediction of one simulated step, relative to the base's."""
    saves = difference(base, simulation)
    return Predicted(
        step_s=simulation.step_s,
        range_s=step_range(simulation),
        gain=1 - simulation.step_s / base.step_s,
        gain_range=Range(saves.low / base.step_s, min(saves.high / base.step_s, 1.0)),
        program=program,
        exposed_s=simulation.exposed_s,
        peak_bytes=memory.peak_bytes,
        limit_bytes=memory.available_bytes,
        fits=memory.fits,
        reach=tuple((str(family), low, high) for family, (low, high) in simulation.reach_s.items()),
    )


def with_other_memory(one: Predicted, memory: MemoryFit) -> Predicted:
    """Return the prediction for the same program with another memory limit."""
    return replace(
        one,
        peak_bytes=memory.peak_bytes,
        limit_bytes=memory.available_bytes,
        fits=memory.fits,
    )


def step_of(one: Predicted) -> PredictedStep:
    """Return the simulated step, from the parts of it that are stored."""
    return PredictedStep(
        one.step_s, {PriceFamily(name): (low, high) for name, low, high in one.reach}
    )


def behind(one: Predicted, other: Predicted) -> Range:
    """Return by how many seconds the first step is longer: a range, less shared errors."""
    return difference(step_of(one), step_of(other))


def are_tied(one: Predicted, best: Predicted) -> bool:
    """Return whether the difference may be too small to matter."""
    reach = behind(one, best)
    band = INDIFFERENCE * best.step_s
    runs = (one.fits is False) == (best.fits is False)
    return runs and reach.low <= band and reach.high >= -band
