"""Which points a search looks at before and beside what Optuna proposes."""

from __future__ import annotations

from counterpoint.flags.settings import Settings
from counterpoint.tune.arm import Acts, Arm, ArmOrigin, merged
from counterpoint.tune.search.grid import Grid, Point, with_seed_choices
from counterpoint.tune.search.leaderboard import Leaderboard
from counterpoint.tune.search.stages import (
    climbing,
    effective_dimensions,
    profiled,
    singles,
    stacks,
)
from tune_search_spaces import dimension, seen, space

A, B, C = dimension("a"), dimension("b", "1", "2"), dimension("c")
EXTRA = dimension("beside", acts=Acts.SCHEDULE).choices[0]
AT_RUN = dimension("quiet", acts=Acts.RUNTIME).choices[0]
OTHER = dimension("b", "3").choices[0]
CHANGES = (A.choices[0], EXTRA, AT_RUN, OTHER)
RECIPE = Arm(
    name="recipe", settings=merged(Settings(), CHANGES), changes=CHANGES, origin=ArmOrigin.RECIPE
)
GRID = Grid(with_seed_choices(space(A, B, C, dimension("PGLE", profile=True), seeds=(RECIPE,))))


def board(**gains: float) -> Leaderboard:
    """Single choices as they were predicted: `b2` is choice 2 of b; what gains 0 is the base."""
    found = Leaderboard(seen("base", 0.0, program="base", origin=ArmOrigin.BASE))
    for point in singles(GRID):
        ((name, choice),) = point
        gain = gains.get(name + choice.replace("on", ""), 0.0)
        found.add(
            seen(f"{name} {choice}", gain, *point, program=f"{gain}" if gain else "base"), point
        )
    return found


def test_what_recipes_change_beside_the_dimensions_is_a_choice_too() -> None:
    choices = {it.name: [one.choice for one in it.choices] for it in GRID.space.dimensions}
    assert choices["beside"] == ["on"]
    assert choices["b"] == ["1", "2", "3"]
    assert "quiet" not in choices
    assert with_seed_choices(GRID.space) == GRID.space


def test_stacks_are_recipes_and_the_best_choices_together() -> None:
    found = list(stacks(GRID, board(a=0.01, b1=0.02, b2=0.03, c=0.02)))
    of_recipe: Point = (("a", "on"), ("b", "3"), ("beside", "on"))
    assert found[0] == of_recipe
    assert found[1:] == [
        (("b", "2"), ("c", "on")),
        (("a", "on"), ("b", "2"), ("c", "on")),
    ]


def test_choices_that_made_the_program_of_another_are_not_lively() -> None:
    found = {
        it.name: [one.choice for one in it.choices]
        for it in effective_dimensions(GRID, board(a=0.01, b2=0.03))
    }
    assert found == {"a": ["on"], "b": ["2"]}


def test_climbing_begins_at_the_best_with_what_promises_most() -> None:
    known = board(a=0.01, b2=0.03, c=-0.01)
    asked: set[Point] = set()
    steps = climbing(GRID, known, asked)
    first = next(steps)
    assert first == (("a", "on"), ("b", "2"))
    asked.add(first)
    assert next(steps) == (("b", "2"), ("c", "on"))  # before what did nothing alone


def test_climbing_goes_on_from_a_better_one_and_ends_when_all_is_known() -> None:
    known = board(a=0.01, b2=0.03)
    asked: set[Point] = set()
    found: list[Point] = []
    for point in climbing(GRID, known, asked):
        asked.add(point)
        found.append(point)
        known.add(seen(str(point), 0.04 * len(point), *point, program=str(point)), point)
    assert len(found) == len(set(found))
    assert (("a", "on"), ("b", "2"), ("c", "on"), ("beside", "on")) in found


def test_profiles_come_on_top_of_the_best_few() -> None:
    found = list(profiled(GRID, board(a=0.01, b2=0.03, c=0.02)))
    assert found == [
        (("b", "2"), ("PGLE", "on")),
        (("c", "on"), ("PGLE", "on")),
        (("a", "on"), ("PGLE", "on")),
    ]
