"""Stages of a search: which points of a grid are tried, and in which order.

Remedies are tried before anything else, the largest loss first, as a reader of the report would.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from typing import Final

from counterpoint.diagnose.finding import Finding
from counterpoint.flags.lines.line import write_line
from counterpoint.flags.settings import Settings
from counterpoint.tune.arm import Acts, Arm, ArmChange, ArmOrigin
from counterpoint.tune.search.grid import Grid, Point
from counterpoint.tune.search.leaderboard import Leaderboard
from counterpoint.tune.space.dimensions import builtin_dimensions
from counterpoint.tune.space.space import Dimension, distinct, same_as

_PROFILED_POINTS: Final = 3  # points to which a profile is added
_UNKNOWN: Final = -1.0
_IDLE: Final = -2.0


def remedies(findings: Iterable[Finding], grid: Grid) -> Iterator[Arm]:
    """Yield an arm for each remedy; if the space already offers it, that arm."""
    yield from distinct(grid.space.base, _remedy_arms(findings, grid))


def _remedy_arms(findings: Iterable[Finding], grid: Grid) -> Iterator[Arm]:
    base = grid.space.base
    points = (point for point in grid.singles() if grid.why_not(point) is None)
    offered = (*grid.space.seeds, *(grid.arm(point, ArmOrigin.SPACE) for point in points))
    for finding in findings:
        settings = Settings(finding.remedy.flags, finding.remedy.environment)
        whole = base.merged(settings)
        if (whole.flags, whole.variables) == (base.flags, base.variables):
            continue
        name = write_line(settings)
        acts = Acts.SCHEDULE if settings.xla else Acts.RUNTIME
        change = ArmChange(dimension=name, choice="on", settings=settings, acts=acts)
        arm = Arm(name=name, settings=whole, changes=(change,), origin=ArmOrigin.REMEDY)
        same = same_as(base, arm, offered)
        if same is not None:
            yield same
        elif not _is_left_out(settings, grid):
            yield arm


def _is_left_out(settings: Settings, grid: Grid) -> bool:
    """Return whether its dimension is not in this space: inapplicable, or dropped by the user."""
    names = {dimension.name for dimension in grid.space.dimensions}
    return any(
        name not in names and not settings.flags.keys().isdisjoint(pick.settings.flags)
        for name, draft in builtin_dimensions().drafts.items()
        for picks in draft.choices.values()
        for pick in picks
    )


def singles(grid: Grid) -> Iterator[Point]:
    """Yield each choice alone, with what it needs."""
    for point in dict.fromkeys(grid.singles()):
        if grid.why_not(point) is None:
            yield point


def stacks(grid: Grid, board: Leaderboard) -> Iterator[Point]:
    """Yield the named arms' points, then the best single choices combined: two, three, ...

    The combinations are the best ones if dimensions do not interact; later stages look for the
    rest.
    """
    known: set[Point] = set(board.points)
    for point in (*_seed_points(grid), *_stacked(grid, board)):
        if point not in known:
            known.add(point)
            yield point


def _stacked(grid: Grid, board: Leaderboard) -> Iterator[Point]:
    chosen: dict[str, str] = {}
    for name, choice, _ in sorted(_best_choices(grid, board), key=lambda item: -item[2]):
        point = grid.canonical({**chosen, name: choice})
        if len(point) > len(chosen) and grid.why_not(point) is None:
            chosen = dict(point)
            yield point


def _seed_points(grid: Grid) -> Iterator[Point]:
    """Yield the part of each named arm that lies in this grid; the rest acts at run time."""
    offered = {
        (dimension.name, choice.choice)
        for dimension in grid.searched
        for choice in dimension.choices
    }
    for arm in grid.space.seeds:
        chosen = {(change.dimension, change.choice) for change in arm.changes} & offered
        point = grid.canonical(dict(sorted(chosen)))
        if len(point) > 1 and grid.why_not(point) is None:
            yield point


def effective_dimensions(grid: Grid, board: Leaderboard) -> tuple[Dimension, ...]:
    """Return dimensions with the choices that, alone, gave a new program; one of equal ones."""
    found: list[Dimension] = []
    for dimension in grid.searched:
        seen = {_program(board, ())}
        choices = [
            choice
            for choice in dimension.choices
            if _is_new(grid, board, dimension, choice.choice, seen)
        ]
        if choices:
            found.append(replace(dimension, choices=tuple(choices)))
    return tuple(found)


def climbing(grid: Grid, board: Leaderboard, asked: Collection[Point]) -> Iterator[Point]:
    """Yield neighbors of the current best point, the most promising first.

    `asked` are points in progress; the caller adds each point before requesting the next.
    """
    while True:
        best = next(iter(board.best_points()), ())
        found = [
            point
            for point in grid.neighbors(best)
            if point not in board.points and point not in asked and grid.why_not(point) is None
        ]
        if not found:
            return
        yield max(found, key=lambda point: _promise(grid, board, best, point))


def profiled(grid: Grid, board: Leaderboard) -> Iterator[Point]:
    """Yield the best few points with a profile added."""
    for point in board.best_points()[:_PROFILED_POINTS]:
        for name, choice in grid.profiled:
            on_top = grid.canonical({**dict(point), name: choice})
            if (name, choice) in on_top and grid.why_not(on_top) is None:
                yield on_top


def _best_choices(grid: Grid, board: Leaderboard) -> Iterator[tuple[str, str, float]]:
    """Yield each dimension's choice with the largest gain alone, if any gains."""
    for dimension in grid.searched:
        gains: list[tuple[float, str]] = []
        for option in dimension.choices:
            point = grid.alone(dimension.name, option.choice)
            gain = board.gain(point) if point is not None else None
            if gain is not None and gain > 0:
                gains.append((gain, option.choice))
        if gains:
            gain, choice = max(gains, key=lambda item: item[0])
            yield dimension.name, choice, gain


def _is_new(
    grid: Grid, board: Leaderboard, dimension: Dimension, choice: str, seen: set[str | None]
) -> bool:
    point = grid.alone(dimension.name, choice)
    if point is None or point not in board.points:
        return True  # unknown
    program = _program(board, point)
    if program is None or program in seen:
        return False
    seen.add(program)
    return True


def _program(board: Leaderboard, point: Point) -> str | None:
    seen = board.points.get(point)
    figures = seen.arm.predicted if seen is not None else None
    return figures.program if figures is not None else None


def _promise(grid: Grid, board: Leaderboard, best: Point, point: Point) -> float:
    """Return the gain of the change alone; removing one ranks before changes that cost time.

    Choices that left the base's program unchanged come last: here, too, they likely change nothing.
    """
    changed = set(point) - set(best)
    if not changed:
        return 0.0
    alone = [point for point in (grid.alone(*pair) for pair in changed) if point is not None]
    gains = [gain for gain in map(board.gain, alone) if gain is not None]
    idle = {_program(board, point) for point in alone} == {_program(board, ())}
    return _IDLE if idle else max(gains, default=_UNKNOWN)
