"""Bisection: which of the releases between two changed the step.

The releases are halved as long as the ends of an interval differ, on both sides of the middle: so
several changes are found, and a stretch without a change costs nothing. A change that a later
release takes back within such a stretch stays unseen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from counterpoint.core import CounterpointError, Unknown
from counterpoint.diagnose.compare.comparison import compare
from counterpoint.workflow.upgrade.changes import StepChangeOfKind, changes_of, programs_of
from counterpoint.workflow.upgrade.side import UpgradeSide

LEAST_MOVE: Final = 0.005
"""Share of the step: smaller changes are not looked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseStep:
    """The step with one release; of one that could not be tried, the error."""

    version: str
    side: UpgradeSide | None = None
    error: CounterpointError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseMove:
    """A release that changed the step, compared with the release before it."""

    before: str
    after: str
    change: float
    difference_ms: float
    changes: tuple[StepChangeOfKind, ...]


def bisect(
    versions: Sequence[str],
    ends: tuple[UpgradeSide, UpgradeSide],
    predict: Callable[[str], UpgradeSide],
    *,
    each: bool = False,
) -> tuple[ReleaseStep, ...]:
    """Return the releases that were predicted, in order: those around each change, or each of all.

    `versions` begin and end with those of `ends`.
    """
    steps = {
        0: ReleaseStep(version=versions[0], side=ends[0]),
        len(versions) - 1: ReleaseStep(version=versions[-1], side=ends[1]),
    }

    def halve(low: int, high: int) -> None:
        if not each and _change(steps[low].side, steps[high].side) <= LEAST_MOVE:
            return
        left = [at for at in range(low + 1, high) if at not in steps]
        if not left:
            return
        middle = left[len(left) // 2]
        try:
            steps[middle] = ReleaseStep(version=versions[middle], side=predict(versions[middle]))
        except CounterpointError as error:
            steps[middle] = ReleaseStep(version=versions[middle], error=error)
            halve(low, high)  # with the others between
            return
        halve(low, middle)
        halve(middle, high)

    halve(0, len(versions) - 1)
    return tuple(steps[at] for at in sorted(steps))


def _change(one: UpgradeSide | None, other: UpgradeSide | None) -> float:
    if one is None or other is None:
        return 0.0
    return abs(other.forecast.step_s / one.forecast.step_s - 1)


def moves_of(steps: Sequence[ReleaseStep], least: float = LEAST_MOVE) -> tuple[ReleaseMove, ...]:
    """Return the releases that changed the step by at least a share, and what they changed."""
    sides = [(step.version, step.side) for step in steps if step.side is not None]
    return tuple(
        _move(one, other) for (_, one), (_, other) in pairwise(sides) if _change(one, other) > least
    )


def _move(one: UpgradeSide, other: UpgradeSide) -> ReleaseMove:
    before, after = one.forecast, other.forecast
    work = compare(before.simulation.timeline, after.simulation.timeline).work
    return ReleaseMove(
        before=one.installation.jax,
        after=other.installation.jax,
        change=after.step_s / before.step_s - 1,
        difference_ms=(after.step_s - before.step_s) * 1e3,
        changes=()
        if isinstance(work, Unknown)
        else changes_of(work, programs_of(before), programs_of(after)),
    )
