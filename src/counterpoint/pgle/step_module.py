"""Which of several compiled modules is the training step: the one that computes most.

Files tell little: a module that fills arrays with random numbers is larger than the step it serves.
"""

from __future__ import annotations

from collections.abc import Iterable

from counterpoint.hlo import Program, collective, flops, launched, loop_multiplier


def heaviest(programs: Iterable[Program]) -> Program | None:
    """The one with most FLOPs; among equals that with most collectives, then instructions."""
    return max(programs, key=weight, default=None)


def weight(program: Program) -> tuple[int, int, int]:
    """FLOPs with loops counted as often as they turn, collectives, and instructions."""
    work = talks = size = 0
    for computation in launched(program):
        times = loop_multiplier(program, computation.name) or 1
        size += len(computation.instructions)
        for instruction in computation.instructions:
            work += (flops(program, instruction) or 0) * times
            talks += collective(program, instruction) is not None
    return work, talks, size
