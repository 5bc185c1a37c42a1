"""What holds in every race, whatever its arms do: hundreds of them, on paper."""

from __future__ import annotations

import os
import random
from collections import Counter
from dataclasses import replace
from functools import cache

import pytest

from counterpoint.tune.arm import BASE, Acts
from counterpoint.tune.plan import Budget, StudyPlan
from counterpoint.tune.race.budget import ONE_ARM
from counterpoint.tune.race.drop_rules import rows_to_next_look
from counterpoint.tune.race.moves import Drop, Enter, Finish, Move, Pause, RunTrial
from counterpoint.tune.race.race import SPENT, next_move
from counterpoint.tune.race.rows import Rows, row_order
from counterpoint.tune.race.state import RaceState
from counterpoint.tune.statistics.estimate import DecisionRule
from counterpoint.tune.study.records import AllocationClosed, TrialEnded
from counterpoint.tune.study.study import fold
from counterpoint.tune.trial.report import Purpose, TrialFailure, TrialReport
from tune_races import Race
from tune_studies import AT, Made, arm, change

RACES = 500 if os.environ.get("HYPOTHESIS_PROFILE") == "deep" else 100
BLAMED = [it for it in TrialFailure if it.blames_the_arm and it is not TrialFailure.OTHER_NUMBERS]


def some_race(seed: int) -> Race:
    """Arms, truths, faults, rules and budgets as a die has them."""
    die = random.Random(seed)  # noqa: S311
    count = die.randint(1, 7)
    arms = [
        arm(f"arm{at}", change(f"dim{die.randint(0, count)}", str(at), acts=die.choice(list(Acts))))
        for at in range(count)
    ]
    cap = die.choice([2, 4, 6])
    plan = StudyPlan(
        budget=Budget(
            trials=die.choice([None, die.randint(6, 60)]),
            seconds=die.choice([None, None, die.randint(6, 60) * 60.0]),
        ),
        rule=DecisionRule(cap=cap, looks=tuple(it for it in (2, 4, 6) if it <= cap)),
        confirm_rows=die.choice([0, 3, 4]),
        target_gain=die.choice([None, None, 0.02]),
        ablate=die.random() < 0.5,
    )
    return Race(
        Made(*arms),
        plan,
        gains={f"dim{at}": die.choice([0.0, 0.0, 0.03, -0.02]) for at in range(count + 1)},
        failing={
            it.name: (die.choice(BLAMED), die.choice([1, 1, -1]))
            for it in arms
            if die.random() < 0.2
        },
        programs={it.name: f"p{die.randint(0, 5)}" for it in arms if die.random() < 0.3},
        noise=die.choice([0.0005, 0.002, 0.006]),
        drift=die.choice([0.0, 0.0005]),
        faults=die.choice([0.0, 0.0, 0.05, 0.4]),
        seed=seed,
    )


@cache
def finished(seed: int) -> Race:
    race = some_race(seed)
    race.run()
    return race


@pytest.mark.parametrize("seed", range(RACES))
def test_a_race_ends_within_its_budget_in_order(seed: int) -> None:
    check(finished(seed))


def check(race: Race) -> None:
    check_budget(race)
    check_rest(race)
    check_drops(race)
    check_allocations(race)
    check_order(race)


def check_budget(race: Race) -> None:
    """Where one trial is known to take longer than the whole budget's share, two were made."""
    budget, trials = race.plan.budget, race.study.trials
    if budget.trials is not None:
        assert race.study.charged <= budget.trials
        assert len(trials) <= 2 * budget.trials
    if budget.seconds is not None:
        assert sum(it.wall_s or 0.0 for it in trials) <= budget.seconds


def check_rest(race: Race) -> None:
    """Where the budget ended it, what is left is too little for a look at anybody."""
    state = RaceState(race.study, race.plan)
    end, left = race.moves[-1], state.remaining.left
    if end == Finish(SPENT) and not rows_for(race, Purpose.CONFIRM):
        going = state.race_roster
        need = rows_to_next_look(state) * len(going) if going else ONE_ARM + 1
        assert left < max(need, ONE_ARM + 1)


def rows_for(race: Race, purpose: Purpose) -> bool:
    return any(it.started.purpose is purpose for it in race.study.trials)


def check_drops(race: Race) -> None:
    """Who is out stays out, but for those that had no room in the budget, and have it later."""
    out: dict[str, str] = {}
    for move in race.moves:
        if isinstance(move, Enter):
            assert out.pop(move.arm.name, "no budget") == "no budget"
        if isinstance(move, Drop | RunTrial):
            assert move.arm not in out
        if isinstance(move, Drop):
            out[move.arm] = move.kind


def check_allocations(race: Race) -> None:
    """A confirmation's allocations have nothing of the race."""
    said = [it.started for it in race.study.trials]
    fresh = {it.allocation for it in said if it.purpose is Purpose.CONFIRM}
    of_race = (Purpose.NOISE, Purpose.SCREEN, Purpose.RACE)
    assert fresh.isdisjoint({it.allocation for it in said if it.purpose in of_race})


def check_order(race: Race) -> None:
    """Each row has the order of its seed, whoever is in it."""
    for number, row in race.rows.items():
        ran = tuple(dict.fromkeys(row))
        assert ran == tuple(it for it in row_order(ran, number, race.plan.seed) if it in ran)


@pytest.mark.parametrize("seed", range(0, RACES, 4))
def test_whoever_goes_on_anywhere_does_the_same(seed: int) -> None:
    race = finished(seed)
    records = race.made.records
    began = next(at for at in range(1, len(records) + 1) if fold(records[:at]).search)
    moves = iter(race.moves)
    for at in range(began, len(records) + 1):
        study = fold(records[:at])
        if not study.running:
            assert next_move(study, race.plan) == next(moves)


@pytest.mark.parametrize("seed", range(0, RACES, 2))
def test_a_tuner_that_dies_now_and_then_comes_to_an_end(seed: int) -> None:
    """As one that goes on leaves it: the trial is interrupted, and the nodes are gone."""
    race = some_race(seed)
    race = replace(race, moves=[])
    die = random.Random(-seed)  # noqa: S311
    end: Move | None = None
    for _ in range(1000):
        move = next_move(race.study, race.plan)
        if isinstance(move, Finish | Pause):
            end = move
            break
        if die.random() < 0.05:
            if isinstance(move, RunTrial):
                race.moves.append(move)
                number = race.made.started(move.arm, move.purpose, move.row, move.allocation)
                interrupted = TrialReport(failure=TrialFailure.INTERRUPTED)
                race.made.add(TrialEnded(number=number, report=interrupted, wall_s=30.0, at=AT))
            for number in race.study.open_allocations:
                race.made.add(AllocationClosed(number=number, at=AT))
            continue
        race.moves.append(move)
        race.follow(move)
    assert end is not None
    check(race)
    *rows, last = Rows(race.study)
    for row in (*rows, last):  # what it had measured of a row is not measured again
        timed = Counter(it.started.arm for it in row.trials if it.counts)
        assert max(timed.values(), default=0) <= (2 if row.purpose is Purpose.NOISE else 1)
        assert timed[BASE] or row.purpose is Purpose.ABLATE or row is last
