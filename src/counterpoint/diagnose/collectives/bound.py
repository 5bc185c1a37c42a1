"""Bound: why a collective is exposed, and the figures that show it.

exposed?  ── hardly ──────────────────────────────────────► hidden
  │ mostly waiting for the device that arrives last ───────► waiting for a late rank
  │ its slack covers it, but in gaps of the work beside it ► gaps beside it
  │ others of its kind and size with fewer operands
  │ are faster ────────────────────────────────────────────► many operands
  │ independent work could overlap it, and the links
  │ have spare time ───────────────────────────────────────► exposed by schedule
  │ predicted: the rate is an input, so it proves nothing ─► too little beside it
  │ starting it and its rounds take longer than its bytes ─► latency-bound
  │ as fast as the links allow for such a message ─────────► bandwidth-bound
  └ none of these, or figures are missing ─────────────────► unknown, with the reason
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from counterpoint.diagnose.collectives.links import Link, Wire

if TYPE_CHECKING:
    from counterpoint.cost.model import Price


HIDDEN: Final = 0.05
"""Exposed share of a collective's time up to which it is only the seam between two ops."""

_MOST: Final = 0.5
_FULL: Final = 0.9
"""Busy share of a link above which no other schedule hides its load."""

_NEAR: Final = 0.7
"""Share of the expected rate at which a collective counts as fast as its links allow; overlap with
compute costs up to a quarter against a benchmark.
"""

_ICI_NEAR: Final = 0.5
"""The same for ICI, relative to all links of a chip: an axis of a 2-D torus has half of them."""

_HOP_MS: Final = 1e-3
"""One hop between TPU chips, about a microsecond (Austin et al., How to Scale Your Model)."""

_BEYOND: Final = 1.2
"""Multiple of the data sheet's rate that no message reaches: NVLink SHARP reaches 1.07, counting
the bytes of a ring (480 GB/s on H200).
"""

_TINY_BYTES: Final = 1 << 16
_SLOW_LINK: Final = 1e9
"""Bytes per second that any link between devices carries: PCIe, 10 Gb/s Ethernet, memory."""

_SPELT: Final = {
    Link.DOMAIN: "links within a domain",
    Link.NETWORK: "network between hosts",
    Link.ICI: "links between chips",
    Link.DCN: "network between slices",
}


_UNUSUAL: Final = 4
"""Multiple of what similar collectives take above which its latency is no reason."""


class Bound(StrEnum):
    """The reason why a collective is exposed."""

    HIDDEN = "hidden"
    GAPS = "gaps beside it"
    BANDWIDTH = "bandwidth"
    LATENCY = "latency"
    SCHEDULE = "exposed by schedule"
    TOO_LITTLE = "too little beside it"
    LATE_RANK = "waiting for a late rank"
    OPERANDS = "many operands"
    # Derived from its place in the program, in `exposure.causes`:
    SYNCHRONOUS = "synchronous"
    SMALL = "could be merged"
    AT_END = "at an end of the step"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionFigures:
    """Figures of one execution, in milliseconds; None is not known."""

    total_ms: float
    exposed_ms: float
    wait_ms: float | None
    transfer_ms: float | None
    slack_ms: float | None
    movable_ms: float | None
    achieved: float | None  # bytes per second
    wire: Wire
    ranks: int | None
    kind: str
    link_busy: float  # share of the step in which its link is busy
    pieces: str | None = None  # its operands, if they make it slower than comparable collectives
    usual_ms: float | None = None  # what others of its kind and ranks with few bytes take
    predicted: bool = False  # its transfer time is the cost model's price


def judge(facts: ExecutionFigures) -> tuple[Bound, str]:
    """Return the bound and the figures that show it."""
    if facts.exposed_ms <= HIDDEN * facts.total_ms:
        shown = f"{facts.exposed_ms:.3g} of its {facts.total_ms:.3g} ms are exposed"
        return Bound.HIDDEN, shown
    late = min(facts.wait_ms or 0.0, facts.exposed_ms)
    if late > _MOST * facts.exposed_ms:
        return Bound.LATE_RANK, (
            f"{late:.3g} of {facts.exposed_ms:.3g} ms exposed pass before the last device arrives"
        )
    if facts.slack_ms is not None and facts.slack_ms >= facts.total_ms:
        return Bound.GAPS, (
            f"{facts.slack_ms:.3g} ms of slack for {facts.total_ms:.3g} ms: it is exposed only in"
            " gaps between the ops beside it"
        )
    if facts.pieces is not None:
        return Bound.OPERANDS, facts.pieces
    return _by_schedule(facts) or (_priced(facts) if facts.predicted else _by_links(facts))


def is_tiny(sent: float | None, transfer_ms: float | None) -> bool:
    """Return whether even the slowest link carries the bytes in a tenth of the transfer time."""
    if sent is None or not transfer_ms or sent > _TINY_BYTES:
        return False
    return sent / _SLOW_LINK * 1e3 <= 0.1 * transfer_ms


def is_small_message(sent: float | None) -> bool:
    """Return whether it is so few bytes that no link needs long for them."""
    return sent is not None and sent <= _TINY_BYTES


def _by_schedule(facts: ExecutionFigures) -> tuple[Bound, str] | None:
    slack, movable = facts.slack_ms, facts.movable_ms
    # If it is not known who waited for whom, work has to cover the waiting too.
    needs = facts.transfer_ms if facts.transfer_ms is not None else facts.total_ms
    if slack is None or movable is None or slack >= needs:
        return None
    if movable < needs - slack or facts.link_busy >= _FULL:
        return None
    lasts = f"a transfer of {needs:.3g} ms"
    if facts.transfer_ms is None:
        lasts = f"{needs:.3g} ms, including any wait for others"
    return Bound.SCHEDULE, (
        f"{slack:.3g} ms of slack for {lasts}, although up to {movable:.3g} ms of independent work"
        " is available elsewhere"
    )


def _priced(facts: ExecutionFigures) -> tuple[Bound, str]:
    """Judge a prediction: its rate comes from the cost model and proves nothing about the links."""
    slack, movable = facts.slack_ms, facts.movable_ms
    if slack is None or movable is None:
        return Bound.UNKNOWN, f"work that could overlap it is unknown; {_price(facts)}"
    if facts.link_busy >= _FULL and is_tiny(facts.wire.bytes, facts.transfer_ms):
        return Bound.LATENCY, f"{_bytes(facts)}, little for any link; {_price(facts)}"
    if facts.link_busy >= _FULL:
        return Bound.BANDWIDTH, (
            f"its links are in use for {facts.link_busy:.0%} of the step, so no schedule hides"
            f" their load; {_price(facts)}"
        )
    return Bound.TOO_LITTLE, (
        f"{slack:.3g} ms of slack, and {movable:.3g} ms of independent work elsewhere; "
        + _price(facts)
    )


def _price(facts: ExecutionFigures) -> str:
    price = facts.wire.priced or facts.wire.price
    how = f" ({price.how})" if price and price.how else ""
    price_text = f"priced at {facts.transfer_ms or facts.total_ms:.3g} ms"
    if facts.achieved is None:
        return price_text + how
    return f"{price_text}, {_share(facts, facts.achieved).split(',')[0]}{how}"


def _by_links(facts: ExecutionFigures) -> tuple[Bound, str]:
    if facts.transfer_ms is None or facts.achieved is None:
        return Bound.UNKNOWN, _missing(facts.wire)
    if facts.wire.capacity is None:
        return _unheld(facts, facts.transfer_ms, facts.achieved)
    if facts.achieved > _BEYOND * facts.wire.capacity:
        return Bound.UNKNOWN, (
            f"{_share(facts, facts.achieved)} exceeds the capacity of the link: another link, or"
            " another chip, than assumed"
        )
    if facts.wire.price is not None:
        return _against_price(facts, facts.wire.price, facts.transfer_ms, facts.achieved)
    if facts.wire.link is Link.ICI:
        return _on_ici(facts, facts.transfer_ms, facts.achieved, facts.wire.capacity)
    return _unheld(facts, facts.transfer_ms, facts.achieved)


def _missing(wire: Wire) -> str:
    if wire.link is Link.DCN:
        return "for transfers between slices see the remote calls, and STEP201 of `explain`"
    missing = "duration of the transfer" if wire.bytes else "number of bytes"
    return f"the {missing} is unknown"


def _unheld(facts: ExecutionFigures, transfer_ms: float, achieved: float) -> tuple[Bound, str]:
    """Judge a collective for which there is no expected rate."""
    if is_tiny(facts.wire.bytes, transfer_ms):
        if facts.usual_ms is not None and transfer_ms > _UNUSUAL * facts.usual_ms:
            return Bound.UNKNOWN, (
                f"{_each(facts, transfer_ms)}, though others of its kind{_among(facts)} take"
                f" {facts.usual_ms:.2g} ms: something else holds it up"
            )
        return Bound.LATENCY, (
            f"{_each(facts, transfer_ms)}, little for any link: its start and"
            f" rounds{_among(facts)} take the time"
        )
    carries = f"{achieved / 1e9:.3g} GB/s achieved"
    if facts.wire.link is None:
        return Bound.UNKNOWN, f"{carries}; the links that carry it are unknown"
    if facts.wire.capacity is not None:
        return (
            Bound.UNKNOWN,
            f"{_share(facts, achieved)}; the expected rate of such a message is unknown",
        )
    return Bound.UNKNOWN, f"{carries}; the capacity of the {_SPELT[facts.wire.link]} is unknown"


def _against_price(
    facts: ExecutionFigures, price: Price, transfer_ms: float, achieved: float
) -> tuple[Bound, str]:
    """Judge by the cost model's price; no message reaches the rate of the data sheet."""
    expected_ms = price.seconds * 1e3
    if price.bound_by == "latency" and transfer_ms <= price.high * 1e3:
        return Bound.LATENCY, (
            f"{_each(facts, transfer_ms)}{_carried(facts, transfer_ms)}: the rest is"
            f" its start and its rounds{_among(facts)}; {expected_ms:.2g} ms expected ({price.how})"
        )
    rate = _share(facts, achieved)
    if price.bound_by != "latency" and expected_ms >= _NEAR * transfer_ms:
        return Bound.BANDWIDTH, (
            f"{rate}, {expected_ms / transfer_ms:.0%} of the rate expected for {_bytes(facts)}"
            f" ({price.how})"
        )
    return Bound.UNKNOWN, (
        f"{transfer_ms:.3g} ms, {transfer_ms / expected_ms:.2g} times the time expected for"
        f" {_bytes(facts)} ({price.how}); {rate}"
    )


def _on_ici(
    facts: ExecutionFigures, transfer_ms: float, achieved: float, capacity: float
) -> tuple[Bound, str]:
    from counterpoint.cost.collectives.nccl import steps

    latency_ms = steps(facts.kind, facts.ranks or 2) * _HOP_MS
    sends_ms = (facts.wire.bytes or 0.0) / capacity * 1e3
    if latency_ms > sends_ms and transfer_ms <= 2 * (latency_ms + sends_ms):
        return Bound.LATENCY, (
            f"{_each(facts, transfer_ms)}: hops between chips take about"
            f" {latency_ms:.2g} ms, regardless of the size"
        )
    rate = _share(facts, achieved)
    if achieved >= _ICI_NEAR * capacity:
        return Bound.BANDWIDTH, f"{rate} (all links of a chip in one direction)"
    return Bound.UNKNOWN, f"{rate}; the number of a chip's links that its group uses is unknown"


def _carried(facts: ExecutionFigures, transfer_ms: float) -> str:
    """Describe the share of the transfer that the bytes need at the link's full rate."""
    if not facts.wire.capacity or facts.wire.bytes is None:
        return ""
    ms = min(facts.wire.bytes / facts.wire.capacity * 1e3, transfer_ms)
    return f", {ms / transfer_ms:.0%} of it for the bytes at {facts.wire.capacity / 1e9:.3g} GB/s"


def _each(facts: ExecutionFigures, transfer_ms: float) -> str:
    return f"each transfer takes {transfer_ms:.3g} ms, in which a device sends {_bytes(facts)}"


def _among(facts: ExecutionFigures) -> str:
    return f" among {facts.ranks:,} ranks" if facts.ranks else ""


def _share(facts: ExecutionFigures, achieved: float) -> str:
    capacity = facts.wire.capacity
    rate = f"{achieved / 1e9:.3g} GB/s"
    if not capacity:
        return rate
    return f"{rate} of {capacity / 1e9:.3g} GB/s, {achieved / capacity:.0%}"


def _bytes(facts: ExecutionFigures) -> str:
    size = facts.wire.bytes or 0.0
    for unit, scale in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size >= scale:
            return f"{size / scale:.3g} {unit}"
    return f"{size:.0f} bytes"
