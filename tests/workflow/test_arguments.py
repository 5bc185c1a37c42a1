"""What is given to `predict` in Python is checked before anything is read or compiled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from counterpoint.core.errors import UsageError
from counterpoint.workflow.prediction.prediction import predict, read_question


@pytest.mark.parametrize(
    ("workload", "asked_for", "told"),
    [
        ("ir", {"target": 8}, "target=8 names no GPUs"),
        (3, {}, "3 is not a workload"),
        (print, {}, "a function is not a workload"),
        ("ir", {"question": "fsdp"}, "is not a PredictionOptions"),
        ("ir", {"candidates": "fsdp"}, r"next: candidates=\['fsdp'\]"),
        ("ir", {"candidates": [3]}, "3 is int, not str or Variant"),
        ("ir", {"what_if": "nic=2x"}, r"next: what_if=\['nic=2x'\]"),
        ("ir", {"candidate": ["fsdp"]}, "next: candidates"),
        ("ir", {"jobs": "2"}, "'2' is str, not int"),
        ("ir", {"jobs": True}, "True is bool, not int"),
        ("ir", {"settings": None}, "None is NoneType, not Settings"),
    ],
    ids=[
        "target",
        "workload",
        "function",
        "question",
        "one candidate",
        "a number as candidate",
        "one what-if",
        "unknown name",
        "jobs",
        "truth",
        "no settings",
    ],
)
def test_what_is_no_such_argument_is_refused(
    workload: object, asked_for: dict[str, object], told: str
) -> None:
    given: dict[str, Any] = {"workload": workload, "target": "8xH100", **asked_for}
    with pytest.raises(UsageError, match=told):
        predict(**given)


def test_paths_may_be_given_as_text() -> None:
    question = read_question(None, {"nccl_table": ["a.log"], "gemm_table": "b.csv", "jobs": None})

    assert question.nccl_table == (Path("a.log"),)
    assert (question.gemm_table, question.jobs) == (Path("b.csv"), None)


def test_what_may_be_an_address_stays_text() -> None:
    question = read_question(None, {"profile": Path("costs.pb"), "against": "gs://runs/train"})

    assert (question.profile, question.against) == ("costs.pb", "gs://runs/train")
