"""The JSON is a contract: every documented key, of the documented type, and only those."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import timelines
from counterpoint.diagnose.explanation import Explanation, explain
from counterpoint.report.explain.explain_json import explain_json
from counterpoint.timeline.model import Timeline
from json_reference import PAGES, check_documented, documented
from real_profiles import explained_of

REFERENCE = PAGES / "explain-json.md"

AGREED = {
    "": "schema inputs notes hosts devices programs steps breakdown phases ops collectives"
    " findings",
    "programs": "name fingerprint executions device_ms is_step",
    "steps": "count median_ms p10_ms p90_ms how run_median_ms run_steps",
    "breakdown": "compute_ms collective_exposed_ms collective_hidden_ms copy_exposed_ms idle_ms",
    "phases": "forward_ms backward_ms remat_ms optimizer_ms other_ms",
    "ops": "op category phase scope source count self_ms share",
    "collectives": "op kind bytes group_size count median_ms exposed_ms hidden_share slack_ms"
    " algbw_gbps busbw_gbps wait_ms",
    "findings": "code title detail saves_ms basis evidence remedy settings doubt",
}
"""What programs that read version 1 rely on. Nothing here may ever go."""


def refuse(constant: str) -> float:
    raise AssertionError(f"{constant} is no JSON")


def as_data(explained: Explanation) -> dict[str, Any]:
    return json.loads(explain_json(explained), parse_constant=refuse)


def without_steps() -> Timeline:
    timeline = timelines.two_devices()
    return replace(timeline, steps=timeline.steps.clear(), step_program=None)


@pytest.mark.parametrize(
    "timeline",
    [timelines.two_devices, timelines.two_devices_without_hlo, without_steps],
    ids=lambda make: make.__name__,
)
def test_the_contract(timeline: Callable[[], Timeline]) -> None:
    check_documented(as_data(explain(timeline())), REFERENCE)


@pytest.mark.parametrize("section", AGREED)
def test_the_agreed_keys_are_documented(section: str) -> None:
    assert set(AGREED[section].split()) <= set(documented(REFERENCE)[section])


@pytest.mark.parametrize(
    "name",
    [
        "jax_conv_mi300x_8gpu.xplane.pb",
        "jax_inference_v6e_4tpu.xplane.pb",
        pytest.param("vllm_qwen3_2tpu.trace.json.gz", marks=pytest.mark.system),
        "pytorch_h100_2gpu.nsys.sqlite",
    ],
)
def test_the_contract_on_real_profiles(shared: Path, name: str) -> None:
    data = as_data(explained_of(shared / "data" / "traces" / name))
    check_documented(data, REFERENCE)
    parts = data["breakdown"]
    whole = sum(parts.values()) - parts["collective_hidden_ms"]
    assert whole == pytest.approx(data["steps"]["window_ms"], abs=1e-5)
    assert all(0 <= row["hidden_share"] <= 1 for row in data["collectives"])
    assert all(0 <= row["share"] <= 1 for row in data["ops"])


def test_the_figures_are_those_counted_by_hand() -> None:
    data = as_data(explain(timelines.two_devices()))
    assert data["steps"]["median_ms"] == 11
    assert data["breakdown"] == {
        "compute_ms": 7,
        "collective_exposed_ms": 2,
        "collective_hidden_ms": 3.5,
        "copy_exposed_ms": 0.5,
        "idle_ms": 1.5,
    }
    assert [row["collective_hidden_ms"] for row in data["device_breakdowns"]] == [4, 3]
    (gather,) = data["collectives"]
    assert gather["bytes"] == 200 * 2**20
    assert (gather["median_ms"], gather["exposed_ms"], gather["wait_ms"]) == (5.5, 2, 0.5)
    assert (gather["transfer_ms"], gather["slack_ms"]) == (5, 3.5)
    assert gather["hidden_share"] == round(1 - 2 / 5.5, 6)
    assert gather["algbw_gbps"] == round(200 * 2**20 / 5e-3 / 1e9, 6)
    assert data["utilisation"]["flops_per_s"] == float(f"{4 * 8192**3 / 11e-3:.6g}")
    assert data["utilisation"]["mfu"] == pytest.approx(0.202, abs=5e-4)


def test_without_hlo_what_only_hlo_knows_is_null() -> None:
    data = as_data(explain(timelines.two_devices_without_hlo()))
    assert set(data["phases"].values()) == {None}
    (gather,) = data["collectives"]
    unknown = ("bytes", "group_size", "slack_ms", "algbw_gbps", "busbw_gbps", "source", "scope")
    assert {gather[key] for key in unknown} == {None}
    assert data["utilisation"]["mfu"] is None
    assert data["truncated"] is True
    assert any("no HLO" in note for note in data["notes"])


def test_without_steps_nothing_is_said_per_step() -> None:
    data = as_data(explain(without_steps()))
    assert data["steps"]["count"] == 0
    assert data["steps"]["median_ms"] is None
    assert set(data["breakdown"].values()) == {None}
    assert (data["ops"], data["collectives"], data["findings"]) == ([], [], [])
    assert any("no complete step" in note for note in data["notes"])


def test_what_is_no_number_is_null() -> None:
    explained = explain(timelines.two_devices())
    broken = explained.collectives.with_columns(
        hidden_share=math.nan, algbw_gbps=math.inf, busbw_gbps=-math.inf
    )
    (gather,) = as_data(replace(explained, collectives=broken))["collectives"]
    assert {gather[key] for key in ("hidden_share", "algbw_gbps", "busbw_gbps")} == {None}


def test_each_row_is_a_line_and_keys_keep_their_order() -> None:
    explained = explain(timelines.two_devices())
    text = explain_json(explained)
    assert text == explain_json(explained)
    assert sum('"op": ' in line for line in text.splitlines()) == 5
    assert [key for key in json.loads(text) if key in AGREED[""].split()] == AGREED[""].split()


def test_names_of_any_kind_survive() -> None:
    explained = replace(explain(timelines.two_devices()), inputs=("日本\x1b[31m\udcff\n",))
    assert as_data(explained)["inputs"] == ["日本\x1b[31m\udcff\n"]
    assert explain_json(explained).isascii()
