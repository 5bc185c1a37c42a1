"""Jitter: a seeded sample of steps in which executions scatter and devices differ."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from counterpoint.core import UsageError
from counterpoint.simulate.plan import (
    Load,
    Seconds,
)
from counterpoint.simulate.priced_plan import PricedPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class JitteredSteps:
    """Step times of a seeded sample of disturbed runs, in seconds."""

    samples: tuple[float, ...]
    median_s: float
    p10_s: float
    p90_s: float


_DRAWS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Jitter:
    """Disturb every piece of work, and let collectives wait for the slowest of their ranks.

    `noise` is the standard deviation of the logarithm of one execution's time; `straggling` that of
    the speed of a whole device over one step.

    Each execution takes a little more or less than its price. That averages out within a step, but
    a collective waits for the slowest of its ranks, and the more ranks, the later that is. Besides,
    whole devices are slower than others, and all run at the pace of the slowest.
    """

    noise: float = 0.0
    straggling: float = 0.0
    ranks: int = 1
    samples: int = 64
    seed: int = 0

    def __post_init__(self) -> None:
        if self.noise < 0 or self.straggling < 0 or self.ranks < 1 or self.samples < 1:
            raise UsageError(
                f"{self} cannot be sampled",
                why="noise and straggling must be at least 0, ranks and samples at least 1",
            )


def disturb(jitter: Jitter, priced: PricedPlan, times: Seconds) -> JitteredSteps:
    """Run the plan repeatedly; `times` has how often each instruction runs in a step."""
    generator = np.random.default_rng(jitter.seed)
    samples = sorted(
        priced.step_s(_disturbed(jitter, priced, times, generator)) for _ in range(jitter.samples)
    )
    p10, median, p90 = np.percentile(samples, [10, 50, 90]).tolist()
    return JitteredSteps(samples=tuple(samples), median_s=median, p10_s=p10, p90_s=p90)


def _disturbed(
    jitter: Jitter, priced: PricedPlan, times: Seconds, generator: np.random.Generator
) -> Seconds:
    costs, is_compute = priced.prices.likely, priced.loads == Load.COMPUTE
    collectives = (priced.loads == Load.COLLECTIVE) & (costs > 0)
    slowest = _slowest_of(jitter.ranks, generator)
    evened = jitter.noise / np.sqrt(np.maximum(times, 1))
    disturbed = costs * np.exp(evened * generator.standard_normal(len(costs)))
    disturbed[is_compute] *= np.exp(jitter.straggling * slowest[0])
    meetings = times[collectives].sum()
    if meetings:
        # Every rank deviates by this much between two collectives; assumed equal for all of them.
        strays = jitter.noise * np.sqrt((times * costs**2)[is_compute].sum() / meetings)
        evened_out: Seconds = slowest.std() / np.sqrt(np.maximum(times[collectives], 1))
        wait: Seconds = slowest.mean() + evened_out * generator.standard_normal(len(evened_out))
        disturbed[collectives] += strays * np.maximum(wait, 0)
    return disturbed


def _slowest_of(ranks: int, generator: np.random.Generator) -> Seconds:
    """Return samples of the largest of `ranks` normal numbers."""
    tail = -np.expm1(np.log(generator.uniform(1e-12, 1, _DRAWS)) / ranks)
    normal = NormalDist()
    return np.array([-normal.inv_cdf(min(max(share, 1e-300), 1 - 1e-16)) for share in tail])
