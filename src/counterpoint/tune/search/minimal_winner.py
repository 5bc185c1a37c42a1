"""The winner of a search without idle changes, and what it would lose without each of the others.

A change that shortens no step is one more thing that may go wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from counterpoint.tune.arm import Acts, Arm, ArmChange, ArmOrigin, Predicted
from counterpoint.tune.search.grid import Grid
from counterpoint.tune.search.predicted_step import are_tied, behind
from counterpoint.tune.space.space import arm_with
from counterpoint.tune.study.ledger import stamp
from counterpoint.tune.study.records import Ablated, CandidateSeen

NEGLIGIBLE_LOSS: Final = 0.001
"""Share of the base's step below which a change is not worth including."""
Predict: TypeAlias = Callable[[Iterable[Arm]], Iterator[CandidateSeen]]


@dataclass(frozen=True, slots=True)
class MinimalWinner:
    """A winner in which every change matters, and the loss without each change."""

    winner: CandidateSeen
    ablated: tuple[Ablated, ...] = ()


def minimal_winner(
    grid: Grid, base: Predicted, winner: CandidateSeen, predict: Predict
) -> MinimalWinner:
    """Return the winner without changes that gain nothing; `predict` is called without each.

    Such a change shortens no step, and is one more thing that may go wrong.
    """
    while True:
        figures = winner.arm.predicted
        without = list(_without(grid, winner.arm))
        if figures is None or not without:
            return MinimalWinner(winner)
        outcomes = list(predict(arm for _, arm in without))
        rows = [(change, seen) for (change, _), seen in zip(without, outcomes, strict=True)]
        idle = sorted(
            (row for row in rows if _is_idle(base, figures, row[1])),
            key=lambda row: _step_s(row[1]),
        )
        if not idle:
            return MinimalWinner(winner, tuple(_ablated(base, winner, rows)))
        winner = _without_idle(grid, base, winner, idle, predict)


def _without_idle(
    grid: Grid,
    base: Predicted,
    winner: CandidateSeen,
    idle: Sequence[tuple[ArmChange, CandidateSeen]],
    predict: Predict,
) -> CandidateSeen:
    """Remove all idle changes if that costs nothing together, else one after another."""
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


def _without(grid: Grid, arm: Arm) -> Iterator[tuple[ArmChange, Arm]]:
    """Yield the arm without each of the changes that the compiler sees."""
    for change in arm.changes:
        if change.acts is Acts.SCHEDULE:
            reduced = _arm(grid, arm, {change.dimension})
            if reduced is not None:
                yield change, reduced


def _arm(grid: Grid, arm: Arm, dimensions: set[str]) -> Arm | None:
    """Return the arm without those dimensions and without whatever depends on them."""
    point = grid.point_of(arm)
    if point is not None:
        for dimension in dimensions:
            point = grid.without(point, dimension)
        return None if grid.why_not(point) else grid.arm(point, ArmOrigin.ABLATION)
    changes = tuple(change for change in arm.changes if change.dimension not in dimensions)
    return arm_with(grid.space, changes, ArmOrigin.ABLATION)


def _is_idle(base: Predicted, winner: Predicted, less: CandidateSeen) -> bool:
    """Return whether nothing is lost without the winner's additional changes."""
    figures = less.arm.predicted
    if figures is None or (figures.fits is False and winner.fits is not False):
        return False
    if figures.program == winner.program and figures.step_s == winner.step_s:
        return True
    return _loses(base, winner, figures) <= NEGLIGIBLE_LOSS and are_tied(figures, winner)


def _loses(base: Predicted, winner: Predicted, less: Predicted) -> float:
    return (less.step_s - winner.step_s) / base.step_s


def _step_s(seen: CandidateSeen) -> float:
    return seen.arm.predicted.step_s if seen.arm.predicted is not None else float("inf")


def _ablated(
    base: Predicted, winner: CandidateSeen, rows: Iterable[tuple[ArmChange, CandidateSeen]]
) -> Iterator[Ablated]:
    figures = winner.arm.predicted
    for change, seen in rows:
        less = seen.arm.predicted
        if figures is None or less is None:
            continue  # the step without the change is unknown
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
