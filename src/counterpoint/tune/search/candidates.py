"""Candidates of a search: the best so far, the short list, and what each change brings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from types import MappingProxyType
from typing import Final, TypeAlias

from counterpoint.tune.arm import Acts, Arm, Change, Origin, Predicted
from counterpoint.tune.journal.records import Ablated, CandidateSeen
from counterpoint.tune.search.grid import Grid, Point
from counterpoint.tune.search.predictor import are_tied, behind
from counterpoint.tune.space.space import arm_with
from counterpoint.tune.study.study import stamp


@dataclass(slots=True)
class Board:
    """What was found; `base` is the first candidate. Points are of arms that have one."""

    base: CandidateSeen
    candidates: list[CandidateSeen] = field(default_factory=list[CandidateSeen])
    points: dict[Point, CandidateSeen] = field(default_factory=dict[Point, CandidateSeen])

    def __post_init__(self) -> None:
        self.points[()] = self.base

    def add(self, seen: CandidateSeen, point: Point | None) -> None:
        """One more; the second of the same point tells nothing."""
        self.candidates.append(seen)
        if point is not None:
            self.points.setdefault(point, seen)

    def best(self) -> CandidateSeen:
        """The shortest step that fits into memory, of the fewest changes; the base, if nothing."""
        return min((self.base, *self.candidates), key=place)

    def best_points(self) -> list[Point]:
        """Points with another program each, the best first; the base is among them."""
        found: dict[str, Point] = {}
        for point, seen in sorted(self.points.items(), key=lambda item: place(item[1])):
            if seen.arm.predicted is not None and seen.arm.predicted.fits is not False:
                found.setdefault(seen.arm.predicted.program, point)
        return list(found.values())

    def gain(self, point: Point) -> float | None:
        """What a point is predicted to save; None where it can't run, or is not known."""
        seen = self.points.get(point)
        figures = seen.arm.predicted if seen is not None else None
        return None if figures is None or figures.fits is False else figures.gain

    @property
    def programs(self) -> int:
        """How many there are that differ, the base's among them."""
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
    """For sorting: what runs first, then the shorter step, then fewer changes."""
    figures = seen.arm.predicted
    if figures is None:
        return True, inf, 0
    return figures.fits is False, figures.step_s, len(seen.arm.changes)


_WORTH: Final = 0.25
"""Of the best gain: whoever is predicted to bring less is not looked at for real."""
_COPY: Final = 0.002
"""Of the base's step: what changes little, and is predicted to bring no more."""
_COPIED: Final = 0.9  # of what the changes of both bring
_LITTLE: Final = 0.001  # what a change counts that nobody knows to bring more

Weights: TypeAlias = Mapping[tuple[str, str], float]
"""What choices of dimensions bring, as shares of the base's step."""
_NONE: Weights = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Shortlist:
    """`arms` are worth real time. `tied`: nobody can say that they are behind the best one."""

    arms: tuple[Arm, ...]
    tied: tuple[str, ...]
    effect: bool  # whether the best one is predicted to be faster by what counts


def shortlist(
    base: CandidateSeen,
    candidates: Iterable[CandidateSeen],
    winner: CandidateSeen,
    *,
    most: int,
    indifferent: float,
    weights: Weights = _NONE,
) -> Shortlist:
    """At most so many, none with the same program as another.

    `weights` say which changes matter: two arms are alike that owe their gain to the same ones.
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
    """One for each program, of the fewest changes; the first of several such."""
    found: dict[str, CandidateSeen] = {}
    for seen in candidates:
        if seen.arm.predicted is None or seen.arm.is_base:
            continue
        known = found.get(seen.arm.predicted.program)
        if known is None or len(seen.arm.changes) < len(known.arm.changes):
            found[seen.arm.predicted.program] = seen
    return list(found.values())


def _runs(seen: CandidateSeen, base: Predicted) -> bool:
    """Whether it fits, and is another program than the base, or one that now fits."""
    figures = _figures(seen)
    if figures.fits is False:
        return base.fits is False and figures.program != base.program
    return figures.program != base.program or base.fits is False


def _picked(
    winner: CandidateSeen, worth: Sequence[CandidateSeen], most: int, weights: Weights
) -> list[CandidateSeen]:
    """One after another, whoever brings most and is least like those that are picked."""
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
    """What common changes bring, of what the changes of both do."""
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
    """The best one, those tied with it by their changes, then the rest by what they bring."""
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
        outcomes = list(predict(arm for _, arm in without))
        rows = [(change, seen) for (change, _), seen in zip(without, outcomes, strict=True)]
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
            reduced = _arm(grid, arm, {change.dimension})
            if reduced is not None:
                yield change, reduced


def _arm(grid: Grid, arm: Arm, dimensions: set[str]) -> Arm | None:
    """The arm less those changes, and less what can't be without them."""
    point = grid.point_of(arm)
    if point is not None:
        for dimension in dimensions:
            point = grid.without(point, dimension)
        return None if grid.why_not(point) else grid.arm(point, Origin.ABLATION)
    changes = tuple(change for change in arm.changes if change.dimension not in dimensions)
    return arm_with(grid.space, changes, Origin.ABLATION)


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
