"""Calibrate: fit the few scalars of the cost model to what was measured.

`calibrate` takes recordings of GPUs: times of single instructions against their prices. Instructions
are left out in turn to say how well the fit tells what it did not see.

`calibrate_steps` (step_fit.py) takes step times alone, as published ones are.
"""

from __future__ import annotations

from collections.abc import Sequence

from counterpoint.cost.scalars import Scalars
from counterpoint.hardware import Target
from counterpoint.timeline.model import Timeline
from counterpoint.workflow.calibration import Calibration


def calibrate(
    timelines: Sequence[Timeline], target: Target, *, start: Scalars | None = None
) -> Calibration:
    """Fit the scalars of the target's chip to recordings of steps on it.

    `start` is the chip's default where none is given. InputError where no recording holds a
    program with its HLO and times of its instructions on a device.
    """
    raise NotImplementedError
