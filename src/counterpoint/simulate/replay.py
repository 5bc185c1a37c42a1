"""Replay: a program's own schedule, run again on what its instructions were measured to take.

What a step would gain if some of it took no time is the difference of two runs: work behind a
collective that is gone moves up, but only as far as the next thing it has to wait for. Contention
is in the measured times already, and stays there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from counterpoint.hlo import Program
from counterpoint.simulate.engine import Engine
from counterpoint.simulate.layout import lay_out
from counterpoint.simulate.plan import Plan, Seconds


@dataclass(frozen=True, slots=True, eq=False)
class Replay:
    """`each` are seconds of one execution, one per instruction of the plan."""

    plan: Plan
    names: tuple[str, ...]
    each: Seconds
    gap_s: float

    def step_s(self, free: Collection[str] = ()) -> float:
        """The step if these took no time, nor had to be launched."""
        left = np.array([name not in free for name in self.names])
        costs: Seconds = self.each * left
        return _engine(self.plan, costs + self.gap_s * (costs > 0)).run()


def replay(program: Program, seconds: Mapping[str, float], gap_s: float = 0.0) -> Replay:
    """A Replay on what instructions take in a whole step, by name; others take no time.

    An async instruction goes by its start. What runs several times takes an even share each time.
    `gap_s` is what the device needs between two pieces of work on a stream.
    """
    plan = lay_out(program)
    names = tuple(it.name for it in plan.instructions)
    engine = _engine(plan, np.zeros(len(names)))
    engine.run()
    sizes = [block.last - block.first for block in plan.blocks]
    times = np.repeat(np.array(engine.sums.counts, np.float64), sizes) * plan.weights
    total = np.array([seconds.get(name, 0.0) for name in names], np.float64)
    each = np.divide(total, times, out=np.zeros_like(total), where=times > 0)
    return Replay(plan, names, each, gap_s)


def _engine(plan: Plan, costs: Seconds) -> Engine:
    return Engine(plan, plan.block_sums(costs).tolist(), [0.0] * len(plan.blocks))
