"""Simulation: what came of running a Program on a cost model, and what it rests on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from counterpoint.cost import Family, Source
from counterpoint.timeline.model import Timeline


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpriced:
    """An instruction that nothing prices: the least and the most that all its runs can take."""

    instruction: str
    times: int
    low_s: float
    high_s: float
    share: float  # of the step, at most
    how: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Uncounted:
    """A loop whose trip count the program does not tell; one trip is counted."""

    instruction: str
    each_s: float
    source: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Jittered:
    """Step times of a seeded sample of disturbed runs, in seconds."""

    samples: tuple[float, ...]
    median_s: float
    p10_s: float
    p90_s: float


@dataclass(frozen=True, kw_only=True)
class Simulation:
    """One predicted step.

    The range is what errors of prices do: independent between families, alike within one.
    """

    draw: Callable[[], Timeline] = field(repr=False)
    step_s: float
    low_s: float
    high_s: float
    reach_s: Mapping[Family, tuple[float, float]]  # what each family alone does to the step
    rests_on: Mapping[Source, float]  # seconds of work, by where their prices come from
    exposed_s: float  # communication goes on, and no compute beside it
    communicating_s: float  # that any goes on, exposed or hidden
    communication_s: float  # work of it, as if nothing ran beside it
    compute_s: float
    unpriced: tuple[Unpriced, ...]
    uncounted: tuple[Uncounted, ...]
    critical_path_s: float  # the step if communication and copies took no time
    busiest_lane_s: float  # the most that one stream has to do
    jittered: Jittered | None
    notes: tuple[str, ...]

    @cached_property
    def timeline(self) -> Timeline:
        """The step as a Timeline, drawn when somebody looks at it."""
        return self.draw()
