"""How long communication goes on, and how long without compute, as `explain` counts it."""

from __future__ import annotations

import numpy as np

from counterpoint.core.intervals import Intervals, union
from counterpoint.hlo import Program, category
from counterpoint.simulate.case import Case
from counterpoint.simulate.course import Course
from counterpoint.simulate.drawing import draw_spans
from counterpoint.timeline.model import Lane
from counterpoint.timeline.naming import lane


def communicating_s(program: Program, case: Case, course: Course) -> tuple[float, float]:
    """Seconds of communication, and of these exposed, by the very spans that the Timeline has."""
    lanes = np.array([str(lane(category(program, it), it.opcode)) for it in case.plan.instructions])
    spans = draw_spans(case, course)
    at = lanes[spans["op"].to_numpy()]
    start, end = spans["start_ps"].to_numpy(), (spans["start_ps"] + spans["dur_ps"]).to_numpy()

    def during(one: Lane) -> Intervals:
        return union(start[at == one], end[at == one])

    talk = during(Lane.COLLECTIVE)
    return talk.total / 1e12, (talk - during(Lane.COMPUTE)).total / 1e12
