"""Stages: which points a search looks at, one kind after another.

singles     each choice alone: what it does by itself, and which choices do nothing
stacks      the best choices of all dimensions together: right, where they don't interact
proposals   what Optuna makes of all that is known
climbing    whatever differs in one dimension from the best so far, idle choices as well
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Final

from counterpoint.tune.search.board import Board
from counterpoint.tune.search.grid import Grid, Point
from counterpoint.tune.space.space import Dimension

_PROFILED: Final = 3  # points that a profile is tried on
_UNKNOWN: Final = -1.0
_IDLE: Final = -2.0


def singles(grid: Grid) -> Iterator[Point]:
    """Each choice alone, with what it needs."""
    for point in dict.fromkeys(grid.singles()):
        if grid.why_not(point) is None:
            yield point


def stacks(grid: Grid, board: Board) -> Iterator[Point]:
    """What named arms have of the grid, then the best single choices: two, three, and so on."""
    told: set[Point] = set(board.points)
    for point in (*_of_seeds(grid), *_stacked(grid, board)):
        if point not in told:
            told.add(point)
            yield point


def _stacked(grid: Grid, board: Board) -> Iterator[Point]:
    chosen: dict[str, str] = {}
    for name, choice, _ in sorted(_best_choices(grid, board), key=lambda it: -it[2]):
        point = grid.canonical({**chosen, name: choice})
        if len(point) > len(chosen) and grid.why_not(point) is None:
            chosen = dict(point)
            yield point


def _of_seeds(grid: Grid) -> Iterator[Point]:
    """What arms that somebody named have of this grid; the rest of them acts when they run."""
    offered = {(it.name, choice.choice) for it in grid.searched for choice in it.choices}
    for arm in grid.space.seeds:
        chosen = {(it.dimension, it.choice) for it in arm.changes} & offered
        point = grid.canonical(dict(sorted(chosen)))
        if len(point) > 1 and grid.why_not(point) is None:
            yield point


def lively(grid: Grid, board: Board) -> tuple[Dimension, ...]:
    """Dimensions and choices that made another program when tried alone; one of several equals."""
    found: list[Dimension] = []
    for dimension in grid.searched:
        seen = {_program(board, ())}
        kept = [it for it in dimension.choices if _is_new(grid, board, dimension, it.choice, seen)]
        if kept:
            found.append(replace(dimension, choices=tuple(kept)))
    return tuple(found)


def climbing(grid: Grid, board: Board, asked: Collection[Point]) -> Iterator[Point]:
    """Around the best so far, wherever that is by then; the most promising first.

    `asked` are those under way, to which the caller adds each before it wants the next.
    """
    while True:
        best = next(iter(board.best_points()), ())
        found = [
            it
            for it in grid.neighbours(best)
            if it not in board.points and it not in asked and grid.why_not(it) is None
        ]
        if not found:
            return
        yield max(found, key=lambda it: _promise(grid, board, best, it))


def profiled(grid: Grid, board: Board) -> Iterator[Point]:
    """A profile on top of the best few."""
    for point in board.best_points()[:_PROFILED]:
        for name, choice in grid.profiled:
            on_top = grid.canonical({**dict(point), name: choice})
            if (name, choice) in on_top and grid.why_not(on_top) is None:
                yield on_top


def _best_choices(grid: Grid, board: Board) -> Iterator[tuple[str, str, float]]:
    """Of each dimension the choice that gains most alone, if any does."""
    for dimension in grid.searched:
        gains: list[tuple[float, str]] = []
        for it in dimension.choices:
            point = grid.alone(dimension.name, it.choice)
            gain = board.gain(point) if point is not None else None
            if gain is not None and gain > 0:
                gains.append((gain, it.choice))
        if gains:
            gain, choice = max(gains, key=lambda it: it[0])
            yield dimension.name, choice, gain


def _is_new(
    grid: Grid, board: Board, dimension: Dimension, choice: str, seen: set[str | None]
) -> bool:
    point = grid.alone(dimension.name, choice)
    if point is None or point not in board.points:
        return True  # nobody knows
    program = _program(board, point)
    if program is None or program in seen:
        return False
    seen.add(program)
    return True


def _program(board: Board, point: Point) -> str | None:
    seen = board.points.get(point)
    figures = seen.arm.predicted if seen is not None else None
    return figures.program if figures is not None else None


def _promise(grid: Grid, board: Board, best: Point, point: Point) -> float:
    """What the change gains alone; to leave one away is worth a look before what costs time.

    What made the base's own program alone comes last: there it most likely makes another's, too.
    """
    changed = set(point) - set(best)
    if not changed:
        return 0.0
    alone = [it for it in (grid.alone(*pair) for pair in changed) if it is not None]
    gains = [it for it in map(board.gain, alone) if it is not None]
    idle = {_program(board, it) for it in alone} == {_program(board, ())}
    return _IDLE if idle else max(gains, default=_UNKNOWN)
