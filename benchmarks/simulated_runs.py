"""Runs that never ran, with the noise that real ones have: of steps, of runs, of allocations.

Figures are those that were seen or assumed for well-run jobs: steps as a first-order process (0.6)
with a sigma of 0.4 % and spikes; identical runs that differ by a sigma of 0.6 %, of which what an
allocation shares is the most. Everything follows from the generator.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

STEPS: Final = 50
_CORRELATION: Final = 0.6
_STEP: Final = 0.004
_SPIKES: Final = 0.02
_SPIKE: Final = 0.05

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """How much its runs differ, as sigmas of logarithms.

    Args:
        name: For the table.
        run: Between runs of one allocation.
        shared: Between allocations.
        drift: By how much each run is slower than the one before it.
        neighbours: Of a disturbance that passes from run to run (a first-order process of 0.7).
        noisy: By how much more the first arm's runs and steps scatter.
        noisy_base: The same of the base.
        outliers: Which share of the runs takes 3 % longer.
    """

    name: str
    run: float = 0.0015
    shared: float = math.sqrt(0.006**2 - 0.0015**2)
    drift: float = 0.0
    neighbours: float = 0.0
    noisy: float = 1.0
    noisy_base: float = 1.0
    outliers: float = 0.0


MACHINES: Final = (
    Machine(name="placement shared"),
    Machine(name="nothing shared", run=0.006, shared=0.0),
    Machine(name="drift 0.05 % a run", drift=0.0005),
    Machine(name="one arm scatters twice", noisy=2.0),
    Machine(name="the base scatters twice", noisy_base=2.0),
    Machine(name="neighbours 0.3 %", neighbours=0.003),
    Machine(name="2 % of runs stand out", outliers=0.02),
)


@dataclass(frozen=True, slots=True, eq=False)
class Allocation:
    """Noise for as many runs as may come: of each run, and of its steps, in logarithms."""

    machine: Machine
    common: Floats  # by run: what whoever runs then meets
    own: Floats  # by run: what is the run's alone
    steps: Floats  # by run and step

    def run(self, number: int, arm: int, gain: float) -> Floats:
        """The steps of one run, in seconds; arm 0 is the base, 1 the noisy one."""
        machine = self.machine
        factor = machine.noisy_base if arm == 0 else machine.noisy if arm == 1 else 1.0
        noise = factor * (self.own[number] + self.steps[number])
        return (1 - gain) * np.exp(self.common[number] + noise)


def allocation(machine: Machine, runs: int, rng: np.random.Generator) -> Allocation:
    """Draw one."""
    neighbours = _process(rng.standard_normal((1, runs)), 0.7)[0] * machine.neighbours
    common = rng.normal(0, machine.shared) + machine.drift * np.arange(runs) + neighbours
    common = common + 0.03 * (rng.random(runs) < machine.outliers)
    own = rng.normal(0, machine.run, runs)
    steps = _process(rng.standard_normal((runs, STEPS)), _CORRELATION) * _STEP
    spikes = (rng.random((runs, STEPS)) < _SPIKES) * rng.exponential(_SPIKE, (runs, STEPS))
    return Allocation(machine, common, own, steps + spikes)


def _process(noise: Floats, correlation: float) -> Floats:
    """A first-order process of sigma 1 along the last axis, stationary from its start."""
    noise = noise * math.sqrt(1 - correlation**2)
    noise[:, 0] /= math.sqrt(1 - correlation**2)
    return np.asarray(lfilter([1.0], [1.0, -correlation], noise), dtype=float)
