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
from counterpoint.tune.dryrun import DryRun
from counterpoint.tune.plan import Budget
from counterpoint.tune.race.budget import StudyCost
from golden_files import Golden, cases
from tune_conclusions import arm
from tune_plans import PLAN, SPACE


def text_of(plan: DryRun, top: int = 20) -> str:
    return plain_text(dry_run_document(plan, top, "counterpoint tune"))


NO_COST = replace(
    PLAN,
    cost=StudyCost(expected_trials=31, most_trials=60),
    trial_s=Unknown("it is known when the base ran"),
)
PREDICTED_ALONE = replace(PLAN, executor=None, cost=None)
RACED_ALONE = replace(PLAN, target=None, base_step_s=None)
BUDGET = Budget(trials=20, seconds=7200.0)


def test_the_text(golden: Golden) -> None:
    golden("tune_dry_run.txt", text_of(PLAN))


def test_the_text_of_other_plans(golden: Golden) -> None:
    per = ArmChange(dimension="processes", choice="one per GPU", acts=Acts.RUNTIME, per="gpu")
    mine = arm("one-process-per-gpu", per, origin=ArmOrigin.RECIPE)
    no_reason = replace(PLAN.space.dimensions[0], why="", source="")
    with_budget = plain_text(dry_run_document(PLAN, 20, "x", BUDGET))

    def head(text: str) -> str:
        return text.partition("\nDimensions")[0]

    def choices(text: str) -> str:
        return text.partition("\nDimensions")[2].partition("\nLeft out")[0]

    golden(
        "tune_dry_run_others.txt",
        cases(
            {
                "the cost is not known": head(text_of(NO_COST)),
                "predicted alone": head(text_of(PREDICTED_ALONE)),
                "raced alone": head(text_of(RACED_ALONE)),
                "a budget": head(with_budget),
                "an arm that sets nothing": choices(text_of(replace(PLAN, arms=(mine,)))),
                "a dimension without a reason": choices(
                    text_of(replace(PLAN, space=replace(SPACE, dimensions=(no_reason,))))
                ),
                "long lists": choices(text_of(PLAN, top=1)),
            }
        ),
    )


def test_what_is_not_known_is_not_made_up() -> None:
    text = text_of(NO_COST)
    assert re.search(r"^ *time +\?", text, re.MULTILINE)
    assert "node hours" not in text
    assert {"31", "60"} <= set(text.split())


def test_a_prediction_alone_runs_nothing_and_a_race_alone_compiles_nothing() -> None:
    assert "trials" not in text_of(PREDICTED_ALONE).partition("Dimensions")[0]
    race = text_of(RACED_ALONE)
    assert "compile" not in race
    assert "predicted" not in race


def test_long_lists_are_cut_and_say_so() -> None:
    text = text_of(PLAN, top=1)
    assert "--top 2" in text
    assert "NVLS" not in text


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
    text = " ".join(plain_text(dry_run_document(PLAN, 20, "x", BUDGET)).split())
    assert "20 trials" in text
    assert "2 h 00 min" in text
    told = json.loads(dry_run_json(PLAN, BUDGET))["budget"]
    assert told == {"trials": 20, "seconds": 7200.0}
    assert json.loads(dry_run_json(PLAN, Budget()))["budget"] == {"trials": None, "seconds": None}
