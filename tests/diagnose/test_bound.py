"""What a collective is bound by, each verdict with a near miss."""

from __future__ import annotations

from dataclasses import replace

import pytest

from counterpoint.cost.model import PriceFamily, PriceSource, price_around
from counterpoint.diagnose.collectives.bound import Bound, ExecutionFigures, judge
from counterpoint.diagnose.collectives.links import Link, Wire
from golden_sections import Said

MIB = 2**20


def facts(
    price_ms: float = 1.0, bound_by: str = "bandwidth", **changes: object
) -> ExecutionFigures:
    """An exposed all-gather of 1 ms that takes what the cost model expects, and cannot move."""
    price = price_around(
        price_ms / 1e3, 0.2, PriceSource.TABLE, PriceFamily.DOMAIN, "8 ranks", bound_by
    )
    made = ExecutionFigures(
        total_ms=1.0,
        exposed_ms=1.0,
        wait_ms=0.0,
        transfer_ms=1.0,
        slack_ms=0.0,
        movable_ms=0.0,
        achieved=300e9,
        wire=Wire(link=Link.DOMAIN, bytes=300e6, capacity=450e9, price=price),
        ranks=8,
        kind="all-gather",
        link_busy=0.3,
    )
    return replace(made, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "bound"),
    [
        (facts(), Bound.BANDWIDTH),
        (facts(price_ms=0.75), Bound.BANDWIDTH),
        (facts(price_ms=0.6), Bound.UNKNOWN),  # far slower than such a message need be
        (facts(exposed_ms=0.04), Bound.HIDDEN),
        (facts(exposed_ms=0.06), Bound.BANDWIDTH),
        (facts(exposed_ms=0.3, slack_ms=1.0), Bound.GAPS),  # in gaps of the work beside it
        (facts(exposed_ms=0.3, slack_ms=0.9), Bound.BANDWIDTH),
        (facts(wait_ms=0.6), Bound.LATE_RANK),
        (facts(wait_ms=0.6, slack_ms=1.0), Bound.LATE_RANK),  # slack enough, but for the last
        (facts(wait_ms=0.4), Bound.BANDWIDTH),
        (facts(wait_ms=None), Bound.BANDWIDTH),
        (facts(movable_ms=1.0), Bound.SCHEDULE),
        (facts(movable_ms=0.9), Bound.BANDWIDTH),  # not enough to hide it
        (facts(movable_ms=0.5, slack_ms=0.5), Bound.SCHEDULE),
        (facts(movable_ms=1.0, link_busy=0.95), Bound.BANDWIDTH),  # no schedule has room for it
        (facts(movable_ms=None), Bound.BANDWIDTH),
        (facts(bound_by="latency"), Bound.LATENCY),
        (facts(bound_by="latency", price_ms=0.5), Bound.UNKNOWN),  # twice what latency explains
        (facts(transfer_ms=None, achieved=None), Bound.UNKNOWN),
    ],
)
def test_the_verdict(given: ExecutionFigures, bound: Bound) -> None:
    assert judge(given)[0] is bound


def test_the_reason_has_the_figures(said: Said) -> None:
    full, hidden = judge(facts())[1], judge(facts(exposed_ms=0.0004))[1]
    assert "300 GB/s of 450 GB/s" in full
    assert "286 MiB" in full
    assert "0.0004 of its 1 ms" in hidden  # not 0%
    said(full, hidden)


def test_without_a_rate_nothing_is_judged(said: Said) -> None:
    wire = Wire(link=Link.DCN, bytes=300e6)
    bound, why = judge(facts(wire=wire))
    assert bound is Bound.UNKNOWN
    assert "300 GB/s" in why
    said(why)


def test_between_slices_another_table_tells_the_time() -> None:
    given = facts(wire=Wire(link=Link.DCN, bytes=300e6), transfer_ms=None, achieved=None)
    assert "remote calls" in judge(given)[1]


@pytest.mark.parametrize(
    ("sent", "transfer_ms", "achieved", "bound"),
    [
        (300e6, 1.0, 300e9, Bound.BANDWIDTH),  # of 400
        (100e6, 1.0, 100e9, Bound.UNKNOWN),  # one axis may have no more
        (1024, 0.01, 1e8, Bound.LATENCY),  # 7 hops of a microsecond
        (1024, 1.0, 1e6, Bound.UNKNOWN),
    ],
)
def test_between_chips_of_a_tpu(
    sent: float, transfer_ms: float, achieved: float, bound: Bound
) -> None:
    wire = Wire(link=Link.ICI, bytes=sent, capacity=400e9)
    assert judge(facts(wire=wire, transfer_ms=transfer_ms, achieved=achieved))[0] is bound


def test_of_what_latency_binds_the_part_of_its_bytes_is_told(said: Said) -> None:
    bound, why = judge(facts(bound_by="latency", ranks=512))
    assert bound is Bound.LATENCY
    assert "67%" in why
    said(why)
    assert "its rounds among 512 ranks" in why
    assert "so small" not in why


@pytest.mark.parametrize(("achieved", "bound"), [(480e9, Bound.BANDWIDTH), (783e9, Bound.UNKNOWN)])
def test_more_than_a_link_gives_is_no_proof_that_it_is_full(achieved: float, bound: Bound) -> None:
    found, why = judge(facts(achieved=achieved))
    assert found is bound
    assert ("another link" in why) == (bound is Bound.UNKNOWN)


@pytest.mark.parametrize(
    ("sent", "transfer_ms", "bound"),
    [
        (896.0, 0.5, Bound.LATENCY),
        (65536.0, 0.7, Bound.LATENCY),
        (65536.0, 0.5, Bound.UNKNOWN),  # a slow link may need that long
        (300e6, 5000.0, Bound.UNKNOWN),
    ],
)
def test_next_to_no_bytes_are_latency_on_any_link(
    sent: float, transfer_ms: float, bound: Bound
) -> None:
    given = facts(wire=Wire(bytes=sent), transfer_ms=transfer_ms, achieved=sent / transfer_ms * 1e3)
    assert judge(given)[0] is bound


def test_many_operands_come_before_the_schedule() -> None:
    assert judge(facts(movable_ms=1.0, pieces="of 96"))[0] is Bound.OPERANDS
    assert judge(facts(wait_ms=0.6, pieces="of 96"))[0] is Bound.LATE_RANK


@pytest.mark.parametrize(
    ("given", "bound"),
    [
        (facts(), Bound.TOO_LITTLE),
        (facts(price_ms=0.6), Bound.TOO_LITTLE),
        (facts(bound_by="latency"), Bound.TOO_LITTLE),
        (facts(movable_ms=1.0), Bound.SCHEDULE),
        (facts(movable_ms=1.0, link_busy=0.95), Bound.BANDWIDTH),
        (facts(movable_ms=None), Bound.UNKNOWN),
        (facts(exposed_ms=0.04), Bound.HIDDEN),
    ],
)
def test_nothing_predicted_is_judged_by_its_own_price(
    given: ExecutionFigures, bound: Bound
) -> None:
    found, why = judge(replace(given, predicted=True))
    assert found is bound
    assert "expected" not in why
    if bound is Bound.TOO_LITTLE:
        assert "priced at 1 ms, 300 GB/s of 450 GB/s (8 ranks)" in why


def test_a_predicted_one_that_carries_next_to_nothing_is_not_bound_by_bandwidth(
    said: Said,
) -> None:
    wire = Wire(link=Link.NETWORK, bytes=8.0, capacity=50e9)
    found, why = judge(facts(wire=wire, achieved=8e3, link_busy=0.98, predicted=True))
    assert found is Bound.LATENCY
    assert why.startswith("8 bytes")
    said(why)


@pytest.mark.parametrize(("usual_ms", "bound"), [(0.3, Bound.LATENCY), (0.02, Bound.UNKNOWN)])
def test_latency_is_no_reason_where_others_like_it_are_far_faster(
    usual_ms: float, bound: Bound
) -> None:
    wire = Wire(link=None, bytes=48.0, capacity=None, price=None)
    found, why = judge(facts(wire=wire, achieved=1e5, usual_ms=usual_ms))
    assert found is bound
    assert ("take 0.02 ms" in why) is (bound is Bound.UNKNOWN)
