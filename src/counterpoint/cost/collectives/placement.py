"""Placement: the location of the ranks of a collective's groups, and their share of NICs.

Device i is on host i // devices per host, and in domain i // devices per domain: XLA numbers
devices host by host. Ranks count along the mesh; `Program.device` has their devices. Between the
NVLink islands of one host, and in a host without NVLink, PCIe is used; never a NIC.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from counterpoint.hlo.collectives import device_groups, pairs_by_number
from counterpoint.hlo.model.groups import Groups
from counterpoint.hlo.model.instruction import Instruction
from counterpoint.hlo.model.program import Program

if TYPE_CHECKING:
    from counterpoint.hardware.links import Links
    from counterpoint.hardware.target import Target


@dataclass(frozen=True, slots=True)
class Placement:
    """One group, with all that its price needs to know of the machine around it."""

    ranks: int
    domains: int  # number it touches; a host of several islands counts as one
    hosts: int
    local: int  # ranks in the domain with the fewest: they carry the crossing traffic
    nic_bytes_per_s: float  # of one such rank, each way, while all groups run; 0 within a domain
    bus: bool = False  # the host's PCIe, not NVLink, joins devices within a domain

    @property
    def crosses(self) -> bool:
        return self.domains > 1

    def __str__(self) -> str:
        if not self.crosses:
            return f"{self.ranks} ranks"
        return f"{self.domains} x {self.ranks / self.domains:g} ranks"


def placements(program: Program, instruction: Instruction, target: Target) -> tuple[Placement, ...]:
    """Return the distinct placements among an instruction's groups."""
    key = ("placements", _groups_of(instruction), target)
    answer = program.answers.get(key)
    if answer is None:
        groups = device_groups(program, instruction)
        groups = groups or (tuple(range(program.num_partitions * program.num_replicas)),)
        answer = program.answers[key] = place(groups, target)
    return answer


def _groups_of(instruction: Instruction) -> tuple[object, ...]:
    """Return all properties of an instruction that determine its groups."""
    kind = instruction.opcode.removesuffix("-start")
    channel = instruction.channel_id is not None
    return (instruction.groups, kind, channel, instruction.use_global_device_ids)


def place(groups: Groups, target: Target) -> tuple[Placement, ...]:
    """Return the distinct placements of groups on the target."""
    links = target.links
    crossing: Counter[int] = Counter()
    counts: list[tuple[tuple[int, ...], Counter[int]]] = []
    for group in groups:
        at = Counter(rank // _nearby(target, links) for rank in group)
        counts.append((group, at))
        if len(at) > 1:
            crossing.update(at)
    kinds = dict.fromkeys(_kind(group, at, crossing, target, links) for group, at in counts)
    return tuple(kinds)


def _kind(
    group: tuple[int, ...], at: Counter[int], crossing: Counter[int], target: Target, links: Links
) -> Placement:
    hosts = len({rank // target.gpus_per_host for rank in group})
    bus = not links.domain_bytes_per_s or len({rank // links.domain for rank in group}) > len(at)
    if len(at) < 2:
        return Placement(len(group), 1, hosts, len(group), 0.0, bus)
    busiest = max(crossing[domain] for domain in at)
    return Placement(
        ranks=len(group),
        domains=len(at),
        hosts=hosts,
        local=min(at.values()),
        nic_bytes_per_s=nic_share(busiest, target, links),
        bus=bus,
    )


def _nearby(target: Target, links: Links) -> int:
    """Return the number of devices that reach each other without a network."""
    return max(links.domain, target.gpus_per_host)


def nic_share(senders: int, target: Target, links: Links) -> float:
    """Return bytes per second of one of the devices of a domain that use its NICs at once.

    Each uses the nearest NIC; if a domain has fewer NICs than devices, some share one.
    """
    nearby = _nearby(target, links)
    whole = links.nic_bytes_per_s * nearby
    nics = max(1.0, links.nics_per_host * nearby / target.gpus_per_host)
    nearest = max(whole / nics, links.nic_bytes_per_s)
    if not links.domain_bytes_per_s:  # the only link of a plain card
        nearest = min(nearest, links.host_bytes_per_s)
    return min(nearest, whole / senders)


def pair_placement(pairs: Iterable[tuple[int, int]], target: Target) -> tuple[bool, float]:
    """Return whether PCIe joins any of these pairs, and the NIC rate of senders across domains.

    The rate is 0 if no pair crosses domains.
    """
    links = target.links
    nearby = _nearby(target, links)
    bus = not links.domain_bytes_per_s
    sends: Counter[int] = Counter()
    receives: Counter[int] = Counter()
    for source, to in pairs:
        source_domain, target_domain = source // nearby, to // nearby
        if source_domain != target_domain:
            sends[source_domain] += 1
            receives[target_domain] += 1
        elif source // links.domain != to // links.domain:
            bus = True
    busiest = max((*sends.values(), *receives.values()), default=0)
    return bus, nic_share(busiest, target, links) if busiest else 0.0


Pairs = tuple[tuple[int, int], ...]


def pairs_of(program: Program, instruction: Instruction) -> Pairs:
    """Return device pairs, numbered as replica * partitions + partition.

    A permute with a channel numbers partitions, and does the same in every replica; one without
    numbers replicas.
    """
    ranks = _in_all_replicas(program, instruction, pairs_by_number(instruction))
    return tuple((program.device(a), program.device(b)) for a, b in ranks)


def _in_all_replicas(program: Program, instruction: Instruction, pairs: Pairs) -> Pairs:
    width, replicas = program.num_partitions, program.num_replicas
    if instruction.channel_id is None and width > 1:
        return tuple((a * width + p, b * width + p) for a, b in pairs for p in range(width))
    if replicas > 1:
        return tuple((r * width + a, r * width + b) for a, b in pairs for r in range(replicas))
    return pairs


def pattern(pairs: Pairs) -> str:
    """Return the measured table's name for the pattern: ring, pairs that swap, or one way."""
    sources, targets = {a for a, _ in pairs}, {b for _, b in pairs}
    if not sources & targets:
        return "one way"
    return "pairs" if {(b, a) for a, b in pairs} == set(pairs) else "ring"
