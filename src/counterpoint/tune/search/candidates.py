"""Candidates of a search: the best so far, the shortlist, and what each change gains."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from types import MappingProxyType
from typing import Final, TypeAlias

from counterpoint.core.frozen import frozen
from counterpoint.tune.arm import Acts, Arm, ArmChange, ArmOrigin, Predicted
from counterpoint.tune.search.grid import Grid, Point
from counterpoint.tune.search.predictor import are_tied, behind
from counterpoint.tune.space.space import arm_with
from counterpoint.tune.study.records import Ablated, CandidateSeen
from counterpoint.tune.study.study import stamp


@dataclass(slots=True)
class Board:
    """All candidates so far; `base` is the first. `points` omits arms outside the grid."""

    base: CandidateSeen
    candidates: list[CandidateSeen] = field(default_factory=list[CandidateSeen])
    points: dict[Point, CandidateSeen] = field(default_factory=dict[Point, CandidateSeen])

    def __post_init__(self) -> None:
        self.points[()] = self.base

    def add(self, seen: CandidateSeen, point: Point | None) -> None:
        """Add a candidate; `points` keeps only the first one of each point."""
        self.candidates.append(seen)
        if point is not None:
            self.points.setdefault(point, seen)

    def best(self) -> CandidateSeen:
        """Return the shortest step that fits, with the fewest changes, or the base."""
        return min((self.base, *self.candidates), key=place)

    def best_points(self) -> list[Point]:
        """Return one point per distinct program, best first, including the base."""
        found: dict[str, Point] = {}
        for point, seen in sorted(self.points.items(), key=lambda item: place(item[1])):
            if seen.arm.predicted is not None and seen.arm.predicted.fits is not False:
                found.setdefault(seen.arm.predicted.program, point)
        return list(found.values())

    def gain(self, point: Point) -> float | None:
        """Return a point's predicted gain; None if it does not fit or is unknown."""
        seen = self.points.get(point)
        figures = seen.arm.predicted if seen is not None else None
        return None if figures is None or figures.fits is False else figures.gain

    @property
    def programs(self) -> int:
        """Number of distinct programs, including the base's."""
        base = self.base.arm.predicted
        known = {prediction.program for prediction in self._predictions()}
        return len(known if base is None else known | {base.program})

    @property
    def same(self) -> int:
        return sum(seen.same_as is not None for seen in self.candidates)

    @property
    def failed(self) -> int:
        return sum(seen.failure is not None for seen in self.candidates)

    @property
    def too_large(self) -> int:
        return sum(prediction.fits is False for prediction in self._predictions())

    def _predictions(self) -> Iterator[Predicted]:
        for seen in self.candidates:
            if seen.arm.predicted is not None:
                yield seen.arm.predicted


def place(seen: CandidateSeen) -> tuple[bool, float, int]:
    """Sort key: candidates that fit first, then shorter steps, then fewer changes."""
    figures = seen.arm.predicted
    if figures is None:
        return True, inf, 0
    return figures.fits is False, figures.step_s, len(seen.arm.changes)


_WORTH: Final = 0.25
"""Share of the best gain below which a candidate is not measured."""
_COPY: Final = 0.002
"""Share of the base's step by which the gains of near-copies differ at most."""
_COPIED: Final = 0.9  # of the gain from the changes of both
_LITTLE: Final = 0.001  # minimum weight of a change

Weights: TypeAlias = Mapping[tuple[str, str], float]
"""Gains of the choices of dimensions, as shares of the base's step."""
_NONE: Weights = MappingProxyType({})


@frozen
class Shortlist:
    """The arms worth measuring; `tied` names those that may be as fast as the best."""

    arms: tuple[Arm, ...]
    tied: tuple[str, ...]
    effect: bool  # whether the best arm's predicted gain is large enough to matter


def shortlist(
    base: CandidateSeen,
    candidates: Iterable[CandidateSeen],
    winner: CandidateSeen,
    *,
    most: int,
    indifferent: float,
    weights: Weights = _NONE,
) -> Shortlist:
    """Return at most `most` arms, each with a different program.

    `weights` are the gains of the changes: arms that owe their gain to the same changes are alike.
    The model may be wrong about a change that several candidates share, so the arms after the best
    one should differ from those before them.
    """
    start, best = base.arm.predicted, winner.arm.predicted
    if start is None or best is None:
        return Shortlist((), (), effect=False)
    rescued = start.fits is False and best.fits is not False
    effect = rescued or best.gain > indifferent
    rivals = [seen for seen in _distinct([winner, *candidates]) if _runs(seen, start)]
    tied = [seen.arm.name for seen in rivals if are_tied(_figures(seen), best)]
    if not effect:
        rivals = [seen for seen in rivals if _figures(seen).gain_range.high > indifferent]
    least = -float("inf") if rescued else max(0.0, _WORTH * best.gain)
    worth = [seen for seen in rivals if _figures(seen).gain > least]
    picked = _picked(winner, worth, most, weights)
    return Shortlist(tuple(seen.arm for seen in _ordered(picked, best)), tuple(tied), effect)


def _distinct(candidates: Iterable[CandidateSeen]) -> list[CandidateSeen]:
    """Return the candidate with the fewest changes for each program; the first of several."""
    found: dict[str, CandidateSeen] = {}
    for seen in candidates:
        if seen.arm.predicted is None or seen.arm.is_base:
            continue
        known = found.get(seen.arm.predicted.program)
        if known is None or len(seen.arm.changes) < len(known.arm.changes):
            found[seen.arm.predicted.program] = seen
    return list(found.values())


def _runs(seen: CandidateSeen, base: Predicted) -> bool:
    """Return whether it fits, and differs from the base in its program or in that it fits."""
    figures = _figures(seen)
    if figures.fits is False:
        return base.fits is False and figures.program != base.program
    return figures.program != base.program or base.fits is False


def _picked(
    winner: CandidateSeen, worth: Sequence[CandidateSeen], most: int, weights: Weights
) -> list[CandidateSeen]:
    """Pick candidates one by one: those that gain most and are least like the ones picked."""
    best = _figures(winner)
    left = sorted(worth, key=lambda seen: (-_figures(seen).gain, len(seen.arm.changes)))
    picked: list[CandidateSeen] = []
    first = next((seen for seen in left if _figures(seen).program == best.program), None)
    while left and len(picked) < most:
        chosen = first or max(left, key=lambda seen: _value(seen, picked, best.gain, weights))
        first = None
        left.remove(chosen)
        if not any(_is_copy(chosen, earlier, weights) for earlier in picked):
            picked.append(chosen)
    return picked


def _value(
    one: CandidateSeen, picked: Sequence[CandidateSeen], best_gain: float, weights: Weights
) -> float:
    alike = max((_alike(one.arm, earlier.arm, weights) for earlier in picked), default=0.0)
    return _figures(one).gain - abs(best_gain) * alike


def _alike(one: Arm, other: Arm, weights: Weights) -> float:
    """Return the gain of the common changes as a share of that of all changes of both."""
    mine, theirs = _changes(one), _changes(other)
    every = sum(max(_LITTLE, weights.get(change, 0.0)) for change in mine | theirs)
    return sum(max(_LITTLE, weights.get(change, 0.0)) for change in mine & theirs) / every


def _is_copy(one: CandidateSeen, other: CandidateSeen, weights: Weights) -> bool:
    if abs(_figures(one).gain - _figures(other).gain) >= _COPY:
        return False
    apart = len(_changes(one.arm) ^ _changes(other.arm))
    return apart <= 1 or _alike(one.arm, other.arm, weights) >= _COPIED


def _changes(arm: Arm) -> frozenset[tuple[str, str]]:
    return frozenset((change.dimension, change.choice) for change in arm.changes) or frozenset(
        (("arm", arm.name),)
    )


def _ordered(picked: Sequence[CandidateSeen], best: Predicted) -> list[CandidateSeen]:
    """Return the best candidate, those tied with it by number of changes, then the rest by gain."""
    if not picked:
        return []

    def order(seen: CandidateSeen) -> tuple[bool, int, float]:
        figures = _figures(seen)
        tied = are_tied(figures, best)
        return not tied, len(seen.arm.changes) if tied else 0, behind(figures, best).low

    return [picked[0], *sorted(picked[1:], key=order)]


def _figures(seen: CandidateSeen) -> Predicted:
    if seen.arm.predicted is None:
        raise ValueError(f"{seen.arm.name} was not predicted")
    return seen.arm.predicted


NOTHING: Final = 0.001
"""Share of the base's step below which a change is not worth including."""

Predict: TypeAlias = Callable[[Iterable[Arm]], Iterator[CandidateSeen]]


@frozen
class MinimalWinner:
    """A winner in which every change matters, and the loss without each change."""

    winner: CandidateSeen
    ablated: tuple[Ablated, ...] = ()


def minimal(grid: Grid, base: Predicted, winner: CandidateSeen, predict: Predict) -> MinimalWinner:
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
        winner = _less(grid, base, winner, idle, predict)


def _less(
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
    return _loses(base, winner, figures) <= NOTHING and are_tied(figures, winner)


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
