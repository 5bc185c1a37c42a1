"""`network` of a prediction names the links that each price rests on, as the simulator had it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from counterpoint.cli.app import main

SQUARE = "f32[4096,4096]"
HLO = f"""HloModule step, is_scheduled=true, num_partitions=16

sum {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b)
}}

ENTRY main {{
  x = {SQUARE} parameter(0)
  p = f32[512,4096] parameter(1)
  within = {SQUARE} all-gather(p), channel_id=1, replica_groups=[2,8]<=[16], dimensions={{0}}, \
use_global_device_ids=true
  all = {SQUARE} all-reduce(within), channel_id=2, replica_groups=[1,16]<=[16], \
use_global_device_ids=true, to_apply=sum
  across = {SQUARE} all-reduce(all), channel_id=3, replica_groups=[8,2]<=[2,8]T(1,0), \
use_global_device_ids=true, to_apply=sum
  few = f32[1,16] slice(across), slice={{[0:1], [0:16]}}
  tiny = f32[1,16] all-reduce(few), channel_id=4, replica_groups=[8,2]<=[2,8]T(1,0), \
use_global_device_ids=true, to_apply=sum
  ROOT both = {SQUARE} add(across, x)
}}
"""


@pytest.fixture
def step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "step.hlo.txt"
    path.write_text(HLO)
    return path


def told(
    capsys: pytest.CaptureFixture[str], target: str, *more: str, kept: str = "kept"
) -> dict[str, dict[str, Any]]:
    assert main(("predict", "step.hlo.txt", "--target", target, "-o", kept, *more)) == 0
    capsys.readouterr()
    assert main(("network", kept, "--json")) == 0
    rows = json.loads(capsys.readouterr().out)["collectives"]
    return {row["op"]: row for row in rows}


@pytest.mark.parametrize(
    ("target", "links"),
    [
        # Eight NICs of 400 Gb/s carry more than NVLink within a host; one of a pair does not.
        ("2x8xH100:400G", ["NVLink 4", "NVLink 4", "NIC"]),
        ("2x8xH100:100G", ["NVLink 4", "NIC", "NIC"]),
        ("2x8xL40S:100G", ["PCIe 4", "PCIe", "NIC"]),
        ("16xGB200", ["NVLink 5", "NVLink 5", "NVLink 5"]),
    ],
)
@pytest.mark.usefixtures("step")
def test_each_collective_names_the_links_of_its_price(
    capsys: pytest.CaptureFixture[str], target: str, links: list[str]
) -> None:
    rows = told(capsys, target)
    found = [rows[name] for name in ("within", "all", "across")]
    assert [row["priced_link"] for row in found] == links
    assert {row["priced_bound"] for row in found} == {"bandwidth"}
    assert rows["tiny"]["priced_bound"] == "latency"
    assert rows["tiny"]["priced_link"] == links[-1]
    assert all(row["link"] for row in rows.values())  # its program was kept with it


@pytest.mark.system
@pytest.mark.usefixtures("step")
def test_a_prediction_that_is_kept_as_a_trace_is_a_whole_step(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found: list[dict[str, Any]] = []
    for kept in ("kept", "kept.json"):
        told(capsys, "2x8xH100:400G", kept=kept)
        assert main(("explain", kept, "--json")) == 0
        found.append(json.loads(capsys.readouterr().out))
    as_tables, as_trace = found
    assert as_trace["basis"] == "predicted"
    assert as_trace["steps"]["count"] == 1
    same = pytest.approx(as_tables["steps"]["median_ms"], rel=1e-5)
    assert as_trace["steps"]["median_ms"] == same
    assert not any("is left out" in note for note in as_trace["notes"])


@pytest.mark.usefixtures("step")
def test_the_price_is_told_as_the_simulator_had_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    usual = told(capsys, "2x8xH100:400G")["across"]
    assert "47 GB/s NIC" in usual["priced_how"]  # 0.94 of 400 Gb/s
    half = tmp_path / "half.toml"
    half.write_text('chip = "H100"\n[network]\nvalue = 0.47\n')
    slower = told(capsys, "2x8xH100:400G", "--calibration", str(half), kept="slower")["across"]
    assert "23.5 GB/s NIC" in slower["priced_how"]
    assert slower["transfer_ms"] == pytest.approx(2 * usual["transfer_ms"], rel=0.05)


@pytest.mark.parametrize("columns", [80, 100, 160])
@pytest.mark.usefixtures("step")
def test_the_screen_names_them_at_any_width(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    told(capsys, "2x8xH100:100G")
    monkeypatch.setenv("COLUMNS", str(columns))
    assert main(("network", "kept")) == 0
    (across,) = [
        line
        for line in capsys.readouterr().out.splitlines()
        if line.startswith("  across ") and "NIC" in line
    ]
    assert across.endswith(" NIC")
