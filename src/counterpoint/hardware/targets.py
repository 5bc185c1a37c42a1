"""Parses Targets as users write them.

`8xH100` is one host; `64x8xH100` is 64 hosts of 8; `64x8xH100:400G` gives the rate of each GPU's
NIC, `64x8xH100:4x200G` the NICs of a host. A path ending in `.toml` names a target file. Commands
that compile nothing take TPUs too, `256xTPUv5e` or by the name of the slice: `v5e-256`. Slices as
targets of a prediction are parsed in tpu_targets.py.

A host is never larger than those that are sold: `512xH100` would be one NVLink domain of 512.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from counterpoint.core import ArgumentError, UsageError
from counterpoint.hardware.chip import (
    chip_of_tpu,
    chips,
    find_chip,
    find_gpu,
    find_tpu,
    find_wiring,
    gpus,
)
from counterpoint.hardware.target import Devices, Target
from counterpoint.hardware.target_config import target_config
from counterpoint.hardware.target_file import read_target

if TYPE_CHECKING:
    from counterpoint.hardware.tpu import Tpu


__all__ = [
    "even_hosts",
    "known_chip",
    "parse_devices",
    "parse_target",
    "resize_advice",
    "target_name",
]


_SPELLING: Final = re.compile(
    r"(?:(?P<hosts>\d{1,9})[xX])?(?P<count>\d{1,9})[xX](?P<chip>[A-Za-z][\w .-]*?)"
    r"(?P<network>:(?:(?P<nics>\d{1,9})[xX])?(?P<nic>\d{1,9}(?:\.\d+)?)(?P<unit>[A-Za-z/]+))?",
    re.ASCII,
)
_GBITS: Final = re.compile(r"[Gg](?:b|bps|b/s|bit|bit/s)?")
_SLICE: Final = re.compile(
    r"(?:TPU[ -]?)?((?:tpu)?v?\d+[a-z]*)-(\d{1,9})", re.IGNORECASE | re.ASCII
)
_MOST_DEVICES: Final = 1 << 20
_MOST_GBPS: Final = 3_200
"""For one GPU: twice the 1,600 Gb/s that two ConnectX-9 give the GPUs of NVIDIA's newest racks."""
_EXAMPLE: Final = "8xH100"
_NETWORK_EXAMPLE: Final = "4x8xH100:400G"
_UNMEASURED: Final = (
    (r"TPU[ -]?(v\d+[a-z]*|v5 lite)", "TPU {}"),
    (r"MI[ -]?(\d{2,3}[A-Z]?)", "MI{}"),
    (r"RTX[ -]?6000[ -]Ada(?: Generation)?", "RTX 6000 Ada"),
    (r"RTX[ -]?((?:PRO ?|A)?\d{0,4})", "RTX {}"),
    (r"(GH200|H20|H800|A800|A10G?|A16|A30|A40|L4|L40|T4|P4|P40|P100|V100S?)", "{}"),
)
"""Chips without peak rates here, by their vendors' names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Host:
    """The usual and the maximum number of devices of a chip in one host (or slice)."""

    usual: int
    most: int
    source: str
    word: str = "host"


_UNKNOWN_HOST: Final = _Host(usual=8, most=16, source="servers have at most 16 GPUs")
_UNKNOWN_SLICE: Final = _Host(
    usual=_MOST_DEVICES, most=_MOST_DEVICES, source="its largest slice is unknown", word="slice"
)
_GRACE_HOPPER: Final = _Host(usual=1, most=32, source="GH200 NVL32 joins 32")


def parse_target(text: str, *, tpus: bool = False) -> Target:
    """Parse a Target such as `8xH100`, `64x8xH100:8x400G` or a file's path.

    With `tpus`, slices of TPUs too: `v5e-256`.
    """
    if _is_file(text):
        return read_target(text.strip())
    from counterpoint.hardware.tpu_targets import parse_tpu_target

    where = parse_tpu_target(text)
    if where is not None:
        if tpus:
            return where
        raise _refused(
            text,
            "this needs GPUs",
            "TPUs are a target of predict, upgrade, flags recommend and the search of tune",
        )
    match = _spelt(text)
    gpu = find_gpu(match["chip"])
    if gpu is None:
        raise _refused(
            text,
            f"no program can be compiled for {match['chip']} here",
            "GPUs that XLA is given a description of: "
            + ", ".join(gpu.name for gpu in gpus())
            + "; describe others in a file (docs/reference/target-files.md). TPUs are named by"
            " their slice: v5e-8",
        )
    hosts, count = _counts(match, text, gpu.name)
    nic, nics = _network(match, text, count)
    return Target(
        gpu=gpu.name,
        gpus_per_host=count,
        hosts=hosts,
        nic_gbps=nic,
        nics_per_host=nics,
        config=target_config(gpu),
    )


def parse_devices(text: str) -> Devices:
    """Parse Devices, written like a Target, of any chip that is known by name."""
    if _is_file(text):
        target = read_target(text.strip())
        return Devices(chip=target.gpu, count=target.devices, hosts=target.hosts)
    from counterpoint.hardware.tpu_targets import parse_tpu_target

    with suppress(UsageError):  # flags depend on the generation even where no such slice is sold
        where = parse_tpu_target(text)
        if where is not None and where.tpu is not None:
            return Devices(
                chip=where.gpu,
                count=where.devices,
                hosts=where.hosts,
                slices=where.tpu.slices,
                chips_per_host=where.tpu.chips_per_host,
            )
    match = _spelt(text)
    chip = known_chip(match["chip"])
    if chip is None:
        known = [*(gpu.name for gpu in gpus()), *(known_chip.name for known_chip in chips())]
        raise _refused(
            text,
            f"unknown chip {match['chip']}",
            "known chips: " + ", ".join(dict.fromkeys(known)) + ", and others by their vendors'"
            " names",
        )
    groups, size = _counts(match, text, chip)
    _network(match, text, size)
    if chip.startswith("TPU"):
        return Devices(chip=chip, count=groups * size, hosts=None, slices=groups)
    return Devices(chip=chip, count=groups * size, hosts=groups)


def even_hosts(chip: str, devices: int) -> tuple[int, int]:
    """Return equal hosts for this many devices, and the devices of each: 12 H100 are 3 hosts of 4.

    No host is larger than hosts with that chip usually are.
    """
    host = _host(chip)
    if devices <= host.usual:
        return 1, devices
    size = host.usual
    while devices % size:
        size //= 2
    return devices // size, size


def target_name(chip: str, devices: int) -> str:
    """Format a number of devices of a chip as a target."""
    hosts, count = even_hosts(chip, devices)
    return f"{hosts}x{count}x{chip}" if hosts > 1 else f"{count}x{chip}"


def resize_advice(target: Target, devices: int) -> str:
    """Tell a user how to specify this many devices of the target's kind."""
    if target.tpu is not None:
        from counterpoint.hardware.tpu_targets import resized

        return f"use --target {resized(target.tpu, devices)}"
    hosts, count = devices // target.gpus_per_host, target.gpus_per_host
    several = target.hosts > 1 or target.origin  # then the host size was the user's choice
    if not several or hosts * count != devices:
        hosts, count = even_hosts(target.gpu, devices)
    if target.origin:
        return f"in {target.origin} hosts = {hosts} and gpus_per_host = {count}"
    nics = target.nics_per_host if count == target.gpus_per_host else None
    fitting = replace(target, hosts=hosts, gpus_per_host=count, nics_per_host=nics)
    return f"use --target {fitting}"


def _refused(
    text: str, problem: str, why: str | None, instead: str = _EXAMPLE, remark: str = ""
) -> ArgumentError:
    return ArgumentError("target", text, problem, why=why, instead=instead, remark=remark)


def _is_file(text: str) -> bool:
    return text.strip().casefold().endswith(".toml")


def known_chip(name: str) -> str | None:
    """Return a chip by its vendor's name; None if no such chip is known."""
    gpu = find_gpu(name)
    if gpu is not None:
        return gpu.name
    for pattern, spelt in _UNMEASURED:
        match = re.fullmatch(pattern, name.strip(), re.IGNORECASE)
        if match is not None:
            suffix = next(filter(None, match.groups()), "")
            suffix = suffix.lower() if spelt.startswith("TPU") else suffix.upper()
            return spelt.format(suffix).strip()
    chip = find_chip(name)
    return chip.name if chip is not None else None


def _spelt(text: str) -> re.Match[str]:
    match = _SPELLING.fullmatch(_without_slice(text.strip()))
    if match is None:
        raise _refused(
            text,
            "not a target",
            "a target is GPUSxCHIP or HOSTSxGPUSxCHIP, optionally followed by :400G for the network"
            " of each GPU or :8x400G for the NICs of a host",
        )
    return match


def _without_slice(text: str) -> str:
    """Expand the slice name `v5e-256` to 256xTPUv5e, converting cores to devices."""
    match = _SLICE.fullmatch(text)
    if match is None:
        return text
    from counterpoint.hardware.tpu_targets import counted_devices

    counted = counted_devices(match[1], int(match[2]))
    if counted is not None:
        return f"{counted[1]}x{chip_of_tpu(counted[0]).name.replace(' ', '')}"
    # Names of v2 and v3 count cores, and each core is a device.
    return f"{match[2]}xTPU{match[1].lower()}"


def _counts(match: re.Match[str], text: str, chip: str) -> tuple[int, int]:
    """Return hosts, and devices on each.

    Raise if that is more than a host with that chip can have.
    """
    hosts, count = int(match["hosts"] or 1), int(match["count"])
    devices = hosts * count
    if not 0 < devices <= _MOST_DEVICES:
        raise _refused(text, f"{devices:,} devices", f"a target has 1 to {_MOST_DEVICES:,} devices")
    host = _host(chip)
    if count > host.most:
        raise _refused(
            text,
            f"one {host.word} of {count:,} {chip}, but no {host.word} has more than {host.most:,}",
            host.source,
            *_proposal(chip, devices, match["network"]),
        )
    return hosts, count


def _proposal(chip: str, devices: int, network: str | None) -> tuple[str, str]:
    """Propose the same devices on hosts as they are sold, with a remark on them."""
    plain = chip.replace(" ", "")
    tpu = _tpu(chip)
    if tpu is not None:
        slices = -(-devices // tpu.slice_devices)
        while devices % slices:
            slices += 1
        return f"{slices}x{devices // slices}x{plain}", f"{slices:,} slices"
    hosts, count = even_hosts(chip, devices)
    usual = _host(chip).usual
    whole = -(-devices // usual)
    wiring = find_wiring(chip)
    gbps = f"{wiring.nic_gbps:g}" if wiring and not network else ""
    links = network or (f":{gbps}G" if gbps else "")
    remark = f"{hosts:,} hosts of {count}"
    if gbps:
        remark += f", {gbps} Gb/s for each GPU"
    if count < usual:
        remark += f"; in whole hosts, {whole}x{usual}x{plain}{links} holds {whole * usual:,}"
    return f"{hosts}x{count}x{plain}{links}", remark


def _tpu(chip: str) -> Tpu | None:
    return find_tpu(chip) if chip.startswith("TPU") else None


def _host(chip: str) -> _Host:
    tpu = _tpu(chip)
    if tpu is not None:
        most = tpu.slice_devices
        return _Host(usual=most, most=most, source=tpu.slice_source, word="slice")
    if chip.startswith("TPU"):
        return _UNKNOWN_SLICE
    if chip.startswith("GH200"):
        return _GRACE_HOPPER
    wiring = find_wiring(chip)
    if wiring is None:
        return _UNKNOWN_HOST
    return _Host(usual=wiring.host, most=wiring.most, source=wiring.host_source)


def _network(
    match: re.Match[str], text: str, gpus_per_host: int
) -> tuple[float | None, int | None]:
    """Return Gb/s per GPU, and NICs per host, as specified."""
    if match["nic"] is None:
        return None, None
    gbps, nics = float(match["nic"]), int(match["nics"]) if match["nics"] else None
    if not _GBITS.fullmatch(match["unit"]):
        in_bytes = match["unit"].upper().startswith("G") and "B" in match["unit"]
        raise _refused(
            text,
            f"network rates are in Gb/s (G), not {match['unit']}",
            f"NICs are rated in bits; {gbps:g} GB/s are {gbps * 8:g}G" if in_bytes else None,
            _NETWORK_EXAMPLE,
        )
    if gbps == 0 or nics == 0:
        raise _refused(text, "a network of 0 Gb/s", None, _NETWORK_EXAMPLE)
    each = gbps if nics is None else gbps * nics / gpus_per_host
    if each > _MOST_GBPS:
        raise _refused(
            text,
            f"a network of {each:,.0f} Gb/s for each GPU",
            f"the maximum is {_MOST_GBPS:,}; :400G is per GPU, :8x400G per host",
            _NETWORK_EXAMPLE,
        )
    return each, nics
