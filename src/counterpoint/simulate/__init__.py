"""Simulation of a scheduled Program on a cost model, as a Timeline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterpoint.core import lazy

if TYPE_CHECKING:
    from counterpoint.simulate.in_turn import ProgramRuns as ProgramRuns
    from counterpoint.simulate.in_turn import in_turn as in_turn
    from counterpoint.simulate.jitter import Jitter as Jitter
    from counterpoint.simulate.replay import Replay as Replay
    from counterpoint.simulate.replay import overlap_gain_s as overlap_gain_s
    from counterpoint.simulate.replay import replay as replay
    from counterpoint.simulate.simulation import Simulation as Simulation
    from counterpoint.simulate.simulation import simulate as simulate

__getattr__ = lazy(__name__)
