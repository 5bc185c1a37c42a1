"""Points: each set of arms has one, and ways lead from each to those beside it."""

from __future__ import annotations

from counterpoint.flags.settings import Settings
from counterpoint.tune.arm import Acts, Arm, ArmOrigin
from counterpoint.tune.search.grid import Grid
from tune_search_spaces import dimension, space

GRID = Grid(
    space(
        dimension("gather", "0", "32", "64"),
        dimension("pipelined"),
        dimension("early", needs={"pipelined": "on"}),
        dimension("late", needs={"gather": "64"}),
        dimension("estimator", "sol", excludes=("profile",)),
        dimension("profile", profile=True),
        dimension("graphs", "off", acts=Acts.RUNTIME),
        dimension("streams", needs={"graphs": "off"}),
    )
)


def test_what_lacks_its_need_is_no_part_of_a_point() -> None:
    assert GRID.canonical({"early": "on", "gather": "0"}) == (("gather", "0"),)
    both = {"early": "on", "pipelined": "on"}
    assert GRID.canonical(both) == (("pipelined", "on"), ("early", "on"))
    assert GRID.canonical({"late": "on", "gather": "32"}) == (("gather", "32"),)


def test_of_two_that_exclude_each_other_the_first_stays() -> None:
    assert GRID.canonical({"profile": "on", "estimator": "sol"}) == (("estimator", "sol"),)


def test_a_choice_alone_brings_what_it_needs() -> None:
    assert GRID.alone("late", "on") == (("gather", "64"), ("late", "on"))
    assert GRID.alone("early", "on") == (("pipelined", "on"), ("early", "on"))


def test_what_acts_at_run_time_is_not_searched() -> None:
    names = [it.name for it in GRID.searched]
    assert "graphs" not in names
    assert "profile" not in names
    assert GRID.profiled == (("profile", "on"),)
    assert GRID.alone("streams", "on") is None


def test_first_choices_come_first() -> None:
    alone = list(GRID.singles())
    assert alone.index((("pipelined", "on"),)) < alone.index((("gather", "32"),))
    assert alone.index((("gather", "32"),)) < alone.index((("gather", "64"),))
    assert len(alone) == len(set(alone)) == 7


def test_leaving_a_need_leaves_what_needs_it() -> None:
    point = GRID.canonical({"pipelined": "on", "early": "on", "gather": "0"})
    assert GRID.without(point, "pipelined") == (("gather", "0"),)
    assert GRID.without(point, "early") == (("gather", "0"), ("pipelined", "on"))


def test_neighbors_differ_in_one_dimension() -> None:
    point = GRID.canonical({"gather": "32"})
    beside = set(GRID.neighbors(point))
    assert (("gather", "0"),) in beside
    assert () in beside
    assert (("gather", "32"), ("pipelined", "on")) in beside
    assert all(len(dict(it)) <= 2 for it in beside)


def test_an_arm_has_a_point_if_all_of_it_is_of_the_grid() -> None:
    point = GRID.canonical({"gather": "0", "pipelined": "on"})
    assert GRID.point_of(GRID.arm(point, ArmOrigin.SEARCH)) == point
    runtime = GRID.arm((("graphs", "off"),), ArmOrigin.SPACE)
    assert GRID.point_of(runtime) is None
    by_hand = Arm(name="mine", settings=Settings(env=(("NCCL_ALGO", "Ring"),)))
    assert GRID.point_of(by_hand) is None
