"""Runs whose step times say nothing: they failed, computed NaN, or ended early.

A run that computes NaN may well be faster, and so may one that crashes before the long steps.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from counterpoint.capture.losses import Losses
from counterpoint.core.printable import counted_noun
from counterpoint.diagnose.compare.side import Side
from counterpoint.runs.run import Run

_REQUESTED: Final = re.compile(r"after ([\d,]+) steps?, as requested")
_SLACK: Final = 0.02
"""A run may lack this share of the steps, and at least one: the last ones may not be printed."""


def with_faults(a: Sequence[Side], b: Sequence[Side]) -> tuple[list[Side], list[Side]]:
    """Return the sides, each run with the reason why its step time does not count, if there is one.

    B's runs are held to the steps that A's runs made, and A's to the most of all.
    """
    a, b = ([_with_own(side) for side in sides] for sides in (a, b))
    most_a, most_b = (
        max((steps_of(it.run) for it in sides if it.run and it.fault is None), default=0)
        for sides in (a, b)
    )
    return (
        [_with_length(side, max(most_a, most_b)) for side in a],
        [_with_length(side, most_a) for side in b],
    )


def _with_own(side: Side) -> Side:
    """Return the run with the fault that it shows by itself."""
    if side.run is None:
        return side
    if not side.run.outcome.ok:
        return replace(side, fault=str(side.run.outcome))
    if (last := _not_finite(side.losses)) is not None:
        return replace(side, fault=last)
    return side


def _not_finite(losses: Losses) -> str | None:
    if losses.values and not math.isfinite(losses.values[-1]):
        return f"its last loss is {losses.values[-1]}, at step {losses.steps[-1]}"
    return None


def _with_length(side: Side, wanted: int) -> Side:
    if side.run is None or side.fault is not None:
        return side
    count = steps_of(side.run)
    if not count and side.times is not None:  # its profile alone has steps, which are not all
        return side
    if count >= wanted - max(1, _SLACK * wanted):
        return side
    made = f"it made {counted_noun(count, 'step')}" if count else "no step of it was seen"
    return replace(side, fault=f"{made}, where others made {wanted:,}")


def steps_of(run: Run) -> int:
    """Return the number of steps that a run made, or was to make if it was ended after them."""
    if (asked := _REQUESTED.search(run.outcome.detail)) is not None:
        return int(asked[1].replace(",", ""))
    return max((rank.steps_seen for rank in run.ranks), default=0)
