"""Jitter: how the times of real devices scatter about their prices, as a seeded sample.

Two causes. Each execution takes a little more or less than its price: within a step that evens out,
but a collective waits for the slowest of its ranks, and the more ranks, the later that one is. And
whole devices are slower than others: everybody runs at the pace of the slowest.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from counterpoint.core.errors import UsageError
from counterpoint.simulate.case import Case
from counterpoint.simulate.plan import Seconds
from counterpoint.simulate.simulation import Jittered
from counterpoint.simulate.streams import Load

_DRAWS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Jitter:
    """Disturb every piece of work, and let collectives wait for the slowest of their ranks.

    `noise` is the standard deviation of the logarithm of one execution's time; `straggling` that of
    the speed of a whole device over one step.
    """

    noise: float = 0.0
    straggling: float = 0.0
    ranks: int = 1
    samples: int = 64
    seed: int = 0

    def __post_init__(self) -> None:
        if self.noise < 0 or self.straggling < 0 or self.ranks < 1 or self.samples < 1:
            raise UsageError(
                f"{self} can't be drawn",
                why="noise and straggling are 0 or more, ranks and samples 1 or more",
            )


def disturb(jitter: Jitter, case: Case, times: Seconds) -> Jittered:
    """Run the case again and again; `times` has how often each instruction runs in a step."""
    generator = np.random.default_rng(jitter.seed)
    samples = sorted(
        case.step_s(_disturbed(jitter, case, times, generator)) for _ in range(jitter.samples)
    )
    p10, median, p90 = np.percentile(samples, [10, 50, 90]).tolist()
    return Jittered(samples=tuple(samples), median_s=median, p10_s=p10, p90_s=p90)


def _disturbed(
    jitter: Jitter, case: Case, times: Seconds, generator: np.random.Generator
) -> Seconds:
    costs, computes = case.prices.likely, case.loads == Load.COMPUTE
    talks = (case.loads == Load.COLLECTIVE) & (costs > 0)
    slowest = _slowest_of(jitter.ranks, generator)
    evened = jitter.noise / np.sqrt(np.maximum(times, 1))
    disturbed = costs * np.exp(evened * generator.standard_normal(len(costs)))
    disturbed[computes] *= np.exp(jitter.straggling * slowest[0])
    meetings = times[talks].sum()
    if meetings:
        # Between two collectives every rank strays by this much; taken alike for all of them.
        strays = jitter.noise * np.sqrt((times * costs**2)[computes].sum() / meetings)
        evened_out: Seconds = slowest.std() / np.sqrt(np.maximum(times[talks], 1))
        wait: Seconds = slowest.mean() + evened_out * generator.standard_normal(len(evened_out))
        disturbed[talks] += strays * np.maximum(wait, 0)
    return disturbed


def _slowest_of(ranks: int, generator: np.random.Generator) -> Seconds:
    """Samples of the largest of as many normal numbers as there are ranks."""
    tail = -np.expm1(np.log(generator.uniform(1e-12, 1, _DRAWS)) / ranks)
    normal = NormalDist()
    return np.array([-normal.inv_cdf(min(max(share, 1e-300), 1 - 1e-16)) for share in tail])
