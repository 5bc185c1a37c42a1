"""The plan of a study, as a page and as JSON, before anything runs."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

from counterpoint.core.basis import Unknown
from counterpoint.report.terminal import plain_text
from counterpoint.report.tune.dry_run import dry_run_document
from counterpoint.report.tune.tune_json import dry_run_json
from counterpoint.tune.arm import Acts, ArmChange, ArmOrigin
from counterpoint.tune.plan import Budget
from counterpoint.tune.race.budget import StudyCost
from counterpoint.tune.session import DryRun
from tune_conclusions import arm
from tune_plans import PLAN, SPACE

GOLDEN = Path(__file__).parent / "golden"


def text_of(plan: DryRun, top: int = 20) -> str:
    return plain_text(dry_run_document(plan, top, "counterpoint tune"))


def test_the_text(tmp_path: Path) -> None:
    """The golden text is read by people: when it changes on purpose, take the new one."""
    text = text_of(PLAN)
    (tmp_path / "tune_dry_run.txt").write_text(text)
    assert text == (GOLDEN / "tune_dry_run.txt").read_text(), f"the new text is in {tmp_path}"


def test_what_is_not_known_is_not_made_up() -> None:
    cost = StudyCost(expected_trials=31, most_trials=60)
    text = text_of(replace(PLAN, cost=cost, trial_s=Unknown("it is known when the base ran")))
    assert "time       ?: it is known when the base ran" in text
    assert "node hours" not in text
    assert "31 trials expected, 60 at most" in text


def test_an_arm_that_sets_nothing_says_what_it_changes() -> None:
    per = ArmChange(dimension="processes", choice="one per GPU", acts=Acts.RUNTIME, per="gpu")
    mine = arm("one-process-per-gpu", per, origin=ArmOrigin.RECIPE)
    assert re.search(
        r"one-process-per-gpu +recipe +a process per gpu", text_of(replace(PLAN, arms=(mine,)))
    )


def test_a_prediction_alone_runs_nothing_and_a_race_alone_compiles_nothing() -> None:
    alone = text_of(replace(PLAN, executor=None, cost=None))
    assert alone.startswith("Plan   python train.py: predicted\n")
    assert "trials" not in alone.partition("Dimensions")[0]
    race = text_of(replace(PLAN, target=None, base_step_s=None))
    assert race.startswith("Plan   python train.py: run in turns\n")
    assert "compile" not in race


def test_the_base_is_printed_and_no_reason_is_left_empty() -> None:
    text = text_of(PLAN)
    assert (
        'Base   your settings, complete; predicted step 131.0 ms\n  export XLA_FLAGS="--x' in text
    )
    bare = replace(SPACE.dimensions[0], why="", source="")
    assert "named by you" in text_of(replace(PLAN, space=replace(SPACE, dimensions=(bare,))))


def test_long_lists_are_cut_and_say_so() -> None:
    text = text_of(PLAN, top=1)
    assert "and 1 more: `top=2`, or `json=`" in text
    assert "only the run can tell" not in text


def test_the_json_is_uncut_and_told_in_the_reference() -> None:
    data = json.loads(dry_run_json(PLAN, Budget()))
    assert data["schema"] == "counterpoint.tune-plan/1"
    assert data["node_hours"] == 3720.0 * 2 / 3600
    assert [it["name"] for it in data["dimensions"]] == ["all-gather threshold", "NVLS"]
    assert data["arms"][0]["name"] == "fsdp"
    page = (Path(__file__).parents[2] / "docs/reference/tune-json.md").read_text()
    named = set(re.findall(r"`(\w+)`", page))
    inner = {*data["cost"], *data["dimensions"][0], *data["left_out"][0]}
    assert {*data, *inner} <= named


def test_a_budget_is_shown_as_it_was_understood() -> None:
    budget = Budget(trials=20, seconds=7200.0)
    text = " ".join(plain_text(dry_run_document(PLAN, 20, "x", budget)).split())
    assert "at most 20 trials, and 2 h 00 min of trials; it has no room for 2 arms" in text
    told = json.loads(dry_run_json(PLAN, budget))["budget"]
    assert told == {"trials": 20, "seconds": 7200.0}
    assert json.loads(dry_run_json(PLAN, Budget()))["budget"] == {"trials": None, "seconds": None}
