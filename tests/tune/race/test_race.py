"""What comes next in a study, by all that it knows: rules of the race, one by one."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

import pytest

from counterpoint.core.errors import UsageError
from counterpoint.runs.run import BURSTS
from counterpoint.tune.arm import BASE, Acts, Arm, ArmOrigin
from counterpoint.tune.conclusion.conclude import conclude
from counterpoint.tune.plan import Budget, StudyPlan
from counterpoint.tune.race.budget import refuse_small
from counterpoint.tune.race.faults import fault
from counterpoint.tune.race.moves import (
    CloseAllocation,
    Drop,
    Enter,
    Finish,
    MakeProfile,
    OpenAllocation,
    Pause,
    RunTrial,
)
from counterpoint.tune.race.race import next_move
from counterpoint.tune.race.rows import row_order
from counterpoint.tune.race.state import RaceState
from counterpoint.tune.statistics.estimate import DecisionRule
from counterpoint.tune.study.records import ArmEntered, CandidateSeen, StudyEnded
from counterpoint.tune.trial.report import Purpose, TrialFailure
from tune_races import Race
from tune_studies import AT, BASE_ARM, Made, arm, change, report

A, B, C, D = (arm(it) for it in "abcd")
PLAN = StudyPlan(rule=DecisionRule(cap=6, looks=(2, 4, 6)))

NO_ARM = Finish("no arm is left")
REACHED = Finish("the target gain is reached")
DECIDED = Finish("every arm is decided")
SPENT = Finish("the budget is spent")


def kinds(race: Race, kind: type) -> list[object]:
    return [it for it in race.moves if isinstance(it, kind)]


def rows_for(race: Race, purpose: Purpose) -> list[list[str]]:
    numbers = {it.row for it in race.trials if it.purpose is purpose}
    return [race.rows[it] for it in sorted(numbers)]


def test_base_and_shortlist_enter_in_order() -> None:
    made = Made(B, A)
    assert next_move(made.study, PLAN) == Enter(BASE_ARM)
    made.add(ArmEntered(arm=BASE_ARM, at=AT))
    assert next_move(made.study, PLAN) == Enter(B)


def test_without_a_search_all_that_may_run_enter() -> None:
    made = Made(shortlist=False).add(
        CandidateSeen(arm=A, failure="unknown flag", at=AT),
        CandidateSeen(arm=B, same_as="c", at=AT),
        CandidateSeen(arm=C, at=AT),
        ArmEntered(arm=BASE_ARM, at=AT),
    )
    assert next_move(made.study, PLAN) == Enter(C)


def test_the_base_enters_as_it_was_predicted() -> None:
    seen = Arm(name=BASE, settings=A.settings, origin=ArmOrigin.BASE)
    made = Made(A).add(CandidateSeen(arm=seen, at=AT))
    assert next_move(made.study, PLAN) == Enter(seen)


def test_nothing_to_try_runs_nothing() -> None:
    race = Race(Made(), PLAN)
    assert race.run() == Finish("nothing to try")
    assert not race.trials


def test_the_base_runs_twice_before_anything_else() -> None:
    made = Made(A).entered(A)
    assert next_move(made.study, PLAN) == OpenAllocation(1, fresh=False)
    made.opened()
    assert next_move(made.study, PLAN) == RunTrial(BASE, Purpose.NOISE, 0, 1)
    made.ran(BASE, report(1.0), Purpose.NOISE, 0)
    assert next_move(made.study, PLAN) == RunTrial(BASE, Purpose.NOISE, 0, 1)
    made.ran(BASE, report(1.0), Purpose.NOISE, 0)
    assert next_move(made.study, PLAN) == RunTrial("a", Purpose.SCREEN, 1, 1)


def test_rows_have_orders_of_their_own_which_the_seed_makes() -> None:
    def orders(seed: int) -> list[list[str]]:
        race = Race(Made(A, B, C), StudyPlan(seed=seed), gains={"a": 0.02})
        race.run()
        return list(race.rows.values())

    assert orders(1) == orders(1)
    assert len(set(map(tuple, orders(1)))) > 3
    assert orders(1)[1:] != orders(2)[1:]


def test_a_faster_arm_is_found_and_confirmed_in_a_fresh_allocation() -> None:
    race = Race(Made(A, B, C), PLAN, gains={"b": 0.03})
    race.run()
    confirm = [it for it in race.trials if it.purpose is Purpose.CONFIRM]
    assert {it.arm for it in confirm} == {BASE, "b"}
    assert len(confirm) == 2 * PLAN.confirm_rows
    raced_in = {it.allocation for it in race.trials if it.purpose is not Purpose.CONFIRM}
    assert raced_in.isdisjoint({it.allocation for it in confirm})
    assert race.drops == {"a": "no effect", "c": "no effect"}


def test_nothing_is_confirmed_where_nothing_helps() -> None:
    race = Race(Made(A, B), PLAN)
    assert race.run() == NO_ARM
    assert not rows_for(race, Purpose.CONFIRM)
    assert set(race.drops.values()) == {"no effect"}


def test_a_slower_arm_is_dropped_at_the_first_look() -> None:
    race = Race(Made(A, B), PLAN, gains={"a": -0.05, "b": 0.03})
    race.run()
    assert race.drops == {"a": "slower"}
    assert sum(it.arm == "a" for it in race.trials) == 2


def test_arms_that_are_faster_run_together() -> None:
    race = Race(Made(A, B, C), PLAN, gains={"a": 0.02, "b": 0.03})
    race.run()
    made = race.study.arm("combined")
    assert {it.dimension for it in made.changes} == {"a", "b"}
    assert made.origin is ArmOrigin.COMBINED
    together = [it for it in race.rows.values() if "combined" in it]
    assert set(together[0]) == {BASE, "b", "combined"}  # the best one beside it
    assert {it for row in rows_for(race, Purpose.CONFIRM) for it in row} >= {BASE, "combined"}


def test_arms_that_set_the_same_thing_are_not_combined() -> None:
    one, other = arm("small", change("size", "1")), arm("large", change("size", "2"))
    race = Race(Made(one, other), PLAN, gains={"size": 0.03})
    race.run()
    assert "combined" not in {it.name for it in race.study.arms}


def test_settings_by_hand_are_combined_by_what_they_set() -> None:
    by_hand = Arm(name="mine", settings=change("x").settings, origin=ArmOrigin.HAND)
    race = Race(Made(by_hand, A), PLAN, gains={"a": 0.03, "mine": 0.03})
    real = race.measured

    def measured(name: str, number: int) -> object:
        told = real(name, number)
        return report(told.steady.median_s * 0.97) if name == "mine" and told.steady else told

    race.measured = measured  # type: ignore[method-assign,assignment]
    race.run()
    assert dict(race.study.arm("combined").settings.env) == {"X": "on", "A": "on"}


@pytest.mark.parametrize(
    "failure", [TrialFailure.UNKNOWN_FLAG, TrialFailure.OUT_OF_MEMORY, TrialFailure.NAN]
)
def test_a_certain_failure_drops_at_once(failure: TrialFailure) -> None:
    race = Race(Made(A, B), PLAN, failing={"a": (failure, -1)})
    race.run()
    assert race.drops["a"] == str(failure)
    assert sum(it.arm == "a" for it in race.trials) == 1


@pytest.mark.parametrize(
    "failure",
    [
        TrialFailure.CRASH,
        TrialFailure.HANG,
        TrialFailure.TIMEOUT,
        TrialFailure.NO_STEPS,
        TrialFailure.UNSTEADY,
    ],
)
def test_an_uncertain_failure_gets_one_more_try(failure: TrialFailure) -> None:
    twice = Race(Made(A, B), PLAN, failing={"a": (failure, -1)})
    twice.run()
    assert twice.drops["a"] == str(failure)
    assert sum(it.arm == "a" for it in twice.trials) == 2
    once = Race(Made(A, B), PLAN, gains={"a": 0.03}, failing={"a": (failure, 1)})
    once.run()
    assert "a" not in once.drops


def of_so_many_steps(
    seen: int | None, seconds: float = 0.9, base: tuple[int, ...] = (20, 20)
) -> Made:
    made = Made(A).entered(A).opened()
    for row, steps in enumerate(base):
        made.ran(BASE, report(1.0, steps_seen=steps), Purpose.SCREEN, row)
        made.ran("a", report(seconds, steps_seen=seen), Purpose.SCREEN, row)
    return made


def test_an_arm_that_ends_before_the_base_does_is_no_faster_program() -> None:
    said = fault(RaceState(of_so_many_steps(8).study, PLAN))
    assert isinstance(said, Drop)
    assert (said.arm, said.kind) == ("a", "fewer steps")
    assert said.why.startswith("it ran 8 steps, and the base 20: see runs/")


@pytest.mark.parametrize(
    "made",
    [
        of_so_many_steps(19),  # a line may be missed
        of_so_many_steps(None),  # `steps=` ended it
        of_so_many_steps(16, 1.25),  # both train for a fixed time
        of_so_many_steps(17, base=(20, 18)),  # as the base's own runs
    ],
    ids=["one", "stopped", "fixed time", "base differs"],
)
def test_an_arm_that_trains_as_long_as_the_base_goes_on(made: Made) -> None:
    assert fault(RaceState(made.study, PLAN)) is None


LATE = [TrialFailure.NO_STEPS, TrialFailure.UNSTEADY, TrialFailure.TIMEOUT]


@pytest.mark.parametrize("failure", LATE)
def test_what_a_busy_machine_may_cause_is_free_once(failure: TrialFailure) -> None:
    made = Made(A, B).entered(A, B).noise()
    made.ran("b", report(failure=failure), Purpose.SCREEN, 1)
    assert made.study.charged == 2
    # The machine may be free at the end of the row.
    assert next_move(made.study, PLAN) == RunTrial("a", Purpose.SCREEN, 1, 1)
    made.row(Purpose.SCREEN, 1, {"a": 1.0, BASE: 1.0})
    assert next_move(made.study, PLAN) == RunTrial("b", Purpose.SCREEN, 1, 1)
    made.ran("b", report(failure=failure), Purpose.SCREEN, 1)
    assert made.study.charged == 5
    move = next_move(made.study, PLAN)
    assert isinstance(move, Drop)
    assert move.arm == "b"
    assert "(2 times)" in move.why


@pytest.mark.parametrize("failure", LATE)
def test_an_arm_is_not_to_blame_where_the_base_fails_alike(failure: TrialFailure) -> None:
    made = Made(A).entered(A).noise()
    made.ran("a", report(failure=failure), Purpose.SCREEN, 1)
    made.ran(BASE, report(failure=failure), Purpose.SCREEN, 1)
    made.ran(BASE, report(1.0), Purpose.SCREEN, 1)
    made.ran("a", report(failure=failure), Purpose.SCREEN, 1)
    assert made.study.charged == 3
    assert next_move(made.study, PLAN) == RunTrial("a", Purpose.SCREEN, 1, 1)


@pytest.mark.parametrize("failure", LATE)
def test_two_such_trials_with_timed_ones_between_drop_no_arm(failure: TrialFailure) -> None:
    made = Made(A).entered(A).noise()
    for row in (1, 2):
        made.ran("a", report(failure=failure), Purpose.SCREEN, row)
        made.row(Purpose.SCREEN, row, {BASE: 1.0, "a": 1.0})
    assert not isinstance(fault(RaceState(made.study, PLAN)), Drop)
    assert made.study.charged == 6


def timed_six_times() -> Made:
    made = Made(A).entered(A).noise()
    for row in (1, 2, 3, 4):
        made.row(Purpose.SCREEN, row, {BASE: 1.0 + row / 1000, "a": 0.9})
    return made


@pytest.mark.parametrize("failure", LATE)
@pytest.mark.parametrize("name", [BASE, "a"])
def test_two_failures_among_many_timed_runs_are_chance_and_three_in_a_row_are_none(
    failure: TrialFailure, name: str
) -> None:
    made = timed_six_times()
    charged = made.study.charged
    for _ in range(2):
        made.ran(name, report(failure=failure), Purpose.RACE, 6)
        assert fault(RaceState(made.study, PLAN)) is None
    assert made.study.charged == charged
    made.ran(name, report(failure=failure), Purpose.RACE, 6)
    said = fault(RaceState(made.study, PLAN))
    assert isinstance(said, Finish if name == BASE else Drop)


def test_a_base_that_was_timed_before_may_have_met_a_busy_machine() -> None:
    made = Made(A).entered(A).noise()
    for _ in range(2):
        made.ran(BASE, report(failure=TrialFailure.NO_STEPS), Purpose.SCREEN, 1)
    said = fault(RaceState(made.study, PLAN))
    assert isinstance(said, Finish)
    assert "the machine may be busy" in said.why


@pytest.mark.parametrize(
    ("failure", "tries"),
    [
        (TrialFailure.CRASH, 1),
        (TrialFailure.OUT_OF_MEMORY, 1),
        (TrialFailure.NAN, 1),
        (TrialFailure.UNSTEADY, 2),
    ],
)
def test_a_base_that_fails_ends_it_with_what_to_mend(failure: TrialFailure, tries: int) -> None:
    race = Race(Made(A), PLAN, failing={BASE: (failure, -1)})
    end = race.run()
    assert isinstance(end, Finish)
    assert f": {failure}" in end.why
    assert ";" in end.why
    assert len(race.trials) == tries


@pytest.mark.parametrize(
    ("detail", "advice"),
    [
        ("no steps were recorded; see runs/0002", "make it print `step N`"),
        (
            "3 undisturbed steps were seen, and 5 are the least",
            "make it print each step immediately",
        ),
        (BURSTS, "make it print each step immediately"),
    ],
)
def test_what_to_do_fits_what_was_seen(detail: str, advice: str) -> None:
    made = Made(A).entered(A).opened()
    for _ in range(2):
        told = replace(report(failure=TrialFailure.NO_STEPS), detail=detail)
        made.ran(BASE, told, Purpose.NOISE, 0)
    said = fault(RaceState(made.study, PLAN))
    assert isinstance(said, Finish)
    assert advice in said.why


def test_a_base_that_fails_once_later_is_tried_again() -> None:
    made = Made(A).entered(A).noise()
    made.ran("a", report(0.9), Purpose.SCREEN, 1)
    made.ran(BASE, report(failure=TrialFailure.CRASH), Purpose.SCREEN, 1)
    assert next_move(made.study, PLAN) == RunTrial(BASE, Purpose.SCREEN, 1, 1)
    made.ran(BASE, report(failure=TrialFailure.CRASH), Purpose.SCREEN, 1)
    assert isinstance(next_move(made.study, PLAN), Finish)


def test_blameless_failures_are_made_again_then_elsewhere_then_not_for_now() -> None:
    made = Made(A).entered(A).noise()
    first = row_order("a", 1, PLAN.seed)[0]
    for _ in range(PLAN.retries + 1):
        assert next_move(made.study, PLAN) == RunTrial(first, Purpose.SCREEN, 1, 1)
        made.ran(first, report(failure=TrialFailure.NODE_FAULT), Purpose.SCREEN, 1)
    assert next_move(made.study, PLAN) == CloseAllocation(1)
    made.closed()
    assert next_move(made.study, PLAN) == OpenAllocation(2, fresh=False)
    made.opened()
    for _ in range(PLAN.retries + 1):
        assert next_move(made.study, PLAN) == RunTrial(first, Purpose.SCREEN, 1, 2)
        made.ran(first, report(failure=TrialFailure.PREEMPTED), Purpose.SCREEN, 1)
    end = next_move(made.study, PLAN)
    assert isinstance(end, Pause)
    assert "preempted" in end.why
    made.closed()  # as whoever pauses does: it may go on later
    assert next_move(made.study, PLAN) == OpenAllocation(3, fresh=False)


@pytest.mark.parametrize("failure", [TrialFailure.INTERRUPTED, TrialFailure.DISK_FULL])
def test_what_a_user_stopped_is_made_again_as_often_as_it_takes(failure: TrialFailure) -> None:
    made = Made(A).entered(A).noise()
    for _ in range(10):
        made.ran("a", report(failure=failure), Purpose.SCREEN, 1)
        assert next_move(made.study, PLAN) == RunTrial("a", Purpose.SCREEN, 1, 1)


@pytest.mark.parametrize("cut_off", [True, False])
def test_a_row_on_this_machine_goes_on_after_a_tuner_died(*, cut_off: bool) -> None:
    made = Made(A, B, C).entered(A, B, C).noise()
    first, second, *rest = row_order("abc", 1, PLAN.seed)
    made.row(Purpose.SCREEN, 1, {first: 1.0})
    if cut_off:
        made.ran(second, report(failure=TrialFailure.INTERRUPTED), Purpose.SCREEN, 1)
    made.closed()
    assert next_move(made.study, PLAN) == OpenAllocation(2, fresh=False)
    made.opened()
    for name in (second, *rest):
        assert next_move(made.study, PLAN) == RunTrial(name, Purpose.SCREEN, 1, 2)
        made.row(Purpose.SCREEN, 1, {name: 1.0})
    assert RaceState(made.study, PLAN).raced["a"].rows == 1


def test_fresh_runs_go_on_apart_from_the_race() -> None:
    made = Made(A).entered(A).noise()
    for row in (1, 2):
        made.row(Purpose.SCREEN, row, {BASE: 1.0 + row / 5000, "a": 0.9})
    made.closed().opened()
    first, second = row_order("a", 3, PLAN.seed)
    made.row(Purpose.CONFIRM, 3, {first: 1.0}).closed()
    assert next_move(made.study, PLAN) == OpenAllocation(3, fresh=True)
    made.opened()
    assert next_move(made.study, PLAN) == RunTrial(second, Purpose.CONFIRM, 3, 3)


def test_a_row_is_begun_anew_where_its_nodes_are_gone() -> None:
    made = Made(A, B).entered(A, B).opened("slurm")
    made.row(Purpose.NOISE, 0, {BASE: 1.0}).row(Purpose.NOISE, 0, {BASE: 1.001})
    made.ran("b", report(1.0), Purpose.SCREEN, 1).closed()
    assert next_move(made.study, PLAN) == OpenAllocation(2, fresh=False)
    made.opened("slurm")
    for name in row_order(["a", "b"], 2, PLAN.seed):
        assert next_move(made.study, PLAN) == RunTrial(name, Purpose.SCREEN, 2, 2)
        made.row(Purpose.SCREEN, 2, {name: 1.0})


def test_the_noise_row_is_begun_anew_too() -> None:
    made = Made(A).entered(A).opened("slurm")
    made.ran(BASE, report(1.0), Purpose.NOISE, 0).closed().opened("slurm")
    assert next_move(made.study, PLAN) == RunTrial(BASE, Purpose.NOISE, 1, 2)
    made.ran(BASE, report(1.0), Purpose.NOISE, 1)
    assert next_move(made.study, PLAN) == RunTrial(BASE, Purpose.NOISE, 1, 2)


def test_a_schedule_change_that_leaves_the_program_is_no_change() -> None:
    same = arm("same", change("threshold", acts=Acts.SCHEDULE))
    made = Made(same, A).entered(same, A).opened()
    for _ in range(2):
        made.ran(BASE, report(1.0, program="p"), Purpose.NOISE, 0)
    made.ran("a", report(1.0, program="p"), Purpose.SCREEN, 1)
    made.ran("same", report(1.0, program="p"), Purpose.SCREEN, 1)
    move = next_move(made.study, PLAN)
    assert isinstance(move, Drop)
    assert (move.arm, move.kind) == ("same", "same program")
    made.dropped("same", "same program")
    # What acts when it runs is never dropped for its program.
    assert next_move(made.study, PLAN) == RunTrial(BASE, Purpose.SCREEN, 1, 1)


def test_of_two_arms_with_one_program_the_simpler_one_stays() -> None:
    both = arm("both", change("x", acts=Acts.SCHEDULE), change("y", acts=Acts.SCHEDULE))
    one = arm("one", change("x", acts=Acts.SCHEDULE))
    made = Made(both, one).entered(both, one).noise()
    made.ran("one", report(1.0, program="p"), Purpose.SCREEN, 1)
    made.ran("both", report(1.0, program="p"), Purpose.SCREEN, 1)
    move = next_move(made.study, PLAN)
    assert isinstance(move, Drop)
    assert (move.arm, move.kind) == ("both", "same program")
    assert "one" in move.why


def test_other_numbers_drop_an_arm() -> None:
    losses = [4.0 - 0.1 * it for it in range(20)]
    made = Made(A).entered(A).opened()
    for _ in range(2):
        made.ran(BASE, report(1.0, losses=losses), Purpose.NOISE, 0)
    made.ran("a", report(0.9, losses=[it + 1 for it in losses]), Purpose.SCREEN, 1)
    move = next_move(made.study, PLAN)
    assert isinstance(move, Drop)
    assert (move.arm, move.kind) == ("a", "other numbers")


def test_an_arm_with_a_profile_is_profiled_before_it_is_timed() -> None:
    profiled = arm("pgle", change("pgle", acts=Acts.SCHEDULE, profile=True))
    race = Race(Made(profiled, A), PLAN, gains={"pgle": 0.05})
    race.run()
    of_it = [it for it in race.moves if getattr(it, "arm", None) == "pgle"]
    assert of_it[0] == RunTrial("pgle", Purpose.PROFILE, -1, 1)
    assert isinstance(of_it[1], MakeProfile)
    assert isinstance(of_it[2], RunTrial)
    assert of_it[2].purpose is Purpose.SCREEN


def test_a_profiled_run_needs_no_step_times() -> None:
    profiled = arm("pgle", change("pgle", acts=Acts.SCHEDULE, profile=True))
    made = Made(profiled).entered(profiled).noise()
    made.ran("pgle", report(failure=TrialFailure.NO_STEPS), Purpose.PROFILE, -1)
    assert next_move(made.study, PLAN) == MakeProfile("pgle", 3)


def test_budget_of_trials_keeps_the_confirmation_and_the_best_named() -> None:
    race = Race(Made(A, B, C, D), StudyPlan(budget=Budget(trials=18)), gains={"a": 0.03})
    race.run()
    assert len(race.trials) <= 18
    assert race.drops["d"] == "no budget"
    assert len(rows_for(race, Purpose.CONFIRM)) == 4


@pytest.mark.parametrize("seed", range(5))
def test_what_was_kept_for_fresh_runs_is_used_where_nobody_needs_them(seed: int) -> None:
    plan = StudyPlan(budget=Budget(trials=14))
    race = Race(Made(A, B), plan, gains={"a": -0.02}, noise=0.0005, seed=seed)
    race.run()
    assert race.drops["a"] == "slower"
    assert [it.arm for it in race.trials].count("b") >= 2  # it had no room at first


def test_an_arm_that_is_not_decided_has_the_trials_kept_for_fresh_runs() -> None:
    made = Made(A).entered(A).noise()
    for row, own in ((1, 1.10), (2, 1.02)):
        made.row(Purpose.SCREEN, row, {BASE: 1.0 + 0.02 * row, "a": own})
    plan = StudyPlan(budget=Budget(trials=14))
    assert next_move(made.study, plan) == RunTrial("a", Purpose.RACE, 3, 1)


def test_a_rest_of_the_budget_is_explained() -> None:
    plan = StudyPlan(budget=Budget(trials=14))
    race = Race(Made(A), plan, gains={"a": -0.02}, noise=0.0005)
    end = race.run()
    assert isinstance(end, Finish)
    race.made.add(StudyEnded(why=end.why, at=AT))
    spent = conclude(race.study, plan).spent
    assert spent is not None
    assert (spent.trials_left, spent.why_left) == (8, NO_ARM.why)


def test_the_smallest_budget_races_one_arm() -> None:
    race = Race(Made(A, B), StudyPlan(budget=Budget(trials=6)), gains={"a": 0.03})
    race.run()
    assert [it.arm for it in race.trials].count("a") == 2
    assert len(race.trials) == 6
    assert not rows_for(race, Purpose.CONFIRM)


def test_budget_of_hours_goes_by_the_median_trial() -> None:
    plan = StudyPlan(budget=Budget(seconds=1200.0))
    race = Race(Made(A, B, C, D), plan, gains={"a": 0.03}, wall_s=60.0)
    race.run()
    assert len(race.trials) <= 20
    assert rows_for(race, Purpose.CONFIRM)


def test_a_budget_of_time_that_is_too_small_is_known_after_one_trial() -> None:
    plan = StudyPlan(budget=Budget(seconds=40))
    race = Race(Made(A, B), plan, gains={"a": 0.03}, wall_s=10.0)
    end = race.run()
    assert len(race.trials) == 1
    assert isinstance(end, Finish)
    assert end.why == (
        "the budget is too small: a trial takes 10 s, and a study takes 14 of them or more:"
        " --budget '3m'"
    )
    enough = Race(Made(A, B), plan, gains={"a": 0.03}, wall_s=6.0)
    enough.run()
    assert len(enough.trials) == 6


def test_what_noise_hides_is_dropped_as_too_noisy_and_not_as_without_effect() -> None:
    loud = Race(Made(A, B), PLAN, gains={"a": -0.1}, noise=0.15)
    loud.run()
    assert set(loud.drops.values()) == {"too noisy"}
    quiet = Race(Made(A, B), PLAN, noise=0.0005)
    quiet.run()
    assert set(quiet.drops.values()) == {"no effect"}


def test_a_doubtful_best_is_left_to_the_confirmation() -> None:
    race = Race(
        Made(A, B),
        StudyPlan(rule=DecisionRule(cap=2, looks=(2,)), confirm_rows=8),
        gains={"a": 0.02},
        noise=0.008,
        seed=3,
    )
    race.run()
    assert {it for row in rows_for(race, Purpose.CONFIRM) for it in row} == {BASE, "a"}


def test_what_cannot_reach_the_target_is_dropped() -> None:
    plan = StudyPlan(target_gain=0.05)
    race = Race(Made(A, B), plan, gains={"a": 0.02, "b": 0.02})
    race.run()
    assert set(race.drops.values()) == {"below target"}


def test_the_target_ends_the_race_and_is_confirmed() -> None:
    plan = StudyPlan(target_gain=0.03, rule=DecisionRule(cap=6, looks=(2, 4, 6)))
    race = Race(Made(A, B), plan, gains={"a": 0.06, "b": 0.035}, noise=0.003)
    assert race.run() == REACHED
    assert "combined" not in {it.name for it in race.study.arms}
    assert rows_for(race, Purpose.CONFIRM)


def test_the_winner_is_taken_apart_if_asked() -> None:
    both = arm("both", change("x"), change("y"))
    race = Race(Made(both), StudyPlan(ablate=True), gains={"x": 0.04})
    race.run()
    rows = rows_for(race, Purpose.ABLATE)
    assert len(rows) == 4
    assert all(set(it) == {"both", "both-without-x", "both-without-y"} for it in rows)


def test_without_a_confirmation_the_race_decides() -> None:
    race = Race(Made(A), StudyPlan(confirm_rows=0), gains={"a": 0.03})
    assert race.run() == DECIDED
    assert not rows_for(race, Purpose.CONFIRM)


def test_the_next_best_is_confirmed_where_the_best_fails_there() -> None:
    one, other = arm("one", change("size", "1")), arm("other", change("size", "2"))
    made = Made(one, other).entered(one, other).noise()
    for row in range(1, 3):
        made.row(Purpose.SCREEN, row, {BASE: 1.0 + row / 5000, "one": 0.9, "other": 0.95})
    plan = StudyPlan(budget=Budget(trials=24))
    made.closed().opened()
    assert next_move(made.study, plan) == RunTrial("one", Purpose.CONFIRM, 3, 2)
    made.ran("one", report(failure=TrialFailure.OUT_OF_MEMORY), Purpose.CONFIRM, 3)
    assert isinstance(next_move(made.study, plan), Drop)
    made.dropped("one", "out of memory")
    assert next_move(made.study, plan) == RunTrial(BASE, Purpose.CONFIRM, 3, 2)
    made.ran(BASE, report(1.0), Purpose.CONFIRM, 3)
    assert next_move(made.study, plan) == RunTrial("other", Purpose.CONFIRM, 3, 2)


def test_an_ended_study_stays_ended() -> None:
    race = Race(Made(A), PLAN)
    end = race.run()
    assert next_move(race.study, PLAN) == end


def test_arms_that_came_in_later_have_no_part_in_rows_before() -> None:
    race = Race(Made(A, B), PLAN, gains={"a": 0.02, "b": 0.03})
    race.run()
    numbers = [number for number, row in race.rows.items() if "combined" in row]
    assert min(numbers) > 2
    assert all(after > before for before, after in pairwise(numbers))


def test_nodes_on_which_nothing_starts_any_more_are_given_back_at_once() -> None:
    made = Made(A, B).entered(A, B).noise()
    made.ran("b", report(failure=TrialFailure.PREEMPTED), Purpose.SCREEN, 1)
    assert next_move(made.study, PLAN) == RunTrial("b", Purpose.SCREEN, 1, 1)
    made.ran("b", report(failure=TrialFailure.NODE_FAULT), Purpose.SCREEN, 1, starts=False)
    assert next_move(made.study, PLAN) == CloseAllocation(1)
    made.closed()
    assert next_move(made.study, PLAN) == OpenAllocation(2, fresh=False)


@pytest.mark.parametrize("executor", ["slurm", "ray"])
@pytest.mark.parametrize("failure", [TrialFailure.NODE_FAULT, TrialFailure.PREEMPTED])
def test_nodes_that_were_held_and_are_lost_are_given_back_at_once(
    executor: str, failure: TrialFailure
) -> None:
    made = Made(A).entered(A)
    for number in range(1, PLAN.retries + 1):
        made.opened(executor)
        assert isinstance(next_move(made.study, PLAN), RunTrial)
        made.ran(BASE, report(failure=failure), Purpose.NOISE, number)
        assert next_move(made.study, PLAN) == CloseAllocation(number)
        made.closed()
        assert isinstance(next_move(made.study, PLAN), OpenAllocation)
    made.opened(executor).ran(BASE, report(failure=failure), Purpose.NOISE, 9)
    assert isinstance(next_move(made.study, PLAN), Pause)


def test_a_job_for_each_trial_loses_no_row_with_its_nodes() -> None:
    made = Made(A).entered(A).opened("slurm-batch")
    made.ran(BASE, report(failure=TrialFailure.PREEMPTED), Purpose.NOISE, 0)
    assert next_move(made.study, PLAN) == RunTrial(BASE, Purpose.NOISE, 0, 1)


def test_who_fails_without_blame_costs_no_trial_up_to_as_many_as_there_are() -> None:
    plan = StudyPlan(budget=Budget(trials=20))
    made = Made(A).entered(A).noise()
    assert RaceState(made.study, plan).remaining.left == 18
    for lost in range(1, 31):
        made.ran("a", report(failure=TrialFailure.INTERRUPTED), Purpose.SCREEN, 1)
        assert RaceState(made.study, plan).remaining.left == min(18, 38 - lost)
    spent = conclude(made.study, plan).spent
    assert spent is not None
    assert (spent.trials, spent.trials_left) == (32, RaceState(made.study, plan).remaining.left)
    made.ran("a", report(failure=TrialFailure.CRASH), Purpose.SCREEN, 1)
    assert RaceState(made.study, StudyPlan(budget=Budget(trials=40))).remaining.left == 37


def test_whom_the_budget_had_no_room_for_comes_back_with_a_larger_one() -> None:
    race = Race(Made(A, B, C, D), StudyPlan(budget=Budget(trials=14)), gains={"b": 0.03})
    end = race.run()
    assert race.drops["b"] == "no budget"
    race.made.add(StudyEnded(why=end.why, at=AT)).closed()
    race.plan = StudyPlan(budget=Budget(trials=60))
    race.made.resumed()
    assert not set(race.study.dropped) & {"b", "c", "d"}
    race.run()
    told = conclude(race.study, race.plan)
    assert told.winner is not None
    assert told.winner.name == "b"


def test_arms_that_never_ran_for_the_budget_are_not_called_decided() -> None:
    race = Race(Made(A, B, C), StudyPlan(budget=Budget(trials=14)), gains={"a": 0.1})
    end = race.run()
    never = [it for it in "abc" if not race.study.trials_of(it)]
    assert never
    assert {race.drops[it] for it in never} == {"no budget"}
    assert end == SPENT
    first = race.study.dropped["c"].why
    assert [int(it) for it in re.findall(r"\d+", first)] == [10, 3, 6, 8]


def test_who_comes_back_after_the_confirmation_races_and_is_confirmed_too() -> None:
    race = Race(Made(A, B), StudyPlan(budget=Budget(trials=14)), gains={"a": 0.03, "b": 0.05})
    end = race.run()
    assert race.drops["b"] == "no budget"
    assert rows_for(race, Purpose.CONFIRM)
    race.made.add(StudyEnded(why=end.why, at=AT)).resumed()
    race.plan = StudyPlan(budget=Budget(trials=80))
    assert race.run() == DECIDED
    told = conclude(race.study, race.plan)
    assert told.winner is not None
    assert told.confirmed
    assert {it.dimension for it in told.winner.changes} == {"a", "b"}
    statuses = {it.arm.name: it.status for it in told.rows}
    assert "not tried" not in statuses.values()


def test_who_comes_back_and_is_no_better_changes_nothing() -> None:
    race = Race(Made(A, B), StudyPlan(budget=Budget(trials=14)), gains={"a": 0.03})
    end = race.run()
    race.made.add(StudyEnded(why=end.why, at=AT)).resumed()
    race.plan = StudyPlan(budget=Budget(trials=80))
    confirmed = len(rows_for(race, Purpose.CONFIRM))
    race.run()
    told = conclude(race.study, race.plan)
    assert told.winner is not None
    assert told.winner.name == "a"
    assert {it.arm.name: it.status for it in told.rows}["b"] in ("no effect", "can't win")
    assert len(rows_for(race, Purpose.CONFIRM)) == confirmed


def test_a_budget_that_no_arm_fits_into_is_what_ends_it() -> None:
    plan = StudyPlan(budget=Budget(trials=5))
    made = Made(A).entered(A).noise().dropped("a", "no budget")
    assert next_move(made.study, plan) == SPENT


def test_a_base_that_failed_gets_another_chance_with_another_sitting() -> None:
    made = Made(A).entered(A).opened()
    made.ran(BASE, report(failure=TrialFailure.NAN), Purpose.NOISE, 0)
    end = next_move(made.study, PLAN)
    assert isinstance(end, Finish)
    made.add(StudyEnded(why=end.why, at=AT)).closed()
    assert not made.study.is_done
    made.resumed().opened()
    assert isinstance(next_move(made.study, PLAN), RunTrial)
    made.ran(BASE, report(failure=TrialFailure.NAN), Purpose.NOISE, 1)
    assert isinstance(next_move(made.study, PLAN), Finish)


def test_a_target_that_fresh_runs_have_not_shown_is_not_reached() -> None:
    plan = StudyPlan(target_gain=0.02, confirm_rows=4, budget=Budget(trials=14))
    made = Made(A).entered(A).noise()
    for row in range(1, 3):
        made.row(Purpose.SCREEN, row, {BASE: 1.0 + 0.0001 * row, "a": 0.95})
    made.closed().opened()
    for row in range(3, 6):
        made.row(Purpose.CONFIRM, row, {BASE: 1.0 + 0.0001 * row, "a": 0.95})
    made.ran("a", report(failure=TrialFailure.HANG), Purpose.CONFIRM, 6)
    made.row(Purpose.CONFIRM, 6, {BASE: 1.0})
    assert next_move(made.study, plan) == SPENT


def test_of_arms_with_equal_settings_one_runs() -> None:
    one, other = arm("one", change("x")), arm("other", change("x"))
    nothing = Arm(name="nothing", settings=BASE_ARM.settings, origin=ArmOrigin.HAND)
    race = Race(Made(one, other, nothing), PLAN, gains={"x": 0.03})
    race.run()
    assert race.drops == {"other": "same program", "nothing": "same program"}
    whys = [it.why for it in race.moves if isinstance(it, Drop)]
    assert [it.rpartition(" ")[2] for it in whys] == ["one", "base"]
    assert not {it.arm for it in race.trials} & {"other", "nothing"}


def test_what_excludes_each_other_is_not_combined() -> None:
    apart = replace(change("x"), excludes=("y",))
    race = Race(Made(arm("x", apart), arm("y")), PLAN, gains={"x": 0.03, "y": 0.03})
    race.run()
    assert "combined" not in {it.name for it in race.study.arms}


def confirmed_by(race: Race) -> dict[str, int]:
    """Fresh runs by arm."""
    arms = [it.arm for it in race.trials if it.purpose is Purpose.CONFIRM]
    return {it: arms.count(it) for it in dict.fromkeys(arms) if it != BASE}


def test_fresh_rows_are_as_many_as_the_gain_takes_up_to_the_cap() -> None:
    quiet = Race(Made(A), StudyPlan(confirm_rows=2), gains={"a": 0.03}, noise=0.0005)
    quiet.run()
    assert confirmed_by(quiet) == {"a": 2}
    loud = Race(Made(A), StudyPlan(confirm_rows=2), gains={"a": 0.03}, noise=0.01, seed=4)
    loud.run()
    assert 2 < confirmed_by(loud)["a"] <= PLAN.rule.cap
    asked = Race(Made(A), StudyPlan(confirm_rows=8), gains={"a": 0.03}, noise=0.01, seed=4)
    asked.run()
    assert confirmed_by(asked) == {"a": 8}


def test_the_purse_keeps_as_much_as_the_fresh_rows_take() -> None:
    made = Made(A).entered(A).noise(1.0, 1.01)
    plan = StudyPlan(confirm_rows=2, budget=Budget(trials=40))
    assert RaceState(made.study, plan).remaining.reserve == 4
    for row, (base, own) in enumerate([(1.0, 0.96), (1.01, 0.99)], 1):
        made.row(Purpose.SCREEN, row, {BASE: base, "a": own})
    assert RaceState(made.study, plan).remaining.reserve == 10
    assert RaceState(made.study, StudyPlan(budget=Budget(trials=14))).remaining.reserve == 8


def target_missed() -> Made:
    """The race was ended for one arm, whose fresh runs then showed nothing."""
    made = Made(A, B).entered(A, B).noise(1.0, 1.0005)
    for row, other in ((1, 0.955), (2, 0.985)):
        made.row(Purpose.SCREEN, row, {BASE: 1.0 + row / 5000, "a": 0.95, "b": other})
    made.closed().opened()
    for row in range(3, 9):
        made.row(Purpose.CONFIRM, row, {BASE: 1.0 + row / 9000, "a": 1.0})
    return made


def test_a_race_that_was_ended_for_a_target_goes_on_where_fresh_runs_miss_it() -> None:
    race = Race(target_missed(), StudyPlan(target_gain=0.03), gains={"b": 0.05})
    assert race.run() == REACHED
    assert race.moves[:2] == [CloseAllocation(2), OpenAllocation(3, fresh=False)]
    assert "combined" not in {it.name for it in race.study.arms}  # of two, one gains nothing
    assert rows_for(race, Purpose.RACE)
    assert set(confirmed_by(race)) == {"b"}
    told = conclude(race.study, race.plan)
    assert told.winner is not None
    assert (told.winner.name, told.confirmed) == ("b", True)


def test_without_a_target_one_confirmation_ends_it() -> None:
    assert isinstance(next_move(target_missed().study, StudyPlan()), Finish)


def test_one_fresh_row_and_too_few_trials_are_refused() -> None:
    with pytest.raises(UsageError, match="--confirm-rows 1 is too few"):
        refuse_small(StudyPlan(confirm_rows=1))
    for plan, least in (
        (StudyPlan(), 14),
        (StudyPlan(confirm_rows=0), 6),
        (StudyPlan(confirm_rows=2), 10),
    ):
        with pytest.raises(UsageError) as error:
            refuse_small(replace(plan, budget=Budget(trials=least - 1)))
        assert f"{least} trials" in (error.value.why or "")
        refuse_small(replace(plan, budget=Budget(trials=least)))


@pytest.mark.parametrize("rows", [0, 4])
def test_in_the_least_budget_a_large_gain_is_decided(rows: int) -> None:
    plan = StudyPlan(confirm_rows=rows, budget=Budget(trials=6 + 2 * rows))
    for seed in range(5):
        race = Race(Made(A), plan, gains={"a": 0.1}, noise=0.002, seed=seed)
        race.run()
        told = conclude(race.study, plan)
        assert told.winner is not None
        assert told.confirmed == bool(rows)
