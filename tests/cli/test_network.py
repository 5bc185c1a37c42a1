"""`counterpoint network`: measured and predicted, as text and JSON, and bad input."""

from __future__ import annotations

import contextlib
import io
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from made_step import Work, hlo, made, negate, reduce, reduce_done, reduce_start

import timelines
from counterpoint.cli.app import main
from counterpoint.cost.build import build_model
from counterpoint.hardware.targets import parse_target
from counterpoint.hlo.reader import read_program
from counterpoint.simulate.simulation import simulate
from counterpoint.timeline.storage.parquet import write_parquet


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_parquet(timelines.two_devices(), tmp_path_factory.mktemp("made") / "step.parquet")


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
    return write_parquet(made.timeline, tmp_path_factory.mktemp("predicted") / "step.parquet")


STEP = """\
HloModule jit_step, is_scheduled=true, num_partitions=16

%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %sum = f32[] add(%a, %b)
}

ENTRY %main (p: f32[67108864]) -> f32[67108864] {
  %p = f32[67108864]{0} parameter(0)
  %first = f32[67108864]{0} sine(%p), metadata={op_name="jit(step)/first/sin"}
  %apart = f32[67108864]{0} cosine(%p), metadata={op_name="jit(step)/apart/cos"}
  %sums = f32[67108864]{0} all-reduce-start(%first), channel_id=1, GROUPS, to_apply=%add
  %summed = f32[67108864]{0} all-reduce-done(%sums)
  %second = f32[67108864]{0} sine(%summed), metadata={op_name="jit(step)/second/sin"}
  %early = f32[67108864]{0} all-reduce-start(%second), channel_id=2, GROUPS, to_apply=%add
  %third = f32[67108864]{0} add(%second, %apart), metadata={op_name="jit(step)/third/add"}
  %late = f32[67108864]{0} all-reduce-done(%early)
  %fourth = f32[67108864]{0} add(%third, %late), metadata={op_name="jit(step)/fourth/add"}
  ROOT %last = f32[67108864]{0} all-reduce(%fourth), channel_id=3, GROUPS, to_apply=%add
}
""".replace("GROUPS", "replica_groups=[1,16]<=[16], use_global_device_ids=true")
"""Two sums with too little beside them, and one at the end of the step."""


@pytest.fixture(scope="module")
def priced(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = parse_target("2x8xH100:400G")
    program = read_program(STEP.encode())
    made = simulate(program, build_model(target), target=target, hlo=STEP.encode())
    return write_parquet(made.timeline, tmp_path_factory.mktemp("priced") / "step.parquet")


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
    assert "Slack   1 of 1 transfer, " in shown.stdout
    assert shown.stdout.rstrip().splitlines()[-1].startswith("next: counterpoint view ")
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
    assert "400 Gb/s per device" in said["links_source"]


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
        ((), 2, "a profile is required"),
        (("nothing.xplane.pb",), 3, "nothing.xplane.pb"),
        (("{}", "--target", "8xT1000"), 2, "8xT1000"),
        (("{}", "--device", "7"), 2, "there is no device 7"),
        (("{}", "--step", "77"), 2, "there is no step 77"),
        (("{}", "--top", "0"), 2, "--top must be at least 1"),
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
    assert data["step_ms"] == 10


def test_a_prediction_is_not_judged_by_the_price_it_was_made_of(priced: Path) -> None:
    shown = network(priced).stdout
    assert "priced at" in shown
    for word in ("achieved", "can be expected"):
        assert word not in shown
    rows = json.loads(network(priced, "--json").stdout)["collectives"]
    bound = {row["op"]: row["bound"] for row in rows}
    assert bound.keys() == {"last", "sums", "early"}
    assert bound["last"] != bound["sums"] == bound["early"]
    assert "end of the" in bound["last"]


@pytest.mark.parametrize("given", ["priced", "predicted", "measured"])
def test_network_and_explain_give_one_cause(given: str, request: pytest.FixtureRequest) -> None:
    path = request.getfixturevalue(given)
    rows = json.loads(network(path, "--json").stdout)["collectives"]
    codes = {row["op"]: row["code"] for row in rows}
    findings = [it for it in explained(path) if it["code"] in {*codes.values()}]
    said = {it["what"]: found["code"] for found in findings for it in found["evidence"]}
    assert said == {op: code for op, code in codes.items() if code is not None}


@pytest.fixture(scope="module")
def waiting(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two devices; in every step one waits 4 ms for the other before a sum takes 2 ms of both."""
    text = hlo(negate("work.1", "p"), reduce("reduce", "work.1"), root=negate("work.2", "reduce"))

    def step(device: int, number: int) -> list[Work]:
        del number
        late = 4.0 * device
        return [("work.1", 0, 10 + late), ("reduce", 10 + late, 6 - late), ("work.2", 16, 3)]

    case = made(text, step, 20, steps=10, flags={}, jaxlib="0.10.2")
    return write_parquet(case.timeline, tmp_path_factory.mktemp("waiting") / "step.parquet")


def test_exposed_time_is_split_between_waiting_and_the_transfer_as_explain_splits_it(
    waiting: Path,
) -> None:
    (row,) = json.loads(network(waiting, "--json").stdout)["collectives"]
    assert sum(it["ms"] for it in row["causes"]) == pytest.approx(row["exposed_ms"])
    assert (row["bound"], row["code"]) == tuple(row["causes"][0][key] for key in ("bound", "code"))
    parts = {it["code"]: it["ms"] for it in row["causes"]}
    assert parts["STEP105"] == pytest.approx(2)
    said = {
        found["code"]: found["evidence"][0]["ms"]
        for found in explained(waiting)
        if found["code"] in parts
    }
    assert said == pytest.approx(parts)
    shown = " ".join(network(waiting).stdout.split())
    assert re.search(r" 2\.000 ms [^;,]*\(STEP105\)", shown)


def test_a_collective_that_shows_in_gaps_is_not_called_hidden(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    text = hlo(
        negate("work.1", "p"),
        reduce_start("reduce", "work.1"),
        negate("beside", "p"),
        reduce_done("reduced", "reduce"),
        root=negate("work.2", "reduced"),
    )

    def step(device: int, number: int) -> list[Work]:
        del device, number
        return [("work.1", 0, 4), ("reduce", 4, 6), ("beside", 7, 5), ("work.2", 12, 3)]

    path = tmp_path_factory.mktemp("gaps") / "step.parquet"
    write_parquet(made(text, step, 20, steps=10, flags={}, jaxlib="0.10.2").timeline, path)
    (row,) = json.loads(network(path, "--json").stdout)["collectives"]
    assert row["exposed_ms"] == pytest.approx(3)
    assert row["bound"] == "gaps beside it"
    assert "gaps beside it 3.000 ms" in network(path).stdout


def test_network_and_explain_give_one_bandwidth_of_transfers_that_differ(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    text = hlo(negate("work.1", "p"), reduce("reduce", "work.1"), root=negate("work.2", "reduce"))

    def step(device: int, number: int) -> list[Work]:
        del device
        return [("work.1", 0, 5), ("reduce", 5, 9 if number % 3 == 0 else 2), ("work.2", 14, 3)]

    path = tmp_path_factory.mktemp("uneven") / "step.parquet"
    write_parquet(made(text, step, 20, steps=12, flags={}, jaxlib="0.10.2").timeline, path)
    (row,) = json.loads(network(path, "--json").stdout)["collectives"]
    (same,) = explained(path, "collectives")
    assert row["achieved_gbps"] == pytest.approx(same["busbw_gbps"], abs=1e-6)
    assert row["transfer_ms"] == same["transfer_ms"] == 2
    assert row["mean_transfer_ms"] == same["mean_transfer_ms"] > 2
    assert row["mean_transfer_ms"] == pytest.approx(row["exposed_ms"])


def explained(path: Path, what: str = "findings") -> list[dict[str, Any]]:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert not main(["explain", str(path), "--json"])
    found: list[dict[str, Any]] = json.loads(out.getvalue())[what]
    return found
