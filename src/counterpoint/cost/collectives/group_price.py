"""Prices the collective of one group: within a domain, or across domains over its NICs.

Within a domain a measured table is used if there is one, else NCCL's model.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

from counterpoint.cost.collectives.nccl import NcclEstimate, NcclGroup, NcclMachine, estimates
from counterpoint.cost.model import Price, PriceFamily, PriceSource, price_around
from counterpoint.cost.tables.nccl_tests import curve
from counterpoint.hardware.chip import collective_chip, measured_lines

if TYPE_CHECKING:
    from counterpoint.cost.collectives.placement import Placement
    from counterpoint.cost.scalars import Scalars
    from counterpoint.cost.tables.nccl_tests import SizeCurve
    from counterpoint.hardware.target import Target

_TABLE_REACH: Final = (
    0.15  # versions of NCCL differ by that: H200s' all-reduce of 2025 against ours
)
_FORMULA_REACH: Final = 0.3
_LATENCY_REACH: Final = 0.6  # a cloud's network may double latencies
# Shares of the data sheet's rate that large messages reach, for H100 in XLA's table.
_ALL_TO_ALL: Final = 0.75
_PERMUTE: Final = 0.63


@dataclass(frozen=True, slots=True)
class _TableRow:
    ranks: int
    groups: int
    curve: SizeCurve


def price_within(
    kind: str, size: int, ranks: int, target: Target, pattern: str = "", bus: bool = False
) -> Price:
    """Price a collective of `ranks` devices of one domain, or of one host joined by its `bus`."""
    bus = bus or not target.links.domain_bytes_per_s
    if ranks < 2 or size == 0:
        return price_around(
            _launch(), 1.0, PriceSource.ANALYTIC, PriceFamily.DOMAIN, "nothing to send", "latency"
        )
    in_table = None if bus else _from_table(kind, size, ranks, target, pattern)
    return in_table or _from_model(kind, size, ranks, target, bus)


def machine(target: Target, nic_bytes_per_s: float = 0.0, bus: bool = False) -> NcclMachine:
    """Return the machine that groups have within a domain of the target."""
    links = target.links
    nvlink = links.domain_bytes_per_s > 0 and not bus
    sharp = target.wiring.nvls if nvlink else 0.0
    rate = 0.8 * links.domain_bytes_per_s if nvlink else 0.7 * links.host_bytes_per_s
    return NcclMachine(rate, nvlink, sharp, nic_bytes_per_s)


def _launch() -> float:
    return 8.4e-6


def _from_table(kind: str, size: int, ranks: int, target: Target, pattern: str) -> Price | None:
    chip = collective_chip(target.gpu)
    if chip is None or chip.links is None:
        return None
    table = _table(chip.collective_table)
    rows = table.get((kind, pattern if kind == "collective-permute" else ""))
    if not rows:
        return None
    # Prefer more groups, which use more of the machine, if several layouts were measured.
    row = min(rows, key=lambda row: (abs(row.ranks - ranks), -row.groups))
    scaled_size = size * _share(kind, ranks) / _share(kind, row.ranks)
    seconds = row.curve.at(scaled_size)
    floor = min(row.curve.floor, seconds)
    slower = chip.links.domain_bytes_per_s / target.links.domain_bytes_per_s
    seconds = floor + (seconds - floor) * slower
    other = "" if row.ranks == ranks else f", measured with {row.ranks}"
    latency = seconds < 2 * floor
    # How long a pair takes hardly depends on how many others send meanwhile.
    close = not other or kind == "collective-permute"
    return price_around(
        seconds,
        _LATENCY_REACH if latency else _TABLE_REACH if close else 2 * _TABLE_REACH,
        PriceSource.TABLE,
        PriceFamily.DOMAIN,
        f"{ranks} ranks{other}, XLA's table",
        "latency" if latency else "bandwidth",
        target.links.generation,
    )


def _share(kind: str, ranks: int) -> float:
    """Return the share of a message that passes one device's links."""
    if kind == "collective-permute":
        return 1.0
    return (2 if kind == "all-reduce" else 1) * (ranks - 1) / ranks


def _from_model(kind: str, size: int, ranks: int, target: Target, bus: bool) -> Price:
    links = target.links
    sheet = links.host_bytes_per_s if bus else links.domain_bytes_per_s
    if kind in ("all-to-all", "ragged-all-to-all", "collective-permute"):
        share = _PERMUTE if kind == "collective-permute" else _ALL_TO_ALL
        latency = _launch() + (ranks - 1 if kind != "collective-permute" else 1) * 1e-6
        transfer = size * _share(kind.removeprefix("ragged-"), ranks) / (sheet * share)
        how, seconds = "point to point", latency + transfer
        bound = "latency" if latency > transfer else "bandwidth"
    else:
        choices = estimates(kind, size, NcclGroup(ranks, 1, ranks), machine(target, bus=bus))
        best = min(choices, key=lambda estimate: estimate.seconds)
        how, seconds, bound = f"{best.algorithm} {best.protocol}", best.seconds, best.bound_by
    reach = _LATENCY_REACH if bound == "latency" else _FORMULA_REACH
    joined = "PCIe" if bus and links.domain_bytes_per_s else links.generation
    how = f"{how}, {ranks} ranks, {joined}"
    return price_around(
        seconds, reach, PriceSource.ANALYTIC, PriceFamily.DOMAIN, how, bound, joined
    )


@cache
def _table(name: str) -> dict[tuple[str, str], tuple[_TableRow, ...]]:
    rows: dict[tuple[str, str], list[_TableRow]] = {}
    for line in measured_lines(name):
        kind, ranks, layout, points = line.split(",")
        pairs = (point.split("=") for point in points.split())
        measured = curve((int(size), float(us) * 1e-6) for size, us in pairs)
        pattern = layout if kind == "collective-permute" else ""
        groups = int(layout) if not pattern else 1
        rows.setdefault((kind, pattern), []).append(_TableRow(int(ranks), groups, measured))
    return {key: tuple(of_kind) for key, of_kind in rows.items()}


# Measured with nccl-tests on H100s: all-to-all reaches this share of a ring's rate, because its
# messages are smaller and go to every peer.
_ALL_TO_ALL_ACROSS: Final = 0.85
_PEER_S: Final = 2e-6  # for each further peer across the network
_BASE_S: Final = 22.4e-6  # a first message: NCCL's 8.4 us to start and 14 us over the network
_PAIR: Final = 0.95  # share of a NIC's ring rate that one pair of ranks reaches
NIC: Final = "NIC"
_BANDWIDTH_REACH: Final = 0.12


def price_across(kind: str, size: int, where: Placement, target: Target, scalars: Scalars) -> Price:
    """Price a collective of a group that spans several domains."""
    nic = where.nic_bytes_per_s * min(scalars.network.value, 1.0)
    domain_machine = machine(target, nic, where.bus)
    if kind in ("all-to-all", "ragged-all-to-all"):
        best = _all_to_all(size, where, nic, target)
        fastest = best
    else:
        group = NcclGroup(where.ranks, where.domains, where.local)
        choices = list(estimates(kind, size, group, domain_machine))
        fastest = min(choices, key=lambda estimate: estimate.seconds)
        best = min(
            (estimate for estimate in choices if not estimate.optimistic),
            key=lambda estimate: estimate.seconds,
        )
    how = f"{best.algorithm} {best.protocol}, {where}".replace(" ,", ",")
    binds, link = _nics(where, nic), NIC
    if best.within and best.bound_by == "bandwidth":
        link = "PCIe" if where.bus else target.links.generation
        binds = (
            f"bound by {link} at {domain_machine.domain_bytes_per_s / 1e9:.3g} GB/s, not by {binds}"
        )
    return _price(best, fastest, f"{how}, {binds}", scalars, link)


def price_pair(size: int, nic_bytes_per_s: float, scalars: Scalars) -> Price:
    """Price one rank's message to another across the network."""
    nic = nic_bytes_per_s * min(scalars.network.value, 1.0) * _PAIR
    estimate = NcclEstimate("pair", "Simple", _BASE_S, size / nic)
    return _price(estimate, estimate, f"pairs, {nic / 1e9:.3g} GB/s each", scalars)


def _all_to_all(size: int, where: Placement, nic: float, target: Target) -> NcclEstimate:
    """Price an all-to-all: traffic within and out of a domain is concurrent.

    Each peer gets a message.
    """
    stays = where.ranks / where.domains
    outside = size * (where.ranks - stays) / where.ranks
    inside = size * max(stays - 1, 0) / where.ranks
    links = target.links
    within = _ALL_TO_ALL * (links.host_bytes_per_s if where.bus else links.domain_bytes_per_s)
    if where.bus:  # traffic that leaves the host first uses the same bus
        inside += outside
    crossing_s, inside_s = outside / (nic * _ALL_TO_ALL_ACROSS), inside / within
    latency = _BASE_S + (where.ranks - stays - 1) * _PEER_S
    transfer = max(crossing_s, inside_s)
    return NcclEstimate("point to point", "", latency, transfer, within=inside_s > crossing_s)


def _price(
    best: NcclEstimate, fastest: NcclEstimate, how: str, scalars: Scalars, link: str = NIC
) -> Price:
    wire = scalars.network.reach + _BANDWIDTH_REACH
    low = min(fastest.seconds, best.latency / (1 + _LATENCY_REACH) + best.transfer / (1 + wire))
    high = best.latency * (1 + _LATENCY_REACH) + best.transfer * (1 + wire)
    bound = best.bound_by
    return Price(
        best.seconds, low, high, PriceSource.ANALYTIC, PriceFamily.NETWORK, how, bound, link
    )


def _nics(where: Placement, nic: float) -> str:
    rate = f"{nic / 1e9:.3g} GB/s"
    return f"{rate} NIC" if where.local == 1 else f"{where.local} x {rate} NICs"
