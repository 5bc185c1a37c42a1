"""Points of a grid drawn at random: the baseline that a search must beat."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import islice

from counterpoint.tune.search.grid import Grid, Point
from counterpoint.tune.search.leaderboard import Leaderboard


def drawn_at_random(grid: Grid, board: Leaderboard, seed: int, count: int) -> Iterator[Point]:
    """Yield `count` new points."""
    chance = random.Random(seed)  # noqa: S311  nothing secret
    known = set(board.points)

    def draws() -> Iterator[Point]:
        for _ in range(400 * count):
            drawn = {
                dimension.name: chance.choice((None, *dimension.choices))
                for dimension in grid.searched
            }
            point = grid.canonical({name: it.choice for name, it in drawn.items() if it})
            if point not in known and grid.why_not(point) is None:
                known.add(point)
                yield point

    return islice(draws(), count)
