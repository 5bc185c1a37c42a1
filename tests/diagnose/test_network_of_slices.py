"""What a step on two TPU slices asks of the network between them (`megascale_fixture`)."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from megascale_fixture import BYTES, Scene
from slices import case_of, timeline_of

from counterpoint.core import UsageError
from counterpoint.diagnose.collectives.requirement import Bound, Link, classify
from counterpoint.diagnose.collectives.slack import slack_table
from counterpoint.diagnose.network.analysis import analyze_network
from counterpoint.diagnose.network.calls import remote_calls
from counterpoint.diagnose.network.demand import demand
from counterpoint.hardware.targets import parse_target
from counterpoint.report.document import TextTable
from counterpoint.report.explain.network_document import calls_section, network_document
from counterpoint.report.terminal import plain_text
from counterpoint.workflow.prediction import predict

SLICES = Path(__file__).parents[1] / "hlo" / "data" / "tpu_slices.hlo.pb.xz"


def test_slack_is_the_work_between_send_and_recv_done() -> None:
    case = case_of(Scene(slack_ms=7))
    (row,) = case.cached(slack_table).to_dicts()
    assert row["kind"] == "all-reduce"
    assert row["slack_ms"] == pytest.approx(7)
    assert row["no_slack_share"] == 0


def test_a_device_sends_its_gradients_over_the_network_between_slices() -> None:
    case = case_of(Scene(slack_ms=8))
    (row,) = case.cached(classify).to_dicts()
    assert row["link"] == Link.DCN
    assert row["wire_bytes"] == BYTES  # 2 S (n - 1) / n, of two slices
    assert row["required_gbps"] == pytest.approx(BYTES / 8e-3 / 1e9)
    assert row["capacity_gbps"] is None
    assert demand(case).pieces["bytes"].sum() == pytest.approx(BYTES)


def test_the_network_is_in_use_while_the_runtime_records_messages() -> None:
    # From send to recv-done 10.04 ms; the message is under way for 4 of them.
    case = case_of(Scene(network_ms=4))
    found = demand(case)
    (sending,) = found.pieces.filter(pl.col("gbps") > 0).to_dicts()
    assert sending["end_ms"] - sending["start_ms"] == pytest.approx(4, abs=0.01)
    assert sending["gbps"] == pytest.approx(BYTES / 4e-3 / 1e9, rel=0.01)
    assert found.lower_bounds == ()
    (row,) = case.cached(classify).to_dicts()
    assert row["achieved_gbps"] == pytest.approx(BYTES / 4e-3 / 1e9, rel=0.01)


def test_the_network_of_a_late_message_is_not_busy_while_it_is_awaited() -> None:
    # Slice 2 sends 6 ms late: slice 1 waits, and its link carries nothing meanwhile.
    found = demand(case_of(Scene(network_ms=4, late_ms=6)))
    assert found.pieces["bytes"].sum() == pytest.approx(BYTES)
    busy = found.pieces.filter(pl.col("gbps") > 0)
    assert (busy["end_ms"] - busy["start_ms"]).sum() < 10.1  # 4 on each slice, 6 apart


def test_without_records_of_messages_the_rate_is_a_lower_bound() -> None:
    analysis = analyze_network(timeline_of(Scene(plane=False)))
    (burst,) = analysis.demand.bursts.to_dicts()
    assert burst["length_ms"] == pytest.approx(10.04, abs=0.01)
    assert analysis.demand.lower_bounds == (Link.DCN,)
    assert not len(analysis.demand.saturated)
    text = " ".join(plain_text(network_document(analysis, top=5)).split())
    assert "in use for at most 56%" in text
    assert "its rate was at least this" in text


def test_a_target_of_slices_gives_the_rate_between_them() -> None:
    target = parse_target("2xv6e-4:200G", tpus=True)
    analysis = analyze_network(timeline_of(Scene()), target=target)
    # 200 Gb/s for a host, shared by its four chips.
    assert analysis.network["capacity_gbps"].to_list() == pytest.approx([6.25])
    assert analysis.calls.rate == pytest.approx(25e9)
    for wrong in ("2xv5e-4", "8xH100", "v6e-4"):
        with pytest.raises(UsageError, match=wrong):
            analyze_network(timeline_of(Scene()), target=parse_target(wrong, tpus=True))


def test_what_its_slack_covers_is_hidden() -> None:
    assert case_of(Scene()).cached(classify)["bound"].to_list() == [Bound.HIDDEN]
    assert case_of(Scene(slack_ms=1)).cached(classify)["bound"].to_list() != [Bound.HIDDEN]


def test_what_reads_nothing_of_the_received_could_hide_it() -> None:
    # 4 of the 5 ms show; fusion.3, 4 ms, reads fusion.2 alone.
    (row,) = case_of(Scene(slack_ms=1)).cached(classify).to_dicts()
    assert row["movable_ms"] == pytest.approx(4)
    assert row["bound"] == Bound.SCHEDULE
    (short,) = case_of(Scene(slack_ms=0.5)).cached(classify).to_dicts()
    assert short["bound"] == Bound.UNKNOWN


def test_links_that_carry_two_collectives_of_a_prediction_at_once_are_shared() -> None:
    analysis = analyze_network(predict(SLICES, target="2xv5e-4").base.simulation.timeline)
    own = analysis.network.filter(pl.col("link") == Link.ICI)
    # A chip of a 2x2 slice has a link along each axis, of 50 GB/s; only larger slices use all four.
    assert own["capacity_gbps"].unique().to_list() == pytest.approx([100])
    assert max(own["achieved_gbps"].drop_nulls().to_list()) < 100
    # The bytes of each are spread evenly over its time, though part of it was shared.
    pieces = analysis.demand.pieces.filter(pl.col("link") == Link.ICI)
    assert 100 < max(pieces["gbps"].to_list()) < 120
    text = plain_text(network_document(analysis, top=5))
    assert "a capacity of 100" in text
    assert "spread evenly" in " ".join(text.split())


def test_the_report_shows_host_work_apart_from_latency() -> None:
    section = calls_section(remote_calls(timeline_of(Scene(registered=lambda _: 20))), top=2)
    table = section.blocks[0]
    assert isinstance(table, TextTable)
    assert "host work" in [column.title for column in table.columns]
    quiet = calls_section(remote_calls(timeline_of(Scene())), top=2).blocks[0]
    assert isinstance(quiet, TextTable)
    assert "host work" not in [column.title for column in quiet.columns]
