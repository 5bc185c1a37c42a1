"""Prices collectives that cross domains: NCCL's model over the NICs that each group can use."""

from __future__ import annotations

from typing import Final

from counterpoint.cost.collectives.domain import machine
from counterpoint.cost.collectives.nccl import NcclEstimate, NcclGroup, estimates
from counterpoint.cost.collectives.placement import Placement
from counterpoint.cost.model import Price, PriceFamily, PriceSource
from counterpoint.cost.scalars import Scalars
from counterpoint.hardware import Target

# Measured with nccl-tests on H100s: all-to-all reaches this share of a ring's rate, because its
# messages are smaller and go to every peer.
_ALL_TO_ALL: Final = 0.85
_PEER_S: Final = 2e-6  # for each further peer across the network
_BASE_S: Final = 22.4e-6  # a first message: NCCL's 8.4 us to start and 14 us over the network
_PAIR: Final = 0.95  # share of a NIC's ring rate that one pair of ranks reaches
NIC: Final = "NIC"
# Relative error of latencies: a cloud's network may double them.
_LATENCY_REACH: Final = 0.6
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
        found = list(estimates(kind, size, group, domain_machine))
        fastest = min(found, key=lambda estimate: estimate.seconds)
        best = min(
            (estimate for estimate in found if not estimate.hopeful),
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
    found = NcclEstimate("pair", "Simple", _BASE_S, size / nic)
    return _price(found, found, f"pairs, {nic / 1e9:.3g} GB/s each", scalars)


def _all_to_all(size: int, where: Placement, nic: float, target: Target) -> NcclEstimate:
    """Price an all-to-all: traffic within and out of a domain is concurrent.

    Each peer gets a message.
    """
    stays = where.ranks / where.domains
    outside = size * (where.ranks - stays) / where.ranks
    inside = size * max(stays - 1, 0) / where.ranks
    links = target.links
    within = 0.75 * (links.host_bytes_per_s if where.bus else links.domain_bytes_per_s)
    if where.bus:  # traffic that leaves the host first uses the same bus
        inside += outside
    crossing_s, inside_s = outside / (nic * _ALL_TO_ALL), inside / within
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
