"""STEP201: how long devices wait for other slices, and for what."""

from __future__ import annotations

import pytest
from megascale_fixture import Scene
from slices import case_of

from counterpoint.core.basis import Range
from counterpoint.diagnose.explanation import judge
from counterpoint.diagnose.network.stalls import StallCause, stalls
from counterpoint.diagnose.rules import recv_stall, slow_remote_calls
from golden_sections import Said


def codes(scene: Scene) -> list[str]:
    """Of findings that cost time, without those on ops: one small op stands for all compute."""
    found = [it.code for it in judge(case_of(scene))[0] if isinstance(it.saves_ms, Range)]
    return [code for code in found if not code.startswith("STEP5")]


@pytest.mark.parametrize("scene", [Scene(), Scene(plane=False, messages=True), Scene(hlo=False)])
def test_a_transfer_that_its_slack_covers_is_no_stall(scene: Scene) -> None:
    assert not codes(scene)


def test_just_enough_slack_is_enough() -> None:
    # 0.5 to fetch, 4 on the way, 0.5 to deliver, from the send on: 0.03 of that are its own.
    assert not codes(Scene(slack_ms=4.97))
    assert codes(Scene(slack_ms=4.5)) == ["STEP201"]


def test_too_little_slack_is_the_schedules(said: Said) -> None:
    case = case_of(Scene(slack_ms=1))
    (stall,) = stalls(case)
    # 5 from the send to the end of recv-done, of which fusion.2 hides 1.
    assert stall.waits_ms == pytest.approx(4.0)
    assert stall.slack_ms == pytest.approx(1.0)
    assert stall.by_cause[StallCause.SCHEDULE] == pytest.approx(4.0)
    (finding,) = recv_stall.check(case)
    assert isinstance(finding.saves_ms, Range)
    assert finding.saves_ms.high == pytest.approx(4.0)
    assert finding.evidence[0].what == "send.3"
    assert finding.evidence[0].spans
    assert "send.3" in finding.remedy.text
    said(finding)


def test_a_late_peer_is_told_from_a_short_schedule(said: Said) -> None:
    # Slice 2 sends 6 later: slice 1 waits 5 + 6 - 3, slice 2 only 5 - 3; mean 5, of it 3 lateness.
    (stall,) = stalls(case_of(Scene(late_ms=6, slack_ms=3)))
    assert stall.waits_ms == pytest.approx(5.0)
    assert stall.by_cause[StallCause.PEER] == pytest.approx(3.0)
    assert stall.by_cause[StallCause.SCHEDULE] == pytest.approx(2.0)
    assert stall.cause is StallCause.PEER
    (finding,) = recv_stall.check(case_of(Scene(late_ms=6, slack_ms=3)))
    assert isinstance(finding.saves_ms, Range)
    assert finding.saves_ms.high > 5.0
    said(finding)


def test_a_slow_network_is_told_from_both() -> None:
    case = case_of(Scene(network_ms=40))
    (stall,) = stalls(case)
    assert stall.cause is StallCause.NETWORK
    assert stall.network_ms == pytest.approx(40.0)
    # 1 ms and four times 8.39 MB at 12.5 GB/s.
    assert stall.needed_ms == pytest.approx(1 + 4 * 8.388608 / 12.5)
    (finding,) = recv_stall.check(case)
    assert "doctor" in finding.remedy.text


def test_registrations_on_the_way_are_told_too() -> None:
    (stall,) = stalls(case_of(Scene(slack_ms=4, registered=lambda _: 4)))
    assert stall.by_cause[StallCause.HOST] == pytest.approx(1.6)
    assert stall.by_cause[StallCause.SCHEDULE] == pytest.approx(1.0)


def test_a_network_that_is_slow_now_and_then_is_not_laid_to_the_schedule() -> None:
    scene = Scene(steps=20, extra_network_ms=lambda step: 30 if step % 3 == 0 else 0)
    (stall,) = stalls(case_of(scene))
    assert stall.cause is StallCause.NETWORK


def test_without_the_runtimes_word_late_and_slow_are_not_told_apart(said: Said) -> None:
    case = case_of(Scene(network_ms=40, plane=False))
    (stall,) = stalls(case)
    assert stall.cause is StallCause.UNKNOWN
    assert stall.late_ms is None
    (finding,) = recv_stall.check(case)
    said(finding)


def test_without_hlo_the_stall_is_seen_and_a_dump_is_asked_for() -> None:
    (finding,) = recv_stall.check(case_of(Scene(slack_ms=1, hlo=False)))
    assert "4.00 ms" in finding.title
    assert "--xla_dump_to" in finding.remedy.text


def test_registrations_go_before_the_network() -> None:
    # 4 on the way, 8 before it and 1 at the ends, of which 5 are hidden: all of the 8 are waited.
    (stall,) = stalls(case_of(Scene(slack_ms=5, registered=lambda _: 20)))
    assert stall.waits_ms == pytest.approx(8.0, abs=0.01)
    assert stall.by_cause[StallCause.HOST] == pytest.approx(8.0, abs=0.01)
    assert stall.by_cause[StallCause.NETWORK] == 0


def test_a_slice_that_computes_longer_is_named_with_what_it_costs(said: Said) -> None:
    # Slice 2 computes 30, slice 1 18; without that both steps take 18.05 instead of 30.05.
    (finding,) = recv_stall.check(case_of(Scene(late_ms=12)))
    assert "slice-2" in finding.remedy.text
    assert isinstance(finding.saves_ms, Range)
    # What slice 1 waits in its recv-done and, for the next step, idle.
    assert 12.0 <= finding.saves_ms.high <= 12.1
    assert "slice-2 computes 30.00 ms" in finding.detail
    said(finding)


def test_slices_that_compute_alike_are_not_accused() -> None:
    (finding,) = recv_stall.check(case_of(Scene(slack_ms=1)))
    assert "computes" not in finding.detail


def test_a_slice_that_tells_nothing_of_its_messages_is_named(said: Said) -> None:
    case = case_of(Scene(network_ms=14), quiet=Scene(network_ms=14, plane=False))
    (finding,) = recv_stall.check(case)
    assert isinstance(finding.saves_ms, Range)
    assert finding.saves_ms.high == pytest.approx(5.0, abs=0.05)
    assert finding.doubt is not None
    (calls,) = slow_remote_calls.check(case)
    assert isinstance(calls.saves_ms, Range)
    assert calls.saves_ms.high == pytest.approx(5.0, abs=0.05)
    assert "slice-2 recorded no messages" in (calls.doubt or "")
    assert "slice-2" in finding.doubt
    said(finding)
