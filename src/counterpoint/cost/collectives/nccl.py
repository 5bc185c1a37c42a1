"""NCCL's latency-bandwidth model: the time of ring, tree and NVLink SHARP for a message.

time = latency of the steps + bytes / rate, the minimum over algorithms and protocols, as NCCL
itself chooses (src/graph/tuning.cc). Three of its choices do not work on all clusters, see
`NcclEstimate.optimistic`. Not modeled: PAT, CollNet (SHARP in switches), user buffers.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Final

_US: Final = 1e-6
_LL_MOST: Final = 2 << 20  # bytes up to which LL's latency is observed across nodes
_NVLS_LEAST: Final = 4  # minimum ranks of a node for NVLink SHARP


@dataclass(frozen=True, slots=True)
class NcclMachine:
    """The machine of a group: rates in bytes per second."""

    domain_bytes_per_s: float  # of one device's links within the domain, as a ring uses them
    nvlink: bool  # or PCIe
    nvls: float  # NVLink SHARP's rate over a ring's; 0 where there is none
    nic_bytes_per_s: float  # rate reached by one rank that sends across domains


@dataclass(frozen=True, slots=True)
class NcclGroup:
    """Ranks, the number of their domains, and the fewest ranks in one."""

    ranks: int
    domains: int
    local: int

    @property
    def local_mean(self) -> float:
        return self.ranks / self.domains


@dataclass(frozen=True, slots=True)
class NcclEstimate:
    """Seconds of one algorithm: of its steps, and of its bytes."""

    algorithm: str
    protocol: str
    latency: float
    transfer: float
    # Of several domains, what not every cluster does: LL128 needs a network that keeps the order of
    # stores, NVLink SHARP is usually off in JAX training (NCCL_NVLS_ENABLE=0 in vendors' recipes),
    # and measured messages of more than a few MiB don't show LL's latency.
    optimistic: bool = False
    # Of several domains: the links within each carry less than its NICs.
    within: bool = False

    @property
    def seconds(self) -> float:
        return self.latency + self.transfer

    @property
    def bound_by(self) -> str:
        return "latency" if self.latency > self.transfer else "bandwidth"


def estimates(
    kind: str, size: int, group: NcclGroup, machine: NcclMachine
) -> Iterator[NcclEstimate]:
    """Yield all of NCCL's options; `kind` is a Collective's."""
    protocols = ("ll", "ll128", "simple")
    for protocol in protocols:
        yield _ring(kind, size, group, machine, protocol)
        if kind == "all-reduce":
            yield _tree(size, group, machine, protocol)
    if kind == "all-reduce" and machine.nvls and group.local >= _NVLS_LEAST:
        yield _nvls(size, group, machine)


def steps(kind: str, ranks: int) -> int:
    """Return the number of rounds of a ring."""
    return {"all-reduce": 2 * (ranks - 1), "collective-broadcast": ranks}.get(kind, ranks - 1)


def _ring(
    kind: str, size: int, group: NcclGroup, machine: NcclMachine, protocol: str
) -> NcclEstimate:
    table = _constants()
    rounds = steps(kind, group.ranks)
    within = _within(machine)["ring"][protocol]
    latency = table["base"]["ring"][protocol]
    crossing = 0
    if group.domains > 1:
        crossing = (2 if kind == "all-reduce" else 1) * (group.domains - 1)
        within = max(within, table["overhead"]["net"][protocol])
        # With one rank per node nothing hides the network's latency.
        hop = table["net"]["tree" if group.local == 1 else "ring"][protocol]
        latency += crossing * hop
    latency += (rounds - crossing) * within
    if group.domains > 1 and kind == "all-reduce" and protocol == "simple":
        latency *= table["overhead"]["plateau"]
    rate = _bus(group, machine)
    if protocol == "ll":
        rate = min(rate * table["rate"]["ll"], _ll_most(group))
    elif protocol == "ll128":
        rate *= table["rate"]["ll128"]
    transfer = size * rounds / group.ranks / rate
    optimistic = _is_optimistic(protocol, size, group)
    return _estimate("ring", protocol, latency, transfer, optimistic, _is_within(group, machine))


def _tree(size: int, group: NcclGroup, machine: NcclMachine, protocol: str) -> NcclEstimate:
    table = _constants()
    within = _within(machine)["tree"][protocol]
    latency = table["base"]["tree"][protocol]
    latency += 2 * max(group.local_mean - 1, 0) * within
    latency += 2 * math.log2(group.domains) * table["net"]["tree"][protocol]
    # With two nodes, each is the root of one tree and the leaf of the other: half crosses.
    net = 2.0 if group.domains == 2 else 1.0
    rate = _bus(group, machine, net) * table["rate"]["tree"]
    if group.domains == 1:
        rate *= table["rate"]["tree_within"]
    if protocol == "ll":
        rate = min(rate / 3.8, _ll_most(group))
    elif protocol == "ll128":
        rate *= 7 / 9 if group.domains == 1 else 120 / 128
    transfer = 2 * size / (rate * _correction(protocol, size))
    optimistic = _is_optimistic(protocol, size, group)
    return _estimate(
        "tree", protocol, latency, transfer, optimistic, _is_within(group, machine, net)
    )


def _nvls(size: int, group: NcclGroup, machine: NcclMachine) -> NcclEstimate:
    table = _constants()
    latency = table["nvlink"]["nvls"]["simple"]
    latency += 2 * math.log2(group.domains) * table["net"]["nvls"]["simple"]
    rate = machine.domain_bytes_per_s * machine.nvls
    if group.domains > 1:
        rate = min(rate, _net(group, machine) * (2 if group.domains == 2 else 1))
    name = "NVLS tree" if group.domains > 1 else "NVLS"
    rounds = steps("all-reduce", group.ranks)
    transfer = size * rounds / group.ranks / rate
    return _estimate(name, "simple", latency, transfer, group.domains > 1)


def _estimate(
    algorithm: str,
    protocol: str,
    latency: float,
    transfer: float,
    optimistic: bool,
    within: bool = False,
) -> NcclEstimate:
    """Build an NcclEstimate from a latency in microseconds and a transfer in seconds."""
    seconds = (latency + _constants()["base"]["kernel"]) * _US
    return NcclEstimate(algorithm, _SPELT[protocol], seconds, transfer, optimistic, within)


def _is_optimistic(protocol: str, size: int, group: NcclGroup) -> bool:
    if group.domains == 1 or protocol == "simple":
        return False
    return protocol == "ll128" or size > _LL_MOST


def _bus(group: NcclGroup, machine: NcclMachine, net: float = 1.0) -> float:
    """Return the bytes per second that pass every point of a ring."""
    if group.domains == 1:
        return machine.domain_bytes_per_s
    crossing = _net(group, machine) * net
    return crossing if group.local == 1 else min(machine.domain_bytes_per_s, crossing)


def _is_within(group: NcclGroup, machine: NcclMachine, net: float = 1.0) -> bool:
    crossing = _net(group, machine) * net
    return group.domains > 1 and _bus(group, machine, net) < crossing


def _net(group: NcclGroup, machine: NcclMachine) -> float:
    return machine.nic_bytes_per_s * group.local


def _within(machine: NcclMachine) -> dict[str, dict[str, float]]:
    return _constants()["nvlink" if machine.nvlink else "pcie"]


def _ll_most(group: NcclGroup) -> float:
    nodes = "one" if group.domains == 1 else "two" if group.domains == 2 else "more"
    return _constants()["rate"]["ll_most"][nodes] * 1e9


def _correction(protocol: str, size: int) -> float:
    """Interpolate between powers of two, so that more bytes never take less time."""
    factors: list[float] = _constants()["tree_correction"][protocol]
    place = math.log2(max(size, 64) / 64)
    if place >= len(factors) - 1:
        return factors[-1]
    low, share = int(place), place - int(place)
    return factors[low] ** (1 - share) * factors[low + 1] ** share


_SPELT: Final = {"ll": "LL", "ll128": "LL128", "simple": "Simple"}


@cache
def _constants() -> dict[str, Any]:
    text = resources.files("counterpoint.cost.collectives").joinpath("nccl.toml").read_text("utf-8")
    return tomllib.loads(text)
