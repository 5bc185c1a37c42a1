"""Each finding opens where it costs most: at an op, at idle time, or at the work of a host."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from host_side import Event, Run, made
from megascale_fixture import Scene
from slices import timeline_of

import counterpoint
import timelines
from chromium import Visit, expect
from counterpoint.report.explain.explain_json import explain_json
from counterpoint.timeline.model import Timeline
from counterpoint.timeline.reading import read
from counterpoint.view.page import LivePage, PageContent, one_file
from viewed import viewing

MS = 1_000_000_000
TIMELESS = {"STEP403", "STEP605", "STEP606", "STEP608"}
"""About memory, or about what the profile can be trusted for: nothing to be shown at a moment."""


def content(timeline: Timeline) -> PageContent:
    explanation = counterpoint.explain(timeline)
    return PageContent(
        title="made",
        command="counterpoint explain made",
        version=counterpoint.__version__,
        results={"explain": explain_json(explanation)},
        timelines=(timeline,),
    )


def page_of(timeline: Timeline) -> dict[str, Any]:
    """The Timeline as one file has it."""
    html = one_file(content(timeline))
    (text,) = re.findall(r'id="counterpoint-page">(.*?)</script>', html, re.DOTALL)
    return json.loads(text)["timelines"][0]


def opened(timeline: Timeline, code: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The place at which a finding opens, and its track."""
    page = page_of(timeline)
    (finding,) = (it for it in page["findings"] if it["code"] == code)
    place = finding["places"][0]
    return place, page["tracks"][place["track"]]


def test_registrations_open_at_the_longest_of_a_steady_step() -> None:
    timeline = timeline_of(Scene(slack_ms=4.0, registered=lambda _: 4))
    place, track = opened(timeline, "STEP202")
    assert (track["kind"], track["device"]) == ("transfer", None)
    assert track["title"].endswith("map-dma-buffer")
    # Those of 50 ms are before all steps.
    assert place["dur"] == pytest.approx(0.4 * MS)
    first = timeline.steps.filter("steady")["start_ps"].min()
    assert isinstance(first, int)
    assert place["start"] + min(timeline.spans["start_ps"].to_list()) > first - 400 * MS


def test_copies_open_at_a_copy() -> None:
    place, track = opened(timeline_of(Scene(slack_ms=4.0, copied=lambda _: 4)), "STEP203")
    assert track["title"].endswith("memory-copy")
    assert place["dur"] == pytest.approx(0.3 * MS)


def test_slow_messages_open_at_the_slowest() -> None:
    scene = Scene(steps=20, extra_network_ms=lambda step: 30 + step if step % 3 == 0 else 0)
    place, track = opened(timeline_of(scene), "STEP204")
    assert track["title"].endswith("network-receive")
    assert place["dur"] >= (4 + 30 + 18) * MS  # of step 18


def test_a_compile_opens_at_the_longest_event_of_the_host() -> None:
    starts = [n * 10_000 + (5_000 if n > 3 else 0) for n in range(11)]
    compiles = [
        Event("backend_compile", 30_100, 5_000),
        Event("backend_compile", 60_000, 2_000),
    ]
    calls = [Event("PjitFunction(step)", start - 50, 40) for start in starts]
    timeline = made(
        [Run(start, 10_000) for start in starts[:-1]],
        [*calls, *compiles],
        [(one, two - one) for one, two in pairwise(starts)],
    )
    place, track = opened(timeline, "STEP303")
    assert track["kind"] == "host"
    assert place["dur"] == 5 * MS
    names = [*timeline.ops["name"], *timeline.host_names]
    assert names[place["op"]] == "backend_compile"


def test_transfers_before_the_first_step_do_not_make_the_timeline_longer() -> None:
    timeline = timeline_of(Scene())
    late = timeline.transfers["start_ps"].min()
    assert isinstance(late, int)
    page = page_of(timeline)
    for track in (it for it in page["tracks"] if it["kind"] != "fold"):
        spans = track["levels"][0]
        assert all(0 <= at <= page["end"] for at in (*spans["start"], *spans["end"]))


@pytest.mark.system
@pytest.mark.parametrize(
    "name",
    [
        "jax_gemm_mi300x.xplane.pb",
        "jax_conv_mi300x_8gpu.xplane.pb",
        "jax_inference_v6e_4tpu.xplane.pb",
        "pax_fsdp4_4proc_proc*.zip",
        "vllm_qwen3_2tpu.trace.json.gz",
    ],
)
def test_every_finding_about_time_has_a_place(shared: Path, name: str) -> None:
    page = LivePage(content(read(str(shared / "data" / "traces" / name))))
    page.compute()
    (described,) = json.loads(page.page_json())["timelines"]
    without = {it["code"] for it in described["findings"] if not it["places"]}
    assert without <= TIMELESS


@pytest.mark.system
def test_the_list_says_how_many_findings_are_at_no_moment(visit: Callable[..., Visit]) -> None:
    timeline = replace(timelines.two_devices(), truncated=True)
    found = counterpoint.explain(timeline).findings
    assert "STEP605" in {finding.code for finding in found}
    with viewing(content(timeline)) as address:
        visited = visit(address)
        visited.show("timeline")
        first = visited.page.get_by_label("Go to a finding").locator("option").first
        expect(first).to_have_text(f"{len(found) - 1} of {len(found)} findings")


@pytest.mark.system
def test_the_work_of_a_host_is_shown_when_its_finding_is_chosen(
    visit: Callable[..., Visit],
) -> None:
    timeline = timeline_of(Scene(slack_ms=4.0, registered=lambda _: 4))
    with viewing(content(timeline)) as address:
        visited = visit(address)
        visited.show("timeline")
        visited.page.get_by_label("Go to a finding").select_option("STEP202")
        details = visited.page.get_by_role("complementary", name="Details of the selection")
        expect(details).to_contain_text("MapDmaBuffer")
        expect(details).to_contain_text("STEP202")
        text = " ".join(details.inner_text().split())
        assert "Duration 400.0 µs measured" in text
        expect(visited.page.get_by_text("Host transfers")).to_have_count(1)
