"""The JSON of `network` is a contract: every documented key, of the documented type, no other."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import timelines
from counterpoint.diagnose.network.analysis import analyze_network
from counterpoint.report.explain.network_document import network_document
from counterpoint.report.explain.network_json import network_json
from counterpoint.report.terminal import plain_text
from counterpoint.timeline.model import Timeline
from json_reference import PAGES, check_documented
from real_profiles import opened

REFERENCE = PAGES / "network-json.md"


def refuse(constant: str) -> float:
    raise AssertionError(f"{constant} is no JSON")


def data_of(timeline: Timeline) -> dict[str, Any]:
    return json.loads(network_json(analyze_network(timeline)), parse_constant=refuse)


def test_each_collective_has_a_row_in_each_table() -> None:
    data = data_of(timelines.two_devices())
    assert len(data["collectives"]) == len(data["slack"]) == len(data["bursts"]) == 1


@pytest.mark.parametrize(
    "timeline", [timelines.two_devices, timelines.two_devices_without_hlo], ids=["hlo", "names"]
)
def test_the_contract(timeline: Callable[[], Timeline]) -> None:
    check_documented(data_of(timeline()), REFERENCE)


@pytest.mark.parametrize(
    "name",
    [
        "jax_inference_v6e_4tpu.xplane.pb",
        pytest.param("pax_fsdp4_4proc_proc*.zip", marks=pytest.mark.system),
    ],
)
def test_the_contract_on_real_profiles(shared: Path, name: str) -> None:
    data = data_of(opened(f"{shared}/data/traces/{name}"))
    check_documented(data, REFERENCE)
    sent = sum((row["wire_bytes"] or 0) * row["count"] for row in data["collectives"])
    assert sum(row["bytes"] for row in data["demand"]) == pytest.approx(sent, abs=1)
    assert sum(row["bytes"] for row in data["bursts"]) == pytest.approx(sent, abs=1)


def test_the_document_tells_the_story_in_order() -> None:
    text = plain_text(network_document(analyze_network(timelines.two_devices()), 10))
    titles = ["Network", "Slack", "Bandwidth", "Exposed time is due to", "Demand", "Bursts"]
    at = [text.index(f"\n{title}") if title != "Network" else 0 for title in titles]
    assert at == sorted(at)
    assert " 450 " in text
    assert "Remote calls" not in text


def test_a_step_without_communication_says_so() -> None:
    timeline = timelines.two_devices()
    quiet = timeline.spans.filter(~timeline.spans["op"].is_in([0]))
    silent = replace(timeline, spans=quiet)
    assert timeline.ops["name"][0] == "all-gather-start"
    text = plain_text(network_document(analyze_network(silent), 10))
    assert "no collective" in text
    data = data_of(silent)
    check_documented(data, REFERENCE)
    assert data["collectives"] == data["demand"] == []
