"""What XLA compiled in a Run, as the agent recorded it."""

from __future__ import annotations

from dataclasses import dataclass

from counterpoint.runs.run import Run

__all__ = ["RunCompiles", "all_compiles"]


@dataclass(frozen=True, slots=True)
class RunCompiles:
    """XLA's compiles of the rank that spent most time on them."""

    count: int
    seconds: float
    longest: str | None
    longest_s: float


def all_compiles(run: Run) -> RunCompiles | None:
    """Return what XLA compiled in a Run; None if nothing."""
    ranks = [[each for each in rank.compiles if each.kind == "backend"] for rank in run.ranks]
    if not any(ranks):
        return None
    compiles = max(ranks, key=lambda of_rank: sum(each.seconds for each in of_rank))
    longest = max(compiles, key=lambda each: each.seconds)
    seconds = sum(each.seconds for each in compiles)
    return RunCompiles(len(compiles), seconds, longest.name, longest.seconds)
