"""The range of a predicted step: the effect of price errors, and of what the model omits.

Prices are of kernels and transfers. A step has more: the host, input, the slowest of all GPUs,
layers and software of its time. Only whole steps show how much that is. published_steps.csv has
published ones beside their predictions (benchmarks/published.py makes it, docs/accuracy.md explains
it); the term for a longer step is the smallest with which COVERAGE of those lie inside that were
not used to fit the model. Differences between candidates have no such term: what the model omits of
one program, it omits of its other schedules, too (`prediction.ranked`).
"""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Final

from counterpoint.core import Range
from counterpoint.cost.model import PriceSource
from counterpoint.simulate.simulation import Simulation

COVERAGE: Final = 0.8
FASTER: Final = 0.13
"""The share by which a step may be shorter, beside price errors.

Single GEMMs of steps on H100 reach 0.92 of the tables, published steps 0.80 of them (h100.toml):
GPUs that don't wait for a slower one gain the difference. No published step is 5% shorter than
predicted.
"""

_BY_BOUNDS: Final = 0.25
_MOSTLY: Final = 0.5
ON_TPUS: Final = 0.15
"""The share by which a step on TPUs may be shorter or longer, beside price errors.

A rule of thumb: libtpu is of 2026, published steps are of 2024 to 2026, and few were compared.
"""
WITHOUT_CYCLES: Final = 0.2
"""The share by which a step on TPUs may be longer if no price is libtpu's estimate of cycles.

libtpu writes them with the machine code, which `--schedule-only` leaves out. With them, most steps
that were predicted both ways are longer: four published ones by 1 to 5%, a small one by 17%. One
is 11% shorter, which ON_TPUS allows for.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedStep:
    """One published step time, and its prediction with the range that price errors give."""

    id: str
    name: str
    measured_s: float
    predicted_s: float
    low_s: float
    high_s: float
    newest: bool  # of its configuration: others are of older software
    fitted: bool  # one of those that docs/accuracy.md fits scalars to
    shipped: bool  # the shipped scalars were selected by it

    @property
    def decided(self) -> bool:
        """True if any number of the model was selected by it: then it is no test of the model."""
        return self.fitted or self.shipped

    def lies_in(self, slower: float, faster: float = FASTER) -> bool:
        """Return True if it is in the range that these terms give."""
        prices = Range(self.low_s, self.high_s)
        reach = widened(self.predicted_s, prices, slower=slower, faster=faster)
        return reach.low <= self.measured_s <= reach.high

    @property
    def needs(self) -> float:
        """The smallest term for a longer step with which it is inside the range."""
        over = self.measured_s / self.predicted_s - 1
        prices = self.high_s / self.predicted_s - 1
        return math.sqrt(max(over, prices) ** 2 - prices**2)


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeCoverage:
    """The coverage of a range: the share of published steps inside, and their number."""

    share: float
    steps: int
    basis: str = "published step times that decided no number of the model: docs/accuracy.md"


@cache
def published_steps() -> tuple[PublishedStep, ...]:
    """Read the published steps, in the order of the file."""
    file = resources.files("counterpoint.workflow.prediction").joinpath("published_steps.csv")
    return tuple(
        PublishedStep(
            id=row["id"],
            name=row["name"],
            measured_s=float(row["measured_s"]),
            predicted_s=float(row["predicted_s"]),
            low_s=float(row["low_s"]),
            high_s=float(row["high_s"]),
            newest=row["newest"] == "yes",
            fitted=row["fitted"] == "yes",
            shipped=row["shipped"] == "yes",
        )
        for row in csv.DictReader(file.read_text("utf-8").splitlines())
    )


def term_for(steps: Sequence[PublishedStep]) -> float:
    """Return the smallest term for a longer step with which COVERAGE of these are inside."""
    needs = sorted(step.needs for step in steps)
    return needs[math.ceil(COVERAGE * len(needs) - 1e-9) - 1]


@cache
def model_error() -> float:
    """Return the share by which a step may be longer, beside price errors, rounded up to 0.01."""
    return math.ceil(term_for([step for step in published_steps() if not step.decided]) * 100) / 100


def covered(simulation: Simulation) -> RangeCoverage | None:
    """Return the coverage of the step's range; None if costs were measured, as none has those.

    Nor does any published step depend on what has bounds instead of prices, or consist mostly of
    other work than products and communication.
    """
    if _measured(simulation) or simulation.on_tpus or by_bounds(simulation):
        return None
    if unlike_published(simulation):
        return None
    tests = [step for step in published_steps() if not step.decided]
    inside = sum(step.lies_in(model_error()) for step in tests)
    return RangeCoverage(share=inside / len(tests), steps=len(tests))


def step_range(simulation: Simulation) -> Range:
    """Return the range of the whole step, for comparison with a measurement."""
    left = 1 - _measured(simulation)
    prices = Range(simulation.low_s, simulation.high_s)
    if simulation.on_tpus:
        slower = math.hypot(ON_TPUS, WITHOUT_CYCLES) if without_cycles(simulation) else ON_TPUS
        return widened(simulation.step_s, prices, slower=slower * left, faster=ON_TPUS * left)
    reach = widened(simulation.step_s, prices, slower=model_error() * left, faster=FASTER * left)
    # No kernel is shorter than its own bound.
    least = max((bound.low_s for bound in simulation.unpriced), default=0.0)
    return Range(max(reach.low, min(least, simulation.step_s)), reach.high)


def without_cycles(simulation: Simulation) -> bool:
    """Return whether no price of a step on TPUs is libtpu's estimate of cycles."""
    return simulation.on_tpus and not simulation.rests_on.get(PriceSource.COMPILER)


def by_bounds(simulation: Simulation) -> bool:
    """Return whether what is not priced can change the step by a fourth or more."""
    bounds_s = sum(bound.high_s for bound in simulation.unpriced)
    return bounds_s > _BY_BOUNDS * simulation.step_s


def unlike_published(simulation: Simulation) -> bool:
    """Return whether most of the step is work of which no published step consists."""
    return simulation.as_published < _MOSTLY


def widened(step_s: float, prices: Range, *, slower: float, faster: float) -> Range:
    """Combine errors of prices and of the model as independent ones."""
    low = step_s - math.hypot(step_s - prices.low, step_s * faster)
    return Range(max(0.0, low), step_s + math.hypot(prices.high - step_s, step_s * slower))


def _measured(simulation: Simulation) -> float:
    """Return the share of priced time that was measured on this workload."""
    whole = sum(simulation.rests_on.values())
    return simulation.rests_on.get(PriceSource.MEASURED, 0.0) / whole if whole else 0.0
