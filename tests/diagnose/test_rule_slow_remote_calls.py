"""STEP204: messages between slices that take longer than their bytes explain."""

from __future__ import annotations

import pytest
from megascale_fixture import BYTES, Scene
from slices import case_of, timeline_of

from counterpoint.core.basis import Range
from counterpoint.diagnose.explanation import judge
from counterpoint.diagnose.network.calls import LatencyPattern, remote_calls
from counterpoint.diagnose.rules import slow_remote_calls
from golden_sections import Said


def codes(scene: Scene) -> set[str]:
    return {finding.code for finding in judge(case_of(scene))[0]}


def test_latency_is_followed_over_steps_and_links() -> None:
    calls = remote_calls(timeline_of(Scene(steps=5, network_ms=3)))
    assert calls.pattern is LatencyPattern.NORMAL
    assert calls.links.select("calls", "median_ms", "max_ms", "pattern").unique().rows() == [
        (5, 3.0, 3.0, "normal")
    ]
    assert len(calls.links) == 8
    assert calls.by_step.select("step", "calls", "p95_ms").rows() == [
        (step, 8, 3.0) for step in range(5)
    ]
    # Four messages at once: each waits for the bytes of all.
    assert calls.rows["expected_ms"][0] == pytest.approx(1 + 4 * BYTES / 12.5e9 * 1e3)


def test_high_latency_throughout_is_sustained(said: Said) -> None:
    case = case_of(Scene(network_ms=40))
    (finding,) = slow_remote_calls.check(case)
    # 41 after the send recv-done ends; 10 are hidden. A message in time would all be hidden.
    assert isinstance(finding.saves_ms, Range)
    assert finding.saves_ms.high == pytest.approx(31.0, abs=0.05)
    assert finding.doubt is not None
    assert "48 of 48" in finding.title
    said(finding)


def test_high_latency_now_and_then_is_sporadic(said: Said) -> None:
    scene = Scene(steps=20, extra_network_ms=lambda step: 30 if step % 3 == 0 else 0)
    (finding,) = slow_remote_calls.check(case_of(scene))
    assert "in 6 of 18 steady steps" in finding.detail
    assert "48 of 144" in finding.title
    said(finding)


def test_calls_that_make_two_of_ten_steps_long_are_priced_per_step_on_average(said: Said) -> None:
    scene = Scene(steps=10, extra_network_ms=lambda step: 55 if step in (3, 7) else 0)
    case = case_of(scene)
    (finding,) = (it for it in judge(case)[0] if it.code == "STEP204")
    # 4 + 55 + 1 after the send, of which 10 are hidden: 49.96 in each of two of eight steps.
    assert isinstance(finding.saves_ms, Range)
    assert finding.saves_ms.high == pytest.approx(2 * 49.96 / 8, abs=0.05)
    assert "2 of 8 steps are 49.96 ms longer" in finding.title
    said(finding)


def test_what_slow_calls_cost_long_steps_is_claimed_once() -> None:
    scene = Scene(steps=10, extra_network_ms=lambda step: 55 if step in (3, 7) else 0)
    case = case_of(scene)
    claims = [it.saves_ms for it in judge(case)[0] if it.code in ("STEP204", "STEP309")]
    lost = sum(it.high for it in claims if isinstance(it, Range))
    assert lost == pytest.approx(2 * 49.96 / 8, abs=0.1)


def test_a_stall_of_many_steps_length_is_priced_by_the_mean_step() -> None:
    scene = Scene(steps=10, extra_network_ms=lambda step: 900 if step == 5 else 0)
    case = case_of(scene)
    (finding,) = (it for it in judge(case)[0] if it.code == "STEP204")
    assert isinstance(finding.saves_ms, Range)
    assert finding.saves_ms.high == pytest.approx(895 / 8, abs=1)
    assert finding.mean_step_ms is not None
    assert case.step_ms < finding.saves_ms.high < finding.mean_step_ms


def test_unusual_calls_count_though_the_network_is_quick() -> None:
    # 0.2 ms usually, 2.9 in some steps: less than three times what the bytes may need.
    scene = Scene(steps=20, network_ms=0.2, extra_network_ms=lambda n: 2.7 if n % 4 == 0 else 0)
    calls = remote_calls(timeline_of(scene))
    assert calls.pattern is LatencyPattern.SPORADIC
    assert calls.rows["slow"].sum() == 5 * 8


@pytest.mark.parametrize(
    "scene",
    [
        Scene(),
        Scene(plane=False, messages=True, skewed=True),  # without times nothing is known
        Scene(network_ms=10, slack_ms=20),  # within three times of what they need
        Scene(network_ms=40, slack_ms=60),  # slow, and nobody waits
    ],
)
def test_usual_unknown_and_hidden_latencies_are_no_finding(scene: Scene) -> None:
    assert "STEP204" not in codes(scene)


@pytest.mark.system
@pytest.mark.parametrize(
    "scene",
    [
        Scene(slack_ms=5, registered=lambda _: 20),  # 4 of network, 8 of registrations
        Scene(slack_ms=5, copied=lambda _: 100),
    ],
)
def test_what_the_host_registers_or_copies_first_is_not_laid_to_the_network(scene: Scene) -> None:
    assert "STEP204" not in codes(scene)
    calls = remote_calls(timeline_of(scene))
    assert not calls.rows["slow"].any()
    assert (calls.rows["latency_ms"] - calls.rows["host_ms"]).to_list() == pytest.approx(
        [4.0] * len(calls.rows)
    )


def test_a_slow_network_is_seen_beside_registrations() -> None:
    scene = Scene(slack_ms=5, network_ms=40, registered=lambda _: 20)
    assert "STEP204" in codes(scene)
