"""What the winner would lose without each of its changes, and what it can do without."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

import pytest

from counterpoint.tune.arm import Arm, ArmOrigin
from counterpoint.tune.search.grid import Grid
from counterpoint.tune.search.minimal_winner import MinimalWinner, minimal_winner
from counterpoint.tune.study.records import CandidateSeen
from tune_search_spaces import dimension, figures, space

GRID = Grid(space(*(dimension(it) for it in "abcd"), dimension("e", needs={"a": "on"})))
BASE = figures(0.0, "base")


def worth(gains: Mapping[str, float]) -> Callable[[Iterable[Arm]], Iterator[CandidateSeen]]:
    """What comes of arms if each change brings so much, whatever else is changed."""

    def predict(arms: Iterable[Arm]) -> Iterator[CandidateSeen]:
        for arm in arms:
            lively = [it.dimension for it in arm.changes if gains[it.dimension]]
            told = figures(sum(gains[it] for it in lively), "+".join(lively) or "base")
            yield CandidateSeen(arm=replace(arm, predicted=told))

    return predict


def taken_apart(gains: Mapping[str, float]) -> MinimalWinner:
    """The winner has all of them."""
    point = GRID.canonical(dict.fromkeys(gains, "on"))
    predict = worth(gains)
    (winner,) = predict([GRID.arm(point, ArmOrigin.SEARCH)])
    return minimal_winner(GRID, BASE, winner, predict)


def changes(found: MinimalWinner) -> list[str]:
    return [it.dimension for it in found.winner.arm.changes]


def test_each_change_loses_what_it_brings() -> None:
    found = taken_apart({"a": 0.05, "b": 0.02})
    assert changes(found) == ["a", "b"]
    lost = {it.dimension: it.loses for it in found.ablated}
    assert lost == {"a": pytest.approx(0.05), "b": pytest.approx(0.02)}
    assert {it.basis for it in found.ablated} == {"predicted"}
    assert all(it.arm == found.winner.arm.name for it in found.ablated)


def test_changes_without_effect_are_taken_out_together() -> None:
    found = taken_apart({"a": 0.05, "b": 0.0, "c": 0.0, "d": 0.02})
    assert changes(found) == ["a", "d"]
    assert [it.dimension for it in found.ablated] == ["a", "d"]


def test_small_gains_count_where_they_add_up() -> None:
    """Each is below what counts, all three are not: only some of them may go."""
    found = taken_apart({"a": 0.05, "b": 0.0009, "c": 0.0009, "d": 0.0009})
    assert changes(found)[0] == "a"
    assert len(changes(found)) < 4


def test_a_change_that_costs_goes() -> None:
    assert changes(taken_apart({"a": 0.05, "b": -0.01})) == ["a"]


def test_what_needs_a_change_goes_with_it() -> None:
    found = taken_apart({"a": 0.0, "e": 0.05})
    assert changes(found) == ["a", "e"]
    assert {it.dimension for it in found.ablated} == {"a", "e"}


def test_a_winner_that_fits_only_with_a_change_keeps_it() -> None:
    point = GRID.canonical({"a": "on", "b": "on"})

    def predict(arms: Iterable[Arm]) -> Iterator[CandidateSeen]:
        for arm in arms:
            fits = "b" in [it.dimension for it in arm.changes]
            yield CandidateSeen(arm=replace(arm, predicted=figures(0.05, arm.name, fits=fits)))

    (winner,) = predict([GRID.arm(point, ArmOrigin.SEARCH)])
    found = minimal_winner(GRID, BASE, winner, predict)
    assert "b" in changes(found)
