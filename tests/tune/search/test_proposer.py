"""Which points are proposed: new ones, allowed ones, the same for a seed, and good ones."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import mean

import pytest

from counterpoint.tune.arm import ArmOrigin
from counterpoint.tune.search.grid import Grid, Point
from counterpoint.tune.search.leaderboard import Leaderboard
from counterpoint.tune.search.proposer import Proposer
from counterpoint.tune.study.records import CandidateSeen
from random_points import drawn_at_random
from tune_search_spaces import dimension, seen, space

pytest.importorskip("optuna")

LARGE = Grid(space(*(dimension(f"d{at}", "x", "y", "z") for at in range(10))))
SMALL = Grid(
    space(dimension("a"), dimension("b", needs={"a": "on"}), dimension("c", excludes=("b",)))
)
GAINS: Mapping[str, float] = {"x": 0.01, "y": 0.03, "z": -0.02}


def told(point: Point) -> CandidateSeen:
    """What each choice brings adds up; two of them together bring more."""
    gain = sum(GAINS.get(choice, 0.01) for _, choice in point)
    chosen = dict(point)
    gain += 0.05 * (chosen.get("d0") == "x" and chosen.get("d1") == "x")
    return seen(str(point), gain, *point, program=str(point))


def board() -> Leaderboard:
    return Leaderboard(seen("base", 0.0, origin=ArmOrigin.BASE))


def searched(grid: Grid, seed: int, most: int) -> list[Point]:
    """Points as they were proposed, each answered at once."""
    known = board()
    proposer = Proposer(grid, grid.searched, known, seed)
    found: list[Point] = []
    for point in proposer.points():
        answer = told(point)
        known.add(answer, point)
        proposer.tell(point, answer)
        found.append(point)
        if len(found) == most:
            break
    return found


def best(points: list[Point]) -> float:
    return max(it.gain for it in (told(at).arm.predicted for at in points) if it)


def test_a_small_space_is_gone_through_once() -> None:
    found = searched(SMALL, 0, 100)
    assert len(found) == len(set(found))
    assert set(found) == {
        (("a", "on"),),
        (("c", "on"),),
        (("a", "on"), ("b", "on")),
        (("a", "on"), ("c", "on")),
    }


def test_the_same_seed_makes_the_same_proposals() -> None:
    assert searched(LARGE, 3, 30) == searched(LARGE, 3, 30)
    assert searched(LARGE, 3, 30) != searched(LARGE, 4, 30)


def test_failures_and_what_does_not_fit_are_learned_from_without_harm() -> None:
    known = board()
    proposer = Proposer(LARGE, LARGE.searched, known, 0)
    points = proposer.points()
    for number in range(20):
        point = next(points)
        answer = told(point)
        if number % 3 == 0:
            answer = seen(str(point), 0.5, *point, fits=False)
        known.add(answer, point)
        proposer.tell(point, answer)
    assert known.too_large == 7


@pytest.mark.system
def test_it_finds_better_points_than_chance() -> None:
    seeds = range(4)
    by_search = mean(best(searched(LARGE, it, 60)) for it in seeds)
    by_chance = mean(best(list(drawn_at_random(LARGE, board(), it, 60))) for it in seeds)
    assert by_search > by_chance + 0.02


def test_several_may_be_under_way() -> None:
    known = board()
    proposer = Proposer(LARGE, LARGE.searched, known, 0)
    points = proposer.points()
    waiting = [next(points) for _ in range(8)]
    assert len(set(waiting)) == 8
    for point in waiting:
        proposer.tell(point, told(point))
    assert next(points) not in waiting
