"""Chains of collectives: each needs what the one before brings, so no two can go together."""

from __future__ import annotations

from collections.abc import Collection

from counterpoint.diagnose.case import Case


def longest_chain(case: Case, names: Collection[str]) -> int:
    """How many of these instructions of the step's program follow on each other at most.

    Within one computation: what a loop repeats counts once. 0 without HLO.
    """
    program = case.program
    if program is None:
        return 0
    asked = {it.name: it for name in names if (it := program.instruction(name)) is not None}
    longest = 0
    for computation in {it.computation for it in asked.values()}:
        depth: dict[str, int] = {}
        for it in program.computations[computation].instructions:  # operands stand before users
            before = max((depth.get(name, 0) for name in it.operands), default=0)
            depth[it.name] = before + (it.name in asked)
        longest = max(longest, *depth.values())
    return longest
