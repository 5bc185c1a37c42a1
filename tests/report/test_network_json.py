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
from json_reference import documented
from real_profiles import opened

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "network-json.md"

TYPES: dict[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "strings": lambda value: all(isinstance(one, str) for one in value),
    "int": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "ints": lambda value: isinstance(value, list),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "object": lambda value: isinstance(value, dict),
    "objects": lambda value: all(isinstance(one, dict) for one in value),
    "null": lambda value: value is None,
}


def check(data: dict[str, Any]) -> None:
    for section, keys in documented(REFERENCE).items():
        entries = data[section] if section else [data]
        for entry in entries:
            assert set(entry) == set(keys), section
            for key, kind in keys.items():
                allowed = any(TYPES[one](entry[key]) for one in kind.split(" or "))
                assert allowed, f"{section}.{key}: {entry[key]!r} is no {kind}"


def refuse(constant: str) -> float:
    raise AssertionError(f"{constant} is no JSON")


def data_of(timeline: Timeline) -> dict[str, Any]:
    return json.loads(network_json(analyze_network(timeline)), parse_constant=refuse)


def test_every_section_is_documented() -> None:
    data = data_of(timelines.two_devices())
    tables = {key for key, kind in documented(REFERENCE)[""].items() if kind == "objects"}
    assert tables | {""} == set(documented(REFERENCE))
    assert len(data["collectives"]) == len(data["slack"]) == len(data["bursts"]) == 1


@pytest.mark.parametrize(
    "timeline", [timelines.two_devices, timelines.two_devices_without_hlo], ids=["hlo", "names"]
)
def test_the_contract(timeline: Callable[[], Timeline]) -> None:
    check(data_of(timeline()))


@pytest.mark.parametrize(
    "name",
    [
        "jax_inference_v6e_4tpu.xplane.pb",
        pytest.param("pax_fsdp4_4proc_proc*.zip", marks=pytest.mark.system),
    ],
)
def test_the_contract_on_real_profiles(shared: Path, name: str) -> None:
    data = data_of(opened(f"{shared}/data/traces/{name}"))
    check(data)
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
    check(data)
    assert data["collectives"] == data["demand"] == []
