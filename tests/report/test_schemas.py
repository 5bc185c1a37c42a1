"""What commands really print, and what they leave on disk, is what the committed schemas say."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec
import pytest
from jsonschema import ValidationError

import timelines
import tune_conclusions
from counterpoint.cli.app import main
from counterpoint.core.basis import Basis, Range, Unknown
from counterpoint.diagnose.explanation import explain
from counterpoint.flags.settings import Settings
from counterpoint.report.explain.explain_json import Explain, explain_json
from counterpoint.report.json import At, ReasonUnknown, Result, fill
from counterpoint.report.tune.tune_json import tune_json
from counterpoint.tune.study.journal import Journal
from counterpoint.tune.study.records import FORMAT, StudyBegan
from json_schemas import results
from json_schemas_checked import SCHEMAS, name_of, validator

PROFILE = """
costs { name: "fusion.1" cost_us: 12.5 }
costs { name: "all-gather.2" cost_us: 250.0 }
"""


def printed(words: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    main([*words, "--json"])
    return json.loads(capsys.readouterr().out)


@pytest.mark.system
def test_there_is_a_schema_for_each_result_and_each_is_sound() -> None:
    names = {path.stem for path in SCHEMAS.glob("*.json")}
    assert names == {*results(), "run", "rank", "journal"}
    for name in names:
        validator(name)


@pytest.mark.parametrize(
    "words",
    [
        ["flags", "list", "--grep", "autotune"],
        ["flags", "list", "--changed-since", "0.6.0"],
        ["flags", "show", "xla_gpu_autotune_level=7"],
        ["flags", "show", "NCCL_ALGO"],
        ["flags", "show", "xla_gpu_enable_async_all_reduce"],
        ["flags", "diff", "0.4.38", "0.8.0"],
        ["flags", "check", "XLA_FLAGS=--xla_gpu_autotune_leve=4 --xla_nothing", "--no-probe"],
        ["flags", "check", "XLA_FLAGS=--xla_gpu_autotune_level", "--fix", "--no-probe"],
        ["flags", "render", "NCCL_ALGO=Ring", "--as", "bash"],
        ["flags", "recommend", "--for", "fsdp", "--target", "8xH100"],
        ["flags", "thresholds", "--params", "218e6", "--layers", "32", "--target", "8xH100"],
        ["doctor"],
    ],
    ids=lambda words: " ".join(words[:3]),
)
def test_a_command_prints_what_its_schema_says(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    data = printed(words, capsys)
    validator(name_of(data["schema"])).validate(data)


@pytest.mark.parametrize("command", [["show"], ["diff"]], ids=lambda it: it[0])
def test_commands_on_profiles_do(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    profile = tmp_path / "costs.pbtxt"
    profile.write_text(PROFILE)
    files = [str(profile)] * (2 if command == ["diff"] else 1)
    data = printed(["pgle", *command, *files], capsys)
    validator(name_of(data["schema"])).validate(data)


def test_a_run_is_what_three_schemas_say(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "made"
    main(["run", "-o", str(path), "--no-profile", "--", "true"])
    validator("run").validate(json.loads((path / "run.json").read_text()))
    validator("rank").validate(json.loads((path / "rank0" / "rank.json").read_text()))
    capsys.readouterr()
    validator("runs").validate(printed(["runs", str(tmp_path)], capsys))


def test_a_line_of_a_journal_is_what_its_schema_says(tmp_path: Path) -> None:
    first = StudyBegan(
        format=FORMAT,
        version="0.1.0",
        question="q",
        workload="python train.py",
        command=("python", "train.py"),
        target=None,
        executor="local",
        base=Settings((("xla_gpu_autotune_level", "4"),)),
        options=(),
        at="2026-01-01T00:00:00+00:00",
    )
    Journal.create(tmp_path / "journal.jsonl", first).close()
    (line,) = map(json.loads, (tmp_path / "journal.jsonl").read_text().splitlines())
    validator("journal").validate(line)
    del line["says"]["workload"]
    with pytest.raises(ValidationError):
        validator("journal").validate(line)


def test_explain_and_tune_print_what_their_schemas_say() -> None:
    for name, text in {
        "explain": explain_json(explain(timelines.two_devices())),
        "tune": tune_json(tune_conclusions.found(), Path("study")),
    }.items():
        validator(name).validate(json.loads(text))


@pytest.mark.parametrize("wrong", [{"step": "7"}, {"truncated": None}, {"more": 1}, {"ops": [{}]}])
def test_what_is_something_else_is_refused(wrong: dict[str, Any]) -> None:
    data = json.loads(explain_json(explain(timelines.two_devices())))
    with pytest.raises(ValidationError):
        validator("explain").validate({**data, **wrong})


class Figure(Result):
    """Of each kind of source one."""

    step_ms: float | None
    range_ms: tuple[float, float] | None
    why_not: Annotated[str | None, ReasonUnknown("step_s")]
    host: Annotated[str | None, At("machine.name")]


class Found:
    """What a command may find."""

    step_s: float | Unknown = 0.0123456789
    range_s = Range(0.01, 0.02)
    machine = None


def test_seconds_become_milliseconds_and_what_is_unknown_null_with_its_reason() -> None:
    known, unknown = Found(), Found()
    unknown.step_s = Unknown("no step was seen")
    assert msgspec.to_builtins(fill(Figure, known)) == {
        "step_ms": 12.345679,
        "range_ms": (10.0, 20.0),
        "why_not": None,
        "host": None,
    }
    assert fill(Figure, unknown).step_ms is None
    assert fill(Figure, unknown).why_not == "no step was seen"


@dataclass(frozen=True, slots=True)
class Span:
    """What is given as it was found."""

    link: Basis
    length_ms: float
    labels: Mapping[str, str | None]


class Spans(Result):
    """A dataclass in a Result, and a Result in another."""

    spans: tuple[Span, ...]
    named: tuple[Figure, ...]


def test_a_dataclass_is_given_in_full_and_a_tuple_fills_a_result_in_order() -> None:
    span = Span(Basis.MEASURED, float("nan"), {"a": None})
    spans = fill(Spans, None, spans=[span], named=[(1.5, (1.0, 2.0), None, "a")])
    assert msgspec.to_builtins(spans) == {
        "spans": ({"link": "measured", "length_ms": None, "labels": {"a": None}},),
        "named": ({"step_ms": 1.5, "range_ms": (1.0, 2.0), "why_not": None, "host": "a"},),
    }


def test_a_field_that_a_result_has_not_is_no_slip_of_the_pen() -> None:
    with pytest.raises(TypeError, match="stepp"):
        fill(Explain, None, stepp=1)
