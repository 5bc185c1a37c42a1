"""Whole studies, as a user's script asks for them."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from counterpoint.core.basis import Unknown
from counterpoint.core.errors import CounterpointError, UsageError
from counterpoint.flags.settings import Settings
from counterpoint.hardware.targets import parse_target
from counterpoint.report.terminal import plain_text
from counterpoint.report.tune.tune_document import tune_document
from counterpoint.report.tune.tune_json import tune_json
from counterpoint.tune.conclusion.conclude import conclude
from counterpoint.tune.conclusion.conclusion import Conclusion
from counterpoint.tune.executors.executor import ProcessShape, TrialLimits
from counterpoint.tune.first_record import first_record
from counterpoint.tune.named_arms import list_arms
from counterpoint.tune.plan import Budget, StudyPlan
from counterpoint.tune.request import TuneRequest, check
from counterpoint.tune.session import conclusion_of, dry_run, tune
from counterpoint.tune.statistics.estimate import ArmVerdict, DecisionRule
from counterpoint.tune.study.directory import open_study, read_study
from counterpoint.workflow.prediction import PredictionOptions
from tune_programs import program
from xla_compiler import why_none

PLAN = StudyPlan(
    rule=DecisionRule(cap=2, looks=(2,)),
    confirm_rows=2,
    limits=TrialLimits(timeout_s=300.0, hang_after_s=120.0),
)


PLANTED = ("env:SAVES=0.2", "env:OTHER=name")


@dataclass(frozen=True)
class Found:
    """What a study concluded in a directory, and what it said meanwhile."""

    directory: Path
    conclusion: Conclusion
    said: list[str]


def asked(directory: Path, *arms: str, plan: StudyPlan = PLAN) -> TuneRequest:
    return TuneRequest(
        command=program(directory),
        directory=directory / "study",
        arms=arms,
        plan=plan,
        executor="local",
    )


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Found:
    """A study that is done, of a setting that helps and of one that does nothing."""
    directory, said = tmp_path_factory.mktemp("found"), list[str]()
    return Found(directory, tune(asked(directory, *PLANTED), said.append), said)


@pytest.mark.smoke
@pytest.mark.system
def test_a_planted_gain_is_found_and_a_copy_of_the_base_is_none(found: Found) -> None:
    made = found.conclusion
    assert (made.state, made.verdict, made.confirmed) == ("done", ArmVerdict.FASTER, True)
    assert made.winner is not None
    assert dict(made.winner.settings.env) == {"SAVES": "0.2"}
    assert made.gain == pytest.approx(0.2, abs=0.01)
    assert {it.arm.name: it.status for it in made.rows}["env:OTHER=name"] == "no effect"
    assert found.said
    assert conclusion_of(found.directory / "study") == made


@pytest.mark.system
def test_a_trial_that_a_busy_machine_kept_from_being_timed_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BLIND", "3")  # the arm's first run, or the base's second row
    said: list[str] = []
    plan = replace(PLAN, budget=Budget(trials=6), confirm_rows=0)
    made = tune(asked(tmp_path, "env:SAVES=0.2", plan=plan), said.append)
    assert (made.state, made.verdict) == ("done", ArmVerdict.FASTER)
    assert made.spent is not None
    assert (made.spent.trials, made.spent.trials_left) == (7, 0)
    assert any("trial 3 could not be timed (no steps)" in line for line in said)
    assert any("1 trial could not be timed (no steps)" in note for note in made.notes)


@pytest.mark.system
def test_a_study_that_is_done_says_the_same_again_and_runs_nothing(found: Found) -> None:
    ran = len(read_study(found.directory / "study").trials)
    assert tune(asked(found.directory, *PLANTED)) == found.conclusion
    assert len(read_study(found.directory / "study").trials) == ran


@pytest.mark.system
def test_a_program_that_was_edited_meanwhile_is_said(found: Found) -> None:
    study = asked(found.directory, *PLANTED)
    (script,) = (Path(it) for it in study.command if it.endswith(".py"))
    script.write_text(script.read_text() + "# another\n")
    said: list[str] = []
    again = tune(study, said.append)
    assert [*found.conclusion.notes] == [*again.notes[1:]]
    assert str(script) in again.notes[0]
    assert said[0] == again.notes[0]


@pytest.mark.system
def test_a_study_goes_on_where_it_was_stopped_and_with_a_larger_budget(tmp_path: Path) -> None:
    place, rule = tmp_path / "study", DecisionRule(cap=6, looks=(2, 4, 6))
    small = replace(PLAN, budget=Budget(trials=6), rule=rule, confirm_rows=0)

    def enough() -> bool:
        return place.exists() and len(read_study(place).trials) > 2

    stopped = tune(asked(tmp_path, "env:SAVES=0.2", plan=small), stopped=enough)
    first = read_study(place)
    assert stopped.state == "interrupted"
    assert first.paused is not None
    assert first.ended is None
    assert not first.running
    assert not first.open_allocations
    ended = tune(asked(tmp_path, "env:SAVES=0.2", plan=small))
    assert read_study(place).trials[: len(first.trials)] == first.trials
    assert ended.spent is not None
    assert ended.spent.trials <= 7  # the one that was interrupted counts twice
    assert not ended.confirmed
    more = tune(
        asked(tmp_path, "env:SAVES=0.2", plan=replace(PLAN, budget=Budget(trials=40), rule=rule))
    )
    assert more.confirmed
    assert more.spent is not None
    assert more.spent.trials > ended.spent.trials


def test_where_nothing_is_named_and_no_gpu_is_here_the_user_is_told_what_to_name(
    tmp_path: Path,
) -> None:
    nothing = replace(asked(tmp_path), environment={"PATH": "/nowhere"})
    with pytest.raises(UsageError, match="nothing to try") as refused:
        tune(nothing)
    assert "--arm" in str(refused.value)
    assert not (tmp_path / "study").exists()


def test_an_arm_that_is_the_base_already_is_nothing_to_try(tmp_path: Path) -> None:
    from counterpoint.flags.settings import Settings

    same = replace(asked(tmp_path, "env:SAVES=0.2"), base=Settings(env=(("SAVES", "0.2"),)))
    with pytest.raises(UsageError, match="nothing to try"):
        tune(same)
    assert not (tmp_path / "study").exists()


def test_a_budget_for_nothing_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--budget 3 trials is too small"):
        tune(asked(tmp_path, "env:SAVES=0.2", plan=replace(PLAN, budget=Budget(trials=3))))
    assert not (tmp_path / "study").exists()


def test_a_dry_run_tells_what_it_would_cost_and_leaves_nothing(tmp_path: Path) -> None:
    plan = replace(PLAN, budget=Budget(trials=20))
    told = dry_run(asked(tmp_path, "env:SAVES=0.2", "env:OTHER=name", plan=plan))
    assert [it.name for it in told.arms] == ["env:SAVES=0.2", "env:OTHER=name"]
    assert told.cost is not None
    assert 0 < told.cost.expected_trials <= told.cost.most_trials <= 20
    assert isinstance(told.node_hours, Unknown)
    assert not (tmp_path / "study").exists()


def test_what_can_t_be_lowered_says_what_to_give_to_tune(tmp_path: Path) -> None:
    if reason := why_none():
        pytest.skip(reason)
    for workload in ("none.mlir", "none.py:make_step"):
        nothing = TuneRequest(
            workload=str(tmp_path / workload),
            directory=tmp_path / "study",
            target=parse_target("8xH100"),
            measure=False,
        )
        with pytest.raises(CounterpointError, match="no such file") as refused:
            tune(nothing)
        assert str(refused.value.next).startswith("counterpoint tune --predict ")
        assert not nothing.directory.exists()


def test_a_flag_that_does_not_exist_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--arm --xla_gpu_nonsense=1: jaxlib .* does not know"):
        tune(asked(tmp_path, "--xla_gpu_nonsense=1"))
    assert not (tmp_path / "study").exists()


def test_another_study_of_the_same_name_says_what_of_it_is_another(tmp_path: Path) -> None:
    space = tmp_path / "space.toml"
    space.write_text("only = []")
    first = first_record(asked(tmp_path, "env:SAVES=0.2"), "local", tmp_path)
    longer = replace(
        PLAN, limits=TrialLimits(steps=30), shape=ProcessShape(nodes=2), space_file=space
    )
    for other, parts in (
        (asked(tmp_path, "env:SAVES=0.3"), {"--arm"}),
        (replace(asked(tmp_path, "env:SAVES=0.2"), program="step"), {"--program"}),
        (asked(tmp_path, "env:SAVES=0.2", plan=longer), {"--steps", "--nodes", "--space"}),
        (
            replace(
                asked(tmp_path, "env:SAVES=0.2"), prediction=PredictionOptions(schedule_only=True)
            ),
            {"--schedule-only"},
        ),
    ):
        second = first_record(other, "local", tmp_path)
        assert second.question != first.question
        told = [name for name, it in second.parts if dict(first.parts)[name] != it]
        assert len(told) == len(parts)
        assert all(any(part in it for it in told) for part in parts)


def test_an_arm_and_a_choice_that_come_to_the_same_are_one(tmp_path: Path) -> None:
    space = tmp_path / "space.toml"
    space.write_text(
        'only = []\n[dimension.x]\nchoices = { on = "env:SAVES=0.2", off = "env:SAVES=0" }'
    )
    told = dry_run(asked(tmp_path, "env:SAVES=0.2", plan=replace(PLAN, space_file=space)))
    assert [it.name for it in told.arms] == ["env:SAVES=0.2", "x off"]


def test_an_arm_that_was_named_and_takes_no_part_is_in_the_report_with_why(tmp_path: Path) -> None:
    study = asked(
        tmp_path, "env:SAVES=0.2", "env:OTHER=name", "env:SAVES=0.2 env:SAVES=0.2", "env:ZERO=0"
    )
    study = replace(study, base=Settings(env=(("ZERO", "0"),)))
    with open_study(study.directory, first_record(study, "local", tmp_path)) as ledger:
        list_arms(study, ledger)
        made = conclude(ledger.study, PLAN)
    told = {
        "env:SAVES=0.2 env:SAVES=0.2": "equivalent to env:SAVES=0.2",
        "env:ZERO=0": "it changes nothing: the base has it already",
    }
    assert {it.name: it.why for it in made.left_out} == told
    text = plain_text(tune_document(made, study.directory, 20, ""))
    assert "2 named arms" in " ".join(text.split())
    assert all(f"{name}: {why}" in text for name, why in told.items())
    data = json.loads(tune_json(made, study.directory))
    assert {it["name"]: it["why"] for it in data["left_out"]} == told


def test_a_prediction_needs_a_target_and_a_measurement_a_command(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="a prediction requires --target"):
        tune(TuneRequest(workload="step.py:make", directory=tmp_path / "study", measure=False))
    with pytest.raises(UsageError, match="not run"):
        tune(
            TuneRequest(
                workload="step.py:make",
                directory=tmp_path / "study",
                target=parse_target("8xH100"),
            )
        )
    with pytest.raises(UsageError, match="nothing to tune"):
        tune(TuneRequest(directory=tmp_path / "study"))


@pytest.mark.parametrize(
    ("executor", "address", "refused"),
    [(None, None, True), ("local", "http://h:1", True), ("ray", None, False), (None, "h", False)],
)
def test_flags_are_asked_of_the_python_here_unless_nodes_have_their_own(
    tmp_path: Path, executor: str | None, address: str | None, refused: bool
) -> None:
    pytest.importorskip("jaxlib")
    environment = {"PATH": os.environ["PATH"], "XLA_FLAGS": "--xla_zzz=1"}
    environment |= {"RAY_ADDRESS": address} if address else {}
    one = replace(asked(tmp_path, "env:OTHER=name"), executor=executor, environment=environment)
    if refused:
        with pytest.raises(UsageError, match="xla_zzz"):
            check(one)
    else:
        check(one)
