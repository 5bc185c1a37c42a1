"""The fabric of a profile: the links between its devices, as a Target where one is known.

Without a Target, the chips determine how the devices of a host are connected; the rate of the
network between hosts is then unknown, and none is assumed.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from counterpoint.core import CounterpointError
from counterpoint.diagnose.step_data import StepData
from counterpoint.hardware.chip import find_chip, find_described, find_tpu, find_wiring
from counterpoint.hardware.target import Target
from counterpoint.hardware.target_config import target_config
from counterpoint.timeline.host_transfers import host_transfers
from counterpoint.timeline.model import Timeline, machines

if TYPE_CHECKING:
    from counterpoint.hardware.links import Links
    from counterpoint.hardware.tpu import Tpu


@dataclass(frozen=True, slots=True, kw_only=True)
class Fabric:
    """The links; `target` is built from what is known, None for TPUs and if hosts differ."""

    kind: str  # of the devices: gpu, tpu, cpu
    target: Target | None
    domain_known: bool  # the rate within a domain is known
    network_known: bool  # the rate of a NIC is known
    ici_bytes_per_s: float | None  # of a TPU, over all links that its chip has
    dcn_bytes_per_s: float | None = None  # of a TPU: its share of its host's network, if specified
    source: str  # where the rates come from


def target_of(timeline: Timeline) -> Target | None:
    """Return the target of a prediction; None if it has none, or a file that no longer exists."""
    if not timeline.target:
        return None

    from counterpoint.hardware.targets import parse_target

    try:
        return parse_target(timeline.target, tpus=True)
    except CounterpointError:
        return None


def fabric_of(data: StepData) -> Fabric:
    """Return the fabric of the selected devices."""
    timeline = data.timeline
    kinds = {timeline.devices[index].kind for index in data.selection.devices}
    kind = kinds.pop() if len(kinds) == 1 else "mixed"
    chips = {timeline.devices[index].chip for index in data.selection.devices}
    chip = chips.pop() if len(chips) == 1 else None
    described = data.context.target or target_of(timeline)
    if kind == "tpu":
        ici = find_tpu(chip)
        where = described.tpu if described is not None else None
        links = where.links if where else None
        specified = links is not None and links.network_is_given
        return Fabric(
            kind=kind,
            target=None,
            domain_known=False,
            network_known=False,
            ici_bytes_per_s=(where or ici).device_bytes_per_s if ici else None,
            dcn_bytes_per_s=links.nic_bytes_per_s if links and specified else None,
            source=_source_of_tpus(data, chip, ici, links),
        )
    target = described or _made_up(data, chip)
    known = target is not None and (
        target.own_wiring is not None or find_wiring(target.gpu) is not None
    )
    links = target.links if target is not None and known else None
    return Fabric(
        kind=kind,
        target=target,
        domain_known=known,
        network_known=links is not None and links.network_is_given,
        ici_bytes_per_s=None,
        source=_source(links, target.hosts) if links and target else _why_unknown(chip, target),
    )


def _source_of_tpus(data: StepData, chip: str | None, ici: Tpu | None, links: Links | None) -> str:
    source = ici.source if ici else f"the links of {chip or 'these TPUs'} are unknown"
    if host_transfers(data.timeline).is_empty():
        return source
    if links is None or not links.network_is_given:
        return (
            f"within a slice: {source}; the rate between slices is unknown; name it in the target"
        )
    gbps = links.nic_bytes_per_s * links.nics_per_host * 8 / 1e9
    return f"within a slice: {source}; {gbps:g} Gb/s per host between slices, as specified"


def _source(links: Links, hosts: int) -> str:
    if hosts < 2:
        return links.source
    if not links.network_is_given:
        return f"{links.source}; the rate between hosts is unknown; name it in the target"
    gbps = links.nic_bytes_per_s * 8 / 1e9
    return f"{links.source}; {gbps:g} Gb/s per device between hosts, as specified"


def _why_unknown(chip: str | None, target: Target | None) -> str:
    if target is None and chip is not None:
        return "the number of devices per host is unknown; name the target, such as 4x8xH100"
    return f"the links of {chip or 'this chip'} are unknown"


def _made_up(data: StepData, chip_name: str | None) -> Target | None:
    """Build a Target from the profile's own devices, as many as its program runs on."""
    program = data.program
    count = program.num_partitions * program.num_replicas if program else 0
    devices = max(count, len(data.timeline.devices))
    per_host = _per_machine(data)
    # A process with one device, of a program on several, may be one of many on its machine.
    if per_host is None or (per_host == 1 and devices > len(data.timeline.devices)):
        return None
    per_host = min(per_host, devices)
    hosts = -(-devices // per_host)
    chip = find_chip(chip_name)
    gpu = find_described(chip_name or "") or (chip.gpu if chip else None)
    if gpu is None:
        name = chip.name if chip else "unknown"
        return Target(gpu=name, gpus_per_host=per_host, hosts=hosts, config="", own_chip=chip)
    return Target(gpu=gpu.name, gpus_per_host=per_host, hosts=hosts, config=target_config(gpu))


def _per_machine(data: StepData) -> int | None:
    """Return the number of devices per machine; None if machines of the profile differ.

    None, too, if it does not record which machine has them.
    """
    timeline = data.timeline
    if machines(timeline.hosts) is None:
        return None
    counts = Counter(timeline.hosts[device.host].machine for device in timeline.devices)
    return counts.popitem()[1] if len(set(counts.values())) == 1 else None
