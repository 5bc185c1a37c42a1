"""Fabric: the links between the devices of a profile, as far as they are known.

A Target describes them. Without one, the chips determine how the devices of a host are connected;
the rate of the network between hosts is then unknown, and none is assumed.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from counterpoint.core import CounterpointError
from counterpoint.diagnose.step_data import StepData
from counterpoint.hardware import (
    Ici,
    Links,
    Target,
    find_chip,
    find_described,
    find_ici,
    find_wiring,
    gpus,
    target_config,
)
from counterpoint.hardware.targets import parse_target
from counterpoint.timeline import Timeline


@dataclass(frozen=True, slots=True, kw_only=True)
class Fabric:
    """The links; `target` is built from what is known, None for TPUs and if hosts differ."""

    kind: str  # of the devices: gpu, tpu, cpu
    target: Target | None
    domain_known: bool  # the rate within a domain is known
    network_known: bool  # the rate of a NIC is known
    ici: Ici | None
    source: str  # where the rates come from


def target_of(timeline: Timeline) -> Target | None:
    """Return the target of a prediction; None if it has none, or a file that no longer exists."""
    try:
        return parse_target(timeline.target) if timeline.target else None
    except CounterpointError:
        return None


def fabric_of(case: StepData) -> Fabric:
    """Return the fabric of the case's devices."""
    timeline = case.timeline
    kinds = {timeline.devices[index].kind for index in case.selection.devices}
    kind = kinds.pop() if len(kinds) == 1 else "mixed"
    chips = {timeline.devices[index].chip for index in case.selection.devices}
    chip = chips.pop() if len(chips) == 1 else None
    if kind == "tpu":
        ici = find_ici(chip)
        source = ici.source if ici else f"the links of {chip or 'these TPUs'} are unknown"
        return Fabric(
            kind=kind, target=None, domain_known=False, network_known=False, ici=ici, source=source
        )
    described = case.context.target or target_of(timeline)
    target = described or _made_up(case, chip)
    known = target is not None and (
        target.own_wiring is not None or find_wiring(target.gpu) is not None
    )
    links = target.links if target is not None and known else None
    return Fabric(
        kind=kind,
        target=target,
        domain_known=known,
        network_known=links is not None and links.network_source == "asked for",
        ici=None,
        source=_source(links, target.hosts) if links and target else _why_unknown(chip, target),
    )


def _source(links: Links, hosts: int) -> str:
    if hosts < 2:
        return links.source
    if links.network_source != "asked for":
        return f"{links.source}; the rate between hosts is unknown; state it with --target"
    gbps = links.nic_bytes_per_s * 8 / 1e9
    return f"{links.source}; {gbps:g} Gb/s per device between hosts, as specified"


def _why_unknown(chip: str | None, target: Target | None) -> str:
    if target is None and chip is not None:
        return "the number of devices per host is unknown; state it with --target, such as 4x8xH100"
    return f"the links of {chip or 'this chip'} are unknown"


def _made_up(case: StepData, chip_name: str | None) -> Target | None:
    """Build a Target from the profile's own devices, as many as its program runs on."""
    program = case.program
    count = program.num_partitions * program.num_replicas if program else 0
    devices = max(count, len(case.timeline.devices))
    per_host = _per_machine(case)
    # A process with one device, of a program on several, may be one of many on its machine.
    if per_host is None or (per_host == 1 and devices > len(case.timeline.devices)):
        return None
    per_host = min(per_host, devices)
    hosts = -(-devices // per_host)
    chip = find_chip(chip_name)
    gpu = find_described(chip_name or "") or (
        next((gpu for gpu in gpus() if gpu.chip == chip.name), None) if chip else None
    )
    if gpu is None:
        name = chip.name if chip else "unknown"
        return Target(gpu=name, gpus_per_host=per_host, hosts=hosts, config="", own_chip=chip)
    return Target(gpu=gpu.name, gpus_per_host=per_host, hosts=hosts, config=target_config(gpu))


def _per_machine(case: StepData) -> int | None:
    """Return the number of devices per machine; None if machines of the profile differ."""
    timeline = case.timeline
    counts = Counter(timeline.hosts[device.host].machine for device in timeline.devices)
    return counts.popitem()[1] if len(set(counts.values())) == 1 else None
