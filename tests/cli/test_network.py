"""`counterpoint network`: measured and predicted, as text and JSON, and bad input."""

from __future__ import annotations

import contextlib
import io
import json
from dataclasses import dataclass
from pathlib import Path

import pytest

import timelines
from counterpoint.cli.app import main
from counterpoint.cost.build import build_model
from counterpoint.hardware import parse_target
from counterpoint.hlo import read_program
from counterpoint.simulate import simulate


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return timelines.two_devices().to_parquet(tmp_path_factory.mktemp("made") / "step.parquet")


@pytest.fixture(scope="module")
def predicted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `predict --target 2x1xH100:400G -o` keeps."""
    target = parse_target("2x1xH100:400G")
    made = simulate(
        read_program(timelines.HLO.encode()),
        build_model(target),
        target=target,
        hlo=timelines.HLO.encode(),
    )
    return made.timeline.to_parquet(tmp_path_factory.mktemp("predicted") / "step.parquet")


@dataclass(frozen=True)
class Answer:
    returncode: int
    stdout: str
    stderr: str


def network(*words: object) -> Answer:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(["network", *map(str, words)])
    return Answer(code or 0, out.getvalue(), err.getvalue())


def test_a_measured_step_as_text_and_as_json(measured: Path, tmp_path: Path) -> None:
    shown = network(measured)
    assert shown.returncode == 0, shown.stderr
    assert "Slack   1 of 1 transfers" in shown.stdout
    assert shown.stdout.rstrip().splitlines()[-1].startswith("next: counterpoint explain ")
    data = json.loads(network(measured, "--json").stdout)
    assert data["schema"] == "counterpoint.network/1"
    assert data["collectives"][0]["link"] == "domain"
    assert data["collectives"][0]["capacity_gbps"] == 450
    written = network(measured, "-o", tmp_path / "network.json")
    assert written.returncode == 0
    assert json.loads((tmp_path / "network.json").read_text()) == data


def test_the_target_moves_a_group_to_the_network(measured: Path) -> None:
    said = json.loads(network(measured, "--json", "--target", "2x1xH100:400G").stdout)
    assert said["collectives"][0]["link"] == "network"
    assert said["collectives"][0]["capacity_gbps"] == 50
    assert "400 Gb/s a device between hosts, as asked for" in said["links_source"]


def test_a_stored_prediction_knows_its_target(predicted: Path) -> None:
    said = json.loads(network(predicted, "--json").stdout)
    assert said["basis"] == "predicted"
    row = said["collectives"][0]
    assert (row["link"], row["capacity_gbps"]) == ("network", 50)
    assert 0 < row["achieved_gbps"] <= 50
    assert sum(piece["bytes"] for piece in said["demand"]) == pytest.approx(row["wire_bytes"])


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ((), 2, "no profile was named"),
        (("nothing.xplane.pb",), 3, "nothing.xplane.pb"),
        (("{}", "--target", "8xT1000"), 2, "8xT1000"),
        (("{}", "--device", "7"), 2, "there is no device 7"),
        (("{}", "--step", "77"), 2, "there is no step 77"),
        (("{}", "--top", "0"), 2, "--top takes a number from 1 on"),
        (("{}", "--device", "a"), 2, "--device takes numbers"),
    ],
)
def test_bad_input(measured: Path, words: tuple[str, ...], code: int, said: str) -> None:
    answer = network(*(word.format(measured) for word in words))
    assert answer.returncode == code
    assert said in answer.stderr
    assert "Traceback" not in answer.stderr


def test_one_step_and_one_device(measured: Path) -> None:
    data = json.loads(network(measured, "--json", "--step", "1", "--device", "0").stdout)
    assert (data["step"], data["selected_devices"], data["devices"]) == (1, [0], 1)
    assert data["step_ms"] == 12
