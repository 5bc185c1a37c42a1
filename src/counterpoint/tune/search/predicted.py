"""What a Forecast says of an arm against the base's, in the words of a journal; and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from counterpoint.core.basis import Range
from counterpoint.cost import Family
from counterpoint.simulate import Simulation
from counterpoint.tune.arm import Predicted
from counterpoint.workflow.prediction.memory_fit import MemoryFit
from counterpoint.workflow.prediction.ranking import INDIFFERENCE, Reaching, difference
from counterpoint.workflow.prediction.step_range import step_range


@dataclass(frozen=True, slots=True)
class Step:
    """A predicted step, as far as it takes to tell it from another."""

    step_s: float
    reach_s: Mapping[Family, tuple[float, float]]


def predicted(base: Reaching, made: Simulation, memory: MemoryFit, program: str) -> Predicted:
    """What one simulated step says against the base's."""
    saves = difference(base, made)
    return Predicted(
        step_s=made.step_s,
        range_s=step_range(made),
        gain=1 - made.step_s / base.step_s,
        gain_range=Range(saves.low / base.step_s, saves.high / base.step_s),
        program=program,
        exposed_s=made.exposed_s,
        peak_bytes=memory.peak_bytes,
        limit_bytes=memory.available_bytes,
        fits=memory.fits,
        reach=tuple((str(family), low, high) for family, (low, high) in made.reach_s.items()),
    )


def same_program(one: Predicted, memory: MemoryFit) -> Predicted:
    """What is predicted for the same program, where there may be more or less memory for it."""
    return replace(
        one,
        peak_bytes=memory.peak_bytes,
        limit_bytes=memory.available_bytes,
        fits=memory.fits,
    )


def step_of(one: Predicted) -> Step:
    """The step as it was simulated, from what was kept of it."""
    return Step(one.step_s, {Family(name): (low, high) for name, low, high in one.reach})


def behind(one: Predicted, other: Predicted) -> Range:
    """By how many seconds the first step is longer: its range, with shared errors cancelled."""
    return difference(step_of(one), step_of(other))


def are_tied(one: Predicted, best: Predicted) -> bool:
    """Whether the difference may be nothing that counts."""
    reach = behind(one, best)
    band = INDIFFERENCE * best.step_s
    runs = (one.fits is False) == (best.fits is False)
    return runs and reach.low <= band and reach.high >= -band
