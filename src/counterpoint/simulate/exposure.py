"""How long communication goes on without compute beside it, as `explain` counts it on a profile."""

from __future__ import annotations

import numpy as np

from counterpoint.core.intervals import Intervals, union
from counterpoint.hlo import Program, category
from counterpoint.simulate.case import Case
from counterpoint.simulate.course import Course
from counterpoint.simulate.drawing import draw_spans
from counterpoint.timeline.model import Lane
from counterpoint.timeline.naming import lane


def exposed_s(program: Program, case: Case, course: Course) -> float:
    """Seconds, by the very spans that the Timeline has; gaps between kernels count."""
    lanes = np.array([str(lane(category(program, it), it.opcode)) for it in case.plan.instructions])
    spans = draw_spans(case, course)
    at = lanes[spans["op"].to_numpy()]
    start, end = spans["start_ps"].to_numpy(), (spans["start_ps"] + spans["dur_ps"]).to_numpy()

    def during(one: Lane) -> Intervals:
        return union(start[at == one], end[at == one])

    return (during(Lane.COLLECTIVE) - during(Lane.COMPUTE)).total / 1e12
