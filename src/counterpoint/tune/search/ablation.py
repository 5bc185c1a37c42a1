"""Ablation: what the best arm would lose without each of its changes, and which it can do without.

A change that brings nothing is one more thing that may go wrong, and makes nobody's step shorter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from counterpoint.tune.arm import Acts, Arm, Change, Origin, Predicted
from counterpoint.tune.journal.records import Ablated, CandidateSeen
from counterpoint.tune.search.grid import Grid
from counterpoint.tune.search.predicted import are_tied, behind
from counterpoint.tune.space.point import arm_with
from counterpoint.tune.study.ledger import stamp

NOTHING: Final = 0.001
"""Of the base's step: a change that brings less has no reason to be there."""

Predict: TypeAlias = Callable[[Iterable[Arm]], Iterator[CandidateSeen]]


@dataclass(frozen=True, slots=True)
class Minimal:
    """A winner of which each change brings something, and what that is."""

    winner: CandidateSeen
    ablated: tuple[Ablated, ...] = ()


def minimal(grid: Grid, base: Predicted, winner: CandidateSeen, predict: Predict) -> Minimal:
    """The winner without what brings nothing; `predict` is asked for each arm less one change."""
    while True:
        figures = winner.arm.predicted
        without = list(_without(grid, winner.arm))
        if figures is None or not without:
            return Minimal(winner)
        made = list(predict(arm for _, arm in without))
        rows = [(change, seen) for (change, _), seen in zip(without, made, strict=True)]
        idle = sorted(
            (row for row in rows if _is_idle(base, figures, row[1])),
            key=lambda row: _step_s(row[1]),
        )
        if not idle:
            return Minimal(winner, tuple(_ablated(base, winner, rows)))
        winner = _less(grid, base, winner, idle, predict)


def _less(
    grid: Grid,
    base: Predicted,
    winner: CandidateSeen,
    idle: Sequence[tuple[Change, CandidateSeen]],
    predict: Predict,
) -> CandidateSeen:
    """Without all that is idle if that costs nothing together, else one after another."""
    everything = _arm(grid, winner.arm, {change.dimension for change, _ in idle})
    together = next(predict([everything]), None) if everything is not None else None
    if together is not None and _is_no_worse(base, winner, together):
        return together
    current = idle[0][1]
    for change, _ in idle[1:]:
        arm = _arm(grid, current.arm, {change.dimension})
        less = next(predict([arm]), None) if arm is not None else None
        if less is not None and _is_no_worse(base, current, less):
            current = less
    return current


def _is_no_worse(base: Predicted, one: CandidateSeen, less: CandidateSeen) -> bool:
    return one.arm.predicted is not None and _is_idle(base, one.arm.predicted, less)


def _without(grid: Grid, arm: Arm) -> Iterator[tuple[Change, Arm]]:
    """The arm less each of the changes that the compiler sees."""
    for change in arm.changes:
        if change.acts is Acts.SCHEDULE:
            made = _arm(grid, arm, {change.dimension})
            if made is not None:
                yield change, made


def _arm(grid: Grid, arm: Arm, dimensions: set[str]) -> Arm | None:
    """The arm less those changes, and less what can't be without them."""
    point = grid.point_of(arm)
    if point is not None:
        for it in dimensions:
            point = grid.without(point, it)
        return None if grid.why_not(point) else grid.arm(point, Origin.ABLATION)
    kept = tuple(it for it in arm.changes if it.dimension not in dimensions)
    return arm_with(grid.space, kept, Origin.ABLATION)


def _is_idle(base: Predicted, winner: Predicted, less: CandidateSeen) -> bool:
    """Whether nothing is lost with what the winner has more."""
    figures = less.arm.predicted
    if figures is None or (figures.fits is False and winner.fits is not False):
        return False
    if figures.program == winner.program and figures.step_s == winner.step_s:
        return True
    return _loses(base, winner, figures) <= NOTHING and are_tied(figures, winner)


def _loses(base: Predicted, winner: Predicted, less: Predicted) -> float:
    return (less.step_s - winner.step_s) / base.step_s


def _step_s(seen: CandidateSeen) -> float:
    return seen.arm.predicted.step_s if seen.arm.predicted is not None else float("inf")


def _ablated(
    base: Predicted, winner: CandidateSeen, rows: Iterable[tuple[Change, CandidateSeen]]
) -> Iterator[Ablated]:
    figures = winner.arm.predicted
    for change, seen in rows:
        less = seen.arm.predicted
        if figures is None or less is None:
            continue  # what it would be without the change is not known
        reach = behind(less, figures)
        yield Ablated(
            arm=winner.arm.name,
            dimension=change.dimension,
            choice=change.choice,
            loses=_loses(base, figures, less),
            low=reach.low / base.step_s,
            high=reach.high / base.step_s,
            basis="predicted",
            at=stamp(),
        )
