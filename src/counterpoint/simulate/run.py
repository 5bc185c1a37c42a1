"""`simulate`: Program x CostModel -> Simulation. Docs: docs/concepts/simulate.md."""

from __future__ import annotations

from counterpoint.cost import CostModel
from counterpoint.hardware.target import Target
from counterpoint.hlo import Program
from counterpoint.simulate.jitter import Jitter
from counterpoint.simulate.simulation import Simulation


def simulate(
    program: Program,
    model: CostModel,
    *,
    target: Target | None = None,
    device_name: str | None = None,
    jitter: Jitter | None = None,
    hlo: bytes | None = None,
) -> Simulation:
    """Run one step of a scheduled program on a device of the target.

    `hlo` is the module as the compiler wrote it: with it the Timeline carries its program on disk
    too. `device_name` names the chip where there is no target.
    """
    raise NotImplementedError
