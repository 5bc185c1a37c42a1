"""What a study says in the end, and on the way."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import pytest

from counterpoint.core.basis import Range
from counterpoint.tune.arm import BASE, Acts, Arm, ArmOrigin, Predicted
from counterpoint.tune.conclusion.conclude import conclude
from counterpoint.tune.conclusion.conclusion import ArmRow, Conclusion
from counterpoint.tune.plan import Budget, StudyPlan
from counterpoint.tune.race.moves import Drop, Finish
from counterpoint.tune.race.race import next_move
from counterpoint.tune.statistics.estimate import ArmVerdict, DecisionRule, estimate_text
from counterpoint.tune.study.records import (
    Ablated,
    CandidateSeen,
    Paused,
    SearchEnded,
    StudyBegan,
    StudyEnded,
)
from counterpoint.tune.trial.report import Purpose, TrialFailure
from golden_files import Golden
from tune_races import Race
from tune_studies import AT, BASE_ARM, Made, arm, change, report

PLAN = StudyPlan(rule=DecisionRule(cap=6, looks=(2, 4, 6)))


def concluded(race: Race) -> Conclusion:
    end = race.run()
    assert isinstance(end, Finish)
    race.made.add(StudyEnded(why=end.why, at=AT))
    return conclude(race.study, race.plan)


def row(said: Conclusion, name: str) -> ArmRow:
    return next(it for it in said.rows if it.arm.name == name)


def predicted(gain: float, *, tied: bool = False, fits: bool = True) -> Predicted:
    return Predicted(
        step_s=1 - gain,
        range_s=Range(0.9, 1.1),
        gain=gain,
        gain_range=Range(gain - 0.01, gain + 0.02),
        program=f"p{gain}",
        fits=fits,
        tied=tied,
    )


def a_win() -> Conclusion:
    arms = [arm("threshold", change("threshold", "512 MiB")), *map(arm, "bcd")]
    race = Race(Made(*arms), PLAN, gains={"threshold": 0.031})
    return concluded(race)


def test_a_win_is_claimed_by_its_fresh_runs() -> None:
    said = a_win()
    assert said.winner is not None
    assert said.winner.name == "threshold"
    assert said.confirmed
    assert said.verdict is ArmVerdict.FASTER
    fresh = row(said, "threshold").confirmed
    assert fresh is not None
    assert said.gain == fresh.gain
    assert said.range == fresh.range
    assert said.sentence.startswith("+3.")
    assert "from threshold 512 MiB (" in said.sentence
    assert "; 3 other settings: " in said.sentence
    assert said.rows[0].status == "winner"
    assert said.rows[1].status == "base"
    assert said.state == "done"


def no_effect() -> Conclusion:
    return concluded(Race(Made(*map(arm, "abc")), PLAN, noise=0.0005))


def test_no_effect_is_a_result() -> None:
    said = no_effect()
    assert said.winner is None
    assert not said.confirmed
    assert said.sentence.startswith("no effect: 3 settings")
    assert {it.status for it in said.rows} == {"base", "no effect"}


def four_good_rows() -> Made:
    """An arm that is a third faster, in rows without a doubt."""
    made = Made(arm("a")).entered(arm("a")).noise()
    for number in (1, 2, 3, 4):
        made.row(Purpose.SCREEN, number, {BASE: 1.0 + number / 500, "a": 0.67})
    return made


def a_base_that_fails_at_last() -> Conclusion:
    """After the race, when the base was timed six times."""
    made = four_good_rows()
    for _ in range(3):
        made.ran(BASE, report(failure=TrialFailure.UNSTEADY), Purpose.RACE, 5)
    move = next_move(made.study, PLAN)
    assert isinstance(move, Finish)
    made.add(StudyEnded(why=move.why, at=AT))
    return conclude(made.study, PLAN)


def test_a_base_that_fails_at_last_leaves_what_was_measured() -> None:
    said = a_base_that_fails_at_last()
    assert said.sentence.startswith("+33.")
    assert "nothing could be measured" not in said.sentence
    assert "the study ended early: the base itself fails: unsteady" in said.sentence
    assert said.winner is not None


def an_arm_that_fails_at_last() -> Conclusion:
    """It was far ahead when it could no longer be timed."""
    made = four_good_rows().dropped("a", str(TrialFailure.UNSTEADY), "planted unsteady (3 times)")
    made.add(StudyEnded(why="no arm is left", at=AT))
    return conclude(made.study, PLAN)


def test_an_arm_that_fails_at_last_is_no_missing_gain() -> None:
    said = an_arm_that_fails_at_last()
    assert said.winner is None
    assert said.sentence.startswith("not decided: a saved +33.")
    assert "its later runs failed (unsteady)" in said.sentence


def the_same_program() -> Conclusion:
    same = arm("same", change("x", acts=Acts.SCHEDULE))
    race = Race(Made(same), PLAN, programs={BASE: "p", "same": "p"})
    return concluded(race)


def test_a_program_like_the_base_s_has_no_effect() -> None:
    said = the_same_program()
    assert row(said, "same").status == "same program"
    assert said.sentence.startswith("no effect: 1 setting")


def sets(variable: str, *, gain: float = 0.0, program: str = "p") -> Conclusion:
    """Of an arm that sets a variable at run time; the base's program is p."""
    made = Made(arm("a", change(variable)))
    return concluded(Race(made, PLAN, gains={variable: gain}, programs={BASE: "p", "a": program}))


def test_an_arm_that_is_the_base_unless_its_variable_is_read_says_so() -> None:
    note = (
        "a has the base's compiled program: it is the base, unless the program reads MY_TAG at run"
        " time"
    )
    assert note in sets("my_tag").notes


@pytest.mark.parametrize(
    "said", [sets("my_tag", gain=0.2), sets("my_tag", program="q"), sets("nccl_buffsize")]
)
def test_what_is_faster_or_compiled_or_read_by_nccl_is_not_the_base(said: Conclusion) -> None:
    assert not any("it is the base" in note for note in said.notes)


def failures() -> Conclusion:
    race = Race(
        Made(*map(arm, "abcd")),
        PLAN,
        gains={"a": 0.03},
        failing={"b": (TrialFailure.OUT_OF_MEMORY, -1), "c": (TrialFailure.HANG, -1)},
    )
    return concluded(race)


def test_failures_are_counted_apart() -> None:
    said = failures()
    assert "1 other setting: " in said.sentence
    assert "2 failed (out of memory 1, hang 1)" in said.sentence
    assert row(said, "c").failures == 2


def test_where_all_fail_nothing_is_claimed() -> None:
    race = Race(Made(arm("a")), PLAN, failing={"a": (TrialFailure.NAN, -1)})
    said = concluded(race)
    assert said.winner is None
    assert said.sentence.endswith("; 1 failed (NaN)")


def a_base_that_fails() -> Conclusion:
    race = Race(Made(arm("a")), PLAN, failing={BASE: (TrialFailure.OUT_OF_MEMORY, -1)})
    return concluded(race)


def test_a_base_that_fails_says_what_to_mend() -> None:
    said = a_base_that_fails()
    assert "fails: out of memory" in said.sentence
    assert said.winner is None


def without_confirmation() -> Conclusion:
    race = Race(Made(arm("a")), StudyPlan(confirm_rows=0), gains={"a": 0.03})
    return concluded(race)


def test_a_win_without_a_confirmation_says_so() -> None:
    said = without_confirmation()
    assert said.winner is not None
    assert not said.confirmed


def without_room() -> Conclusion:
    race = Race(Made(arm("a")), StudyPlan(budget=Budget(trials=6)), gains={"a": 0.05}, noise=0.0005)
    return concluded(race)


def test_a_budget_without_room_for_it_says_so() -> None:
    said = without_room()
    assert not said.confirmed
    assert said.spent is not None
    assert said.spent.trials_left == 0


def luck() -> Conclusion:
    lucky = arm("lucky")
    made = Made(lucky).entered(lucky).noise(1.0, 1.0005)
    for number in (1, 2):
        made.row(Purpose.SCREEN, number, {BASE: 1.0 + number / 5000, "lucky": 0.96})
    made.closed().opened()
    for number in range(3, 7):
        made.row(Purpose.CONFIRM, number, {BASE: 1.0 + number / 9000, "lucky": 1.0})
    made.add(StudyEnded(why="every arm is decided", at=AT))
    return conclude(made.study, PLAN)


def test_luck_of_the_race_does_not_stand() -> None:
    said = luck()
    assert said.winner is None
    assert "+4.0% in the race" in said.sentence
    assert row(said, "lucky").status == "not confirmed"


def test_fresh_runs_that_leave_it_open_say_how_many_more_would_decide() -> None:
    race = Race(Made(arm("a")), PLAN, gains={"a": 0.012}, noise=0.01, seed=21)
    said = concluded(race)
    assert "+1.3% [-0.2%, +2.9%]" in said.sentence
    (rows,) = re.findall(r"--confirm-rows (\d+) continues", said.sentence)
    ended, plan = race.study, replace(race.plan, confirm_rows=int(rows))
    had = said.rows[1].confirmed or said.rows[0].confirmed
    assert had is not None
    assert int(rows) > 2 * had.rows
    limited = replace(PLAN, budget=Budget(trials=len(ended.trials) + 3))
    budget = len(ended.trials) + 2 * (int(rows) - had.rows)
    assert f" --budget '{budget} trials' continues" in conclude(ended, limited).sentence
    race.made.resumed()
    race.plan = plan
    told = concluded(race)
    assert race.study.trials[len(ended.trials) :], "it goes on"
    assert told.confirmed
    assert told.range is not None
    once = replace(race.study, ends=race.study.ends[-1:])  # as if nobody had looked before
    narrow = conclude(once, plan).range
    assert narrow is not None
    assert told.range.high - told.range.low > 1.05 * (narrow.high - narrow.low)


def half_a_confirmation() -> Conclusion:
    good = arm("good")
    made = Made(good).entered(good).noise(1.0, 1.0005)
    for number in (1, 2):
        made.row(Purpose.SCREEN, number, {BASE: 1.0 + number / 5000, "good": 0.96})
    made.closed().opened()
    for number in (3, 4):
        made.row(Purpose.CONFIRM, number, {BASE: 1.0 + number / 9000, "good": 0.96})
    made.add(Paused(why="stopped", at=AT))
    return conclude(made.study, PLAN)


def test_half_a_confirmation_claims_nothing() -> None:
    said = half_a_confirmation()
    assert not said.confirmed
    assert said.state == "interrupted"


def undecided() -> Conclusion:
    noisy = arm("noisy")
    made = Made(noisy).entered(noisy).noise(1.0, 1.01)
    for number, (base, own) in enumerate([(1.0, 0.98), (1.0, 1.0), (1.0, 0.985), (1.0, 0.99)], 1):
        made.row(Purpose.SCREEN, number, {BASE: base, "noisy": own})
    made.add(StudyEnded(why="the budget is spent", at=AT))
    return conclude(made.study, PLAN)


def test_undecided_says_how_many_rows_it_takes() -> None:
    said = undecided()
    assert said.winner is None
    assert "noisy may save +1.1% [" in said.sentence


def predictions_alone() -> Conclusion:
    best, tied, bad = (
        arm("best", change("x"), predicted=predicted(0.031)),
        arm("tied", predicted=predicted(0.03, tied=True)),
        arm("bad", predicted=predicted(0.1, fits=False)),
    )
    made = Made(shortlist=False).add(
        *(CandidateSeen(arm=it, at=AT) for it in (best, tied, bad)),
        CandidateSeen(arm=arm("broken"), failure="unknown flag", at=AT),
        SearchEnded(why="done", shortlist=("best", "tied"), seconds=1.0, at=AT),
        StudyEnded(why="done", at=AT),
    )
    return conclude(made.study, PLAN)


def test_predictions_alone_have_to_be_measured() -> None:
    said = predictions_alone()
    assert said.basis == "predicted"
    assert said.sentence.startswith("+3.1% predicted [+2.1%, +5.1%] from x; tied with 1 other")
    assert said.winner is not None
    assert said.winner.name == "best"
    assert not said.confirmed
    assert [row(said, it).status for it in ("best", "bad", "broken")] == [
        "worth a trial",
        "out of memory",
        "failed",
    ]


def test_a_predicted_gain_that_does_not_matter_is_tied_with_the_base() -> None:
    little = arm("little", change("x"), predicted=predicted(0.003))
    made = Made(shortlist=False).add(
        CandidateSeen(arm=replace(BASE_ARM, predicted=predicted(0.0)), at=AT),
        CandidateSeen(arm=little, at=AT),
        SearchEnded(why="done", shortlist=("little",), seconds=1.0, at=AT),
        StudyEnded(why="done", at=AT),
    )
    assert "; tied with the base;" in conclude(made.study, PLAN).sentence


@pytest.mark.parametrize(("gain", "chosen"), [(0.015, "simple"), (0.006, "best")])
def test_a_simpler_tied_arm_is_chosen_only_if_it_gains_as_much(gain: float, chosen: str) -> None:
    best = arm("best", change("x"), change("y"), predicted=predicted(0.019))
    simple = arm("simple", change("x"), predicted=predicted(gain, tied=True))
    made = Made(shortlist=False).add(
        *(CandidateSeen(arm=it, at=AT) for it in (best, simple)),
        SearchEnded(why="done", shortlist=("best", "simple"), seconds=1.0, at=AT),
        StudyEnded(why="done", at=AT),
    )
    winner = conclude(made.study, PLAN).winner
    assert winner is not None
    assert winner.name == chosen


def tied_predictions() -> Conclusion:
    arms = [arm(it, predicted=predicted(0.03 - i / 1000)) for i, it in enumerate("abcd")]
    made = Made(shortlist=False).add(
        *(CandidateSeen(arm=it, at=AT) for it in arms),
        SearchEnded(why="done", shortlist=("a", "b"), seconds=1.0, at=AT, tied=("a", "b", "c")),
        StudyEnded(why="done", at=AT),
    )
    return conclude(made.study, PLAN)


def test_who_is_tied_is_counted_once_for_all() -> None:
    said = tied_predictions()
    assert "tied with 2 others" in said.sentence
    tied = [it.arm.predicted is not None and it.arm.predicted.tied for it in said.rows]
    assert sum(tied) == 3  # with the best


def never_predicted() -> Conclusion:
    at_run, left = arm("at run"), arm("left", change("left", acts=Acts.SCHEDULE))
    large = replace(predicted(0.1, fits=False), peak_bytes=3 << 30, limit_bytes=2 << 30)
    made = Made(shortlist=False).add(
        *(CandidateSeen(arm=it, at=AT) for it in (at_run, left, arm("large", predicted=large))),
        SearchEnded(why="done", shortlist=(), seconds=1.0, at=AT),
        StudyEnded(why="done", at=AT),
    )
    return conclude(made.study, PLAN)


def test_what_was_never_predicted_says_why() -> None:
    said = never_predicted()
    assert row(said, "at run").status == "not predictable"
    assert row(said, "left").status == "not looked at"
    assert re.search(r"3\.0 GiB.* 2\.0 GiB", row(said, "large").why)
    assert any("1 arm not examined: " in it and "--candidates" in it for it in said.notes)
    assert any("1 arm not predictable" in it for it in said.notes)


def a_base_too_large() -> Conclusion:
    large = replace(predicted(0.0, fits=False), peak_bytes=3 << 30, limit_bytes=2 << 30)
    base = arm(BASE, origin=ArmOrigin.BASE, predicted=large)
    made = Made(shortlist=False).add(
        *(CandidateSeen(arm=it, at=AT) for it in (base, arm("a", predicted=predicted(-0.1)))),
        SearchEnded(why="done", shortlist=(), seconds=1.0, at=AT),
        StudyEnded(why="done", at=AT),
    )
    return conclude(made.study, PLAN)


def test_a_base_that_does_not_fit_is_named() -> None:
    said = a_base_too_large()
    assert (row(said, BASE).status, "3.0 GiB exceeds" in row(said, BASE).why) == ("base", True)


def loud_noise(dropped: bool) -> Conclusion:
    loud = arm("loud")
    made = Made(loud).entered(loud).noise(1.0, 1.3)
    for number, (base, own) in enumerate([(1.0, 1.2), (1.25, 1.0), (1.0, 1.1), (1.2, 1.1)], 1):
        made.row(Purpose.SCREEN, number, {BASE: base, "loud": own})
    if dropped:
        made.dropped("loud", "no effect", "0 after 4 rows")
    plan = StudyPlan(rule=DecisionRule(cap=4, looks=(2, 4)))
    return conclude(made.add(StudyEnded(why="done", at=AT)).study, plan)


@pytest.mark.parametrize("dropped", [False, True])
def test_loud_noise_is_no_proof_of_no_effect(dropped: bool) -> None:
    said = loud_noise(dropped)
    told = row(said, "loud")
    assert "no effect" not in said.sentence
    assert told.status == "not decided"
    assert told.raced is not None
    assert told.raced.verdict is ArmVerdict.OPEN
    assert ("(no effect, 0 after 4 rows)" in told.why) is dropped


@pytest.mark.parametrize(
    ("cap", "end", "why"),
    [
        (2, "every arm is decided", "--cap"),
        (8, "the budget is spent", "the budget"),
    ],
)
def test_what_is_left_open_says_why_it_did_not_run_again(cap: int, end: str, why: str) -> None:
    loud = arm("loud")
    made = Made(loud).entered(loud).noise(1.0, 1.02)
    for number, (base, own) in enumerate([(1.0, 1.08), (1.03, 1.0)], 1):
        made.row(Purpose.SCREEN, number, {BASE: base, "loud": own})
    plan = StudyPlan(rule=DecisionRule(cap=cap, looks=(2,)))
    told = row(conclude(made.add(StudyEnded(why=end, at=AT)).study, plan), "loud")
    assert told.status == "not decided"
    assert why in told.why.rpartition("; ")[2]


def dropped_for_the_budget() -> Conclusion:
    arms = [arm(it) for it in "abc"]
    made = Made(*arms).entered(*arms).noise(1.0, 1.0005)
    for number in (1, 2):
        base = 1.0 + number / 5000
        made.row(Purpose.SCREEN, number, {BASE: base, "a": base, "b": base + 0.001})
    made.dropped("a", "no effect").dropped("b", "no budget").dropped("c", "no budget")
    return conclude(made.add(StudyEnded(why="the budget is spent", at=AT)).study, PLAN)


def test_who_ran_and_was_dropped_for_the_budget_is_counted_as_not_decided() -> None:
    said = dropped_for_the_budget()
    assert said.sentence.startswith("no effect: 1 of 2 settings")
    assert said.sentence.endswith("; 1 not decided: no budget; 1 not run")
    assert [it.rpartition(" ")[2] for it in said.notes if "the budget" in it] == ["c", "b"]


def one_never_ran() -> Conclusion:
    arms = [arm("a"), arm("never")]
    made = Made(*arms).entered(*arms).noise(1.0, 1.02)
    for number, (base, own) in enumerate([(1.0, 1.08), (1.03, 1.0)], 1):
        made.row(Purpose.SCREEN, number, {BASE: base, "a": own})
    plan = StudyPlan(rule=DecisionRule(cap=4, looks=(2,)))
    end = StudyEnded(why="the budget is spent", at=AT)
    return conclude(made.dropped("never", "no budget").add(end).study, plan)


def test_the_verdict_says_nothing_of_an_arm_that_never_ran() -> None:
    said = one_never_ran()
    assert said.sentence.startswith("inconclusive: ")
    assert said.sentence.endswith(" for 1 of 2 settings; 1 not decided; 1 not run")


def one_of_two_ran() -> Conclusion:
    arms = [arm("a"), arm("never")]
    made = Made(*arms).entered(*arms).noise(1.0, 1.0005)
    for number in (1, 2):
        made.row(Purpose.SCREEN, number, {BASE: 1.0, "a": 1.1})
    made.dropped("a", "slower").dropped("never", "no budget")
    return conclude(made.add(StudyEnded(why="the budget is spent", at=AT)).study, PLAN)


def test_no_setting_is_faster_only_of_those_that_ran() -> None:
    said = one_of_two_ran()
    assert said.winner is None
    assert re.search("; 1 slower .*; 1 not run$", said.sentence)


def test_no_prediction_is_better_than_the_base() -> None:
    made = Made(arm("a", predicted=predicted(-0.01)))
    said = conclude(made.study, PLAN)
    assert said.winner is None
    assert re.search(r"^1 candidate predicted, .* 0\.5% ", said.sentence)


def test_prediction_stands_beside_measurement() -> None:
    told = arm("a", predicted=predicted(0.05))
    said = concluded(Race(Made(told), PLAN, gains={"a": 0.03}))
    off = row(said, "a").prediction_off
    assert off is not None
    assert off == pytest.approx(0.97 / 0.95 - 1, abs=0.005)


def on_devices(device: str) -> Conclusion:
    a = arm("a", predicted=predicted(0.05))
    made = Made(a)
    first = made.records[0]
    assert isinstance(first, StudyBegan)
    made.records[0] = replace(first, target="8xH100")
    made.entered(a).opened()
    for number in (1, 2):
        for name in (BASE, "a"):
            told = replace(report(1.0 + number / 1000), devices=(device,))
            made.ran(name, told, Purpose.SCREEN, number)
    return conclude(made.study, PLAN)


@pytest.mark.parametrize(("device", "compared"), [("cpu", False), ("NVIDIA H100 80GB HBM3", True)])
def test_steps_on_other_devices_are_not_held_to_the_prediction(device: str, compared: bool) -> None:
    said = on_devices(device)
    assert (row(said, "a").prediction_off is not None) is compared
    assert any("cpu" in it and "8xH100" in it for it in said.notes) is not compared


def test_what_the_winner_is_made_of() -> None:
    both = arm("both", change("x"), change("y"))
    said = concluded(Race(Made(both), StudyPlan(ablate=True), gains={"x": 0.04}, noise=0.0005))
    loses = {it.dimension: it.loses for it in said.ablation}
    assert loses["x"] == pytest.approx(0.04, abs=0.003)
    assert loses["y"] == pytest.approx(0.0, abs=0.003)
    assert {it.basis for it in said.ablation} == {"measured"}
    assert all(it.low is not None and it.low <= it.loses for it in said.ablation)


def foretold(name: str, dimension: str) -> Ablated:
    return Ablated(
        arm=name,
        dimension=dimension,
        choice="on",
        loses=0.019,
        low=0.001,
        high=0.024,
        basis="predicted",
        at=AT,
    )


@pytest.mark.parametrize(("better", "left"), [("best", ["x"]), ("other", [])])
def test_what_was_foretold_of_a_loser_is_not_said_of_the_winner(
    better: str, left: list[str]
) -> None:
    best = arm("best", change("x"), change("z"), predicted=predicted(0.019))
    made = Made(best, arm("other", change("y"))).add(foretold("best", "x"))
    gains = {"best": {"x": 0.04}, "other": {"y": 0.04}}[better]
    said = concluded(Race(made, PLAN, gains=gains, noise=0.0005))
    assert said.winner is not None
    assert said.winner.name == better
    assert [it.dimension for it in said.ablation] == left


def test_a_prediction_says_what_its_best_arm_is_made_of() -> None:
    made = Made(arm("best", change("x"), predicted=predicted(0.019)), arm("other"))
    made.add(foretold("best", "x"), foretold("other", "y"))
    assert [it.arm for it in conclude(made.study, PLAN).ablation] == ["best"]


def told(
    *, remat: bool | None = None, peak: int | None = None, limit: int | None = None
) -> Conclusion:
    a = arm("a")
    made = Made(a).entered(a).noise()
    for number in (1, 2):
        made.ran(BASE, report(1.0, remat=False), Purpose.SCREEN, number)
        made.ran(
            "a",
            report(0.9 + number / 1000, remat=remat, peak=peak, limit=limit),
            Purpose.SCREEN,
            number,
        )
    return conclude(made.study, PLAN)


def test_recomputation_on_one_side_only_is_said() -> None:
    assert any("rematerializes" in it for it in told(remat=True).notes)
    assert not any("rematerializes" in it for it in told(remat=False).notes)


def test_memory_that_is_nearly_full_is_said() -> None:
    tight = told(remat=False, peak=98, limit=100)
    assert any("98%" in it for it in tight.notes)


def with_starts(of_base: Sequence[float], of_arm: Sequence[float]) -> Conclusion:
    """A win of 10% of an arm whose runs take so long beside their steps."""
    made = Made(arm("a")).entered(arm("a")).opened()
    for number, (base_s, arm_s) in enumerate(zip(of_base, of_arm, strict=True)):
        made.ran(BASE, report(1.0 + number / 900, start_s=base_s), Purpose.SCREEN, number)
        made.ran("a", report(0.9 + number / 900, start_s=arm_s), Purpose.SCREEN, number, 42.0)
    made.add(StudyEnded(why="every arm is decided", at=AT))
    return conclude(made.study, replace(PLAN, confirm_rows=0))


def test_a_winner_that_starts_later_says_from_which_step_on_it_gains() -> None:
    said = with_starts([3.0, 3.2, 3.1, 3.1], [13.0, 13.4, 13.1, 13.1])
    assert said.winner is not None
    (note,) = (it for it in said.notes if "beside its steps" in it)
    assert note == (
        "a run of a takes 10.0 s longer beside its steps (start, compile, warm-up: 13.1 s, the base"
        " 3.1 s): the gain is nothing before step 100"
    )
    of_arm = next(row for row in said.rows if row.arm.name == "a")
    assert (of_arm.start_s, of_arm.trial_s) == (pytest.approx(13.1), 42.0)


@pytest.mark.parametrize("of_arm", [[3.1] * 4, [3.5] * 4, [13.0, 3.1, 13.0, 13.0]])
def test_a_start_as_long_as_the_base_s_is_not_worth_a_note(of_arm: list[float]) -> None:
    said = with_starts([3.0, 3.2, 3.1, 3.1], of_arm)
    assert said.winner is not None
    assert not any("beside its steps" in it for it in said.notes)


def test_losses_that_nobody_prints_are_said() -> None:
    assert any("prints no losses" in it for it in told().notes)


def test_arms_that_the_budget_left_out_are_said() -> None:
    race = Race(Made(*map(arm, "abcdef")), StudyPlan(budget=Budget(trials=18)))
    said = concluded(race)
    assert any("the budget" in it for it in said.notes)


def test_a_study_of_which_nothing_is_known_says_so() -> None:
    made = Made(shortlist=False)
    assert conclude(made.study, PLAN).sentence.startswith("nothing is known")
    begun = Made(arm("a")).entered(arm("a")).opened()
    assert conclude(begun.study, PLAN).sentence.startswith("nothing is measured")


def a_search_that_goes_on() -> Conclusion:
    seen = {"a": predicted(0.006), "b": predicted(0.11), "c": predicted(0.2, fits=False)}
    arms = [arm(name, predicted=it) for name, it in seen.items()]
    made = Made(shortlist=False).add(*(CandidateSeen(arm=it, at=AT) for it in arms))
    return conclude(made.study, PLAN)


def test_a_search_that_is_not_over_names_the_best_so_far() -> None:
    said = a_search_that_goes_on()
    assert "3 candidates examined" in said.sentence
    assert said.winner is not None
    assert said.winner.name == "b"
    assert said.gain == 0.11


@pytest.mark.system
def test_it_can_be_concluded_at_any_time() -> None:
    race = Race(Made(*map(arm, "abc")), StudyPlan(ablate=True), gains={"a": 0.02, "b": 0.03})
    race.run()
    for at in range(1, len(race.made.records) + 1):
        part = Made(shortlist=False)
        part.records = race.made.records[:at]
        assert conclude(part.study, race.plan).sentence


def test_an_arm_by_hand_is_called_what_its_user_calls_it() -> None:
    by_hand = arm("MODE=fast", change("MODE", "fast"), origin=ArmOrigin.HAND)
    made = Made(by_hand).entered(by_hand).noise(1.0, 1.0005)
    for number in (1, 2):
        made.row(Purpose.SCREEN, number, {BASE: 1.0 + number / 5000, "MODE=fast": 0.96})
    assert "from MODE=fast (" in conclude(made.study, PLAN).sentence


def test_settings_by_hand_are_named_by_their_name() -> None:
    by_hand = Arm(name="mine", settings=change("x").settings)
    made = Made(by_hand).entered(by_hand).noise(1.0, 1.0005)
    for number in (1, 2):
        made.row(Purpose.SCREEN, number, {BASE: 1.0 + number / 5000, "mine": 0.96})
    assert "from mine (" in conclude(made.study, PLAN).sentence
    assert BASE_ARM.is_base


def test_an_arm_that_is_out_keeps_the_figures_with_which_it_went() -> None:
    race = Race(Made(*map(arm, "abc")), PLAN, gains={"a": -0.03, "b": 0.01}, noise=0.002, seed=2)
    said = concluded(race)
    drops = {it.arm: it for it in race.moves if isinstance(it, Drop)}
    assert drops["a"].kind == "slower"
    for name, drop in drops.items():
        raced = row(said, name).raced
        assert raced is not None
        assert drop.why.startswith(f"{estimate_text(raced)} after {raced.rows} rows")


def test_a_budget_that_was_too_small_says_which_would_do() -> None:
    plan = StudyPlan(budget=Budget(trials=14))
    race = Race(Made(arm("a")), replace(plan, confirm_rows=0), gains={"a": 0.02}, noise=0.012)
    race.made.entered(arm("a")).noise(1.0, 1.01)
    for number, (base, own) in enumerate([(1.0, 0.97), (1.0, 0.99)], 1):
        race.made.row(Purpose.SCREEN, number, {BASE: base, "a": own})
    race.made.add(StudyEnded(why="the budget is spent", at=AT))
    study = race.study
    told = conclude(study, plan).sentence
    assert re.search(r"about 7 fresh rows .* --confirm-rows 7 --budget '\d+ trials'", told)


def test_of_arms_that_save_as_much_the_simplest_wins() -> None:
    many = arm("many", change("a", "on"), change("b", "on"))
    one = arm("one", change("c", "on"))
    made = Made(many, one).entered(many, one).noise()
    for row in range(1, 7):
        drift = 1e-4 * (row % 2)
        made.row(Purpose.RACE, row, {BASE: 1.0 + drift, "many": 0.9001, "one": 0.9004})
    made.closed().opened()
    for row in range(7, 11):
        drift = 2e-4 * (row % 2)
        made.row(Purpose.CONFIRM, row, {BASE: 1.0 + drift, "many": 0.9001, "one": 0.9003})
    told = conclude(made.closed().add(StudyEnded(why="decided", at=AT)).study, PLAN)
    assert told.winner is not None
    assert told.winner.name == "one"
    assert told.gain == pytest.approx(0.0998, abs=0.001)


def test_of_tied_predictions_the_simplest_is_named() -> None:
    many = arm("many", change("a", "on"), change("b", "on"), predicted=predicted(0.031, tied=True))
    one = arm("one", change("c", "on"), predicted=predicted(0.030, tied=True))
    made = Made(shortlist=False).add(
        *(CandidateSeen(arm=it, at=AT) for it in (many, one)),
        SearchEnded(why="done", shortlist=("many", "one"), seconds=1.0, at=AT),
    )
    told = conclude(made.study, PLAN)
    assert told.winner is not None
    assert told.winner.name == "one"
    assert told.gain == pytest.approx(0.030)


def test_how_conclusions_read(golden: Golden) -> None:
    cases: dict[str, Conclusion] = {
        "a win": a_win(),
        "no effect": no_effect(),
        "the same program": the_same_program(),
        "failures": failures(),
        "a base that fails": a_base_that_fails(),
        "a base that fails at last": a_base_that_fails_at_last(),
        "an arm that fails at last": an_arm_that_fails_at_last(),
        "without confirmation": without_confirmation(),
        "without room for a confirmation": without_room(),
        "luck": luck(),
        "half a confirmation": half_a_confirmation(),
        "undecided": undecided(),
        "predictions alone": predictions_alone(),
        "tied predictions": tied_predictions(),
        "never predicted": never_predicted(),
        "a base too large": a_base_too_large(),
        "loud noise": loud_noise(dropped=True),
        "dropped for the budget": dropped_for_the_budget(),
        "one never ran": one_never_ran(),
        "one of two ran": one_of_two_ran(),
        "a search that goes on": a_search_that_goes_on(),
        "on another device": on_devices("cpu"),
        "remat on one side": told(remat=True),
        "memory nearly full": told(remat=False, peak=98, limit=100),
    }
    golden("conclusions.txt", "\n".join(f"## {it}\n{written(cases[it])}" for it in cases))


def written(said: Conclusion) -> str:
    """All of a conclusion that people read."""
    rows = [f"{it.arm.name}: {it.status}{it.why and f'; {it.why}'}" for it in said.rows]
    return "".join(
        f"{line}\n" for line in (said.sentence, *rows, *(f"- {it}" for it in said.notes))
    )


def with_losses(off: float, tolerance: float | None = None) -> Conclusion:
    """A win of an arm whose losses are off by this share."""
    made = Made(arm("a")).entered(arm("a")).opened()
    for number in range(4):
        losses = [3.0 - 0.01 * at for at in range(30)]
        made.ran(BASE, report(1.0 + number / 900, losses=losses), Purpose.SCREEN, number)
        told = report(0.9, losses=[it * (1 + off) for it in losses])
        made.ran("a", told, Purpose.SCREEN, number)
    made.add(StudyEnded(why="every arm is decided", at=AT))
    return conclude(made.study, replace(PLAN, confirm_rows=0, loss_tolerance=tolerance))


@pytest.mark.parametrize(
    ("off", "tolerance", "note"),
    [
        (
            0.0004,
            None,
            (
                "the losses of a are up to 0.04% off the base's; 0.1% is allowed: the base's own"
                " runs agree to the last digit, and rounding in another order may do this much"
            ),
        ),
        (0.009, 0.02, "are up to 0.9% off the base's; 2.0% is allowed: by --loss-tolerance"),
        (0.0, None, "the losses of a are those of the base to the last digit; 0.1% is allowed"),
    ],
)
def test_the_tolerance_of_losses_is_always_stated(
    off: float, tolerance: float | None, note: str
) -> None:
    said = with_losses(off, tolerance)
    assert said.winner is not None
    assert any(note in it for it in said.notes), said.notes
