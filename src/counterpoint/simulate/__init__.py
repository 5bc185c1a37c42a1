"""Simulation of a scheduled Program on a cost model, as a Timeline."""

from counterpoint.simulate.simulation import Jitter as Jitter
from counterpoint.simulate.simulation import Replay as Replay
from counterpoint.simulate.simulation import Simulation as Simulation
from counterpoint.simulate.simulation import overlap_gain_s as overlap_gain_s
from counterpoint.simulate.simulation import replay as replay
from counterpoint.simulate.simulation import simulate as simulate
