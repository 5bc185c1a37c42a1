"""A Target: the GPUs, their number on a host, the number of hosts, and a GPU's network rate.

Or slices of TPUs, which tpu.py describes.

A Target can be compiled for. Commands that compile nothing take Devices: any chip that is known by
name, AMD's and TPUs too. `targets.py` parses both.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from counterpoint.core import UsageError
from counterpoint.hardware.chip import Chip, chip_of_gpu, chips, find_chip, find_gpu, find_wiring
from counterpoint.hardware.links import UNKNOWN_WIRING, Links, Wiring

if TYPE_CHECKING:
    from counterpoint.hardware.gpu import Gpu
    from counterpoint.hardware.tpu import TpuSlice

_MEMORY: Final = re.compile(r"device_memory_size: (\d+)")
_BYTES_PER_GBIT: Final = 1e9 / 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Devices to compile for. `config` is XLA's GpuTargetConfigProto in text form.

    Of TPUs `tpu` has the slices, `gpu` is the chip's name, and `config` is empty.
    """

    gpu: str
    gpus_per_host: int
    hosts: int = 1
    nic_gbps: float | None = None  # per GPU, in one direction; None if not specified
    nics_per_host: int | None = None
    config: str
    # Overrides from a user's file.
    own_chip: Chip | None = field(default=None, hash=False)
    own_wiring: Wiring | None = None
    origin: str = ""  # the file that describes it, if any
    tpu: TpuSlice | None = field(default=None, hash=False)

    @property
    def devices(self) -> int:
        return self.hosts * self.gpus_per_host

    @property
    def known_gpu(self) -> Gpu | None:
        """The known GPU; None if only a configuration file describes it."""
        return find_gpu(self.gpu)

    @property
    def chip(self) -> Chip:
        """Its GPU's peak rates; raise UsageError if they are unknown."""
        chip = self.own_chip or chip_of_gpu(self.gpu) or find_chip(self.gpu)
        if chip is None:
            raise UsageError(
                f"the rates of {self.gpu} are unknown",
                why="known chips: " + ", ".join(chip.name for chip in chips()),
                next="describe it in a file: docs/reference/target-files.md",
            )
        return chip

    @property
    def memory_bytes(self) -> int:
        """Memory of one device, as the compiler sees it."""
        if self.tpu is not None:
            return self.tpu.tpu.hbm_usable
        match = _MEMORY.search(self.config)
        return int(match[1]) if match else round(self.chip.memory_bytes)

    @property
    def wiring(self) -> Wiring:
        """The links of its kind of GPU, or a user file's instead."""
        return self.own_wiring or find_wiring(self.gpu) or UNKNOWN_WIRING

    @property
    def links(self) -> Links:
        """The connections between its devices."""
        if self.tpu is not None:
            return self.tpu.links
        wiring = self.wiring
        is_given = self.nic_gbps is not None
        gbps = self.nic_gbps if self.nic_gbps is not None else wiring.nic_gbps
        return Links(
            domain=self._domain(wiring),
            domain_bytes_per_s=wiring.domain_bytes_per_s if wiring.joins else 0.0,
            generation=wiring.generation,
            host_bytes_per_s=wiring.pcie_bytes_per_s,
            nic_bytes_per_s=gbps * _BYTES_PER_GBIT,
            nics_per_host=self.nics_per_host or self.gpus_per_host,
            source=wiring.source,
            network_source="as given" if is_given else f"rule of thumb: {wiring.nic_source}",
            network_is_given=is_given,
        )

    def _domain(self, wiring: Wiring) -> int:
        """Return devices of one domain: a host's, part of them, or those of several whole hosts."""
        most = wiring.domain if wiring.joins else self.gpus_per_host
        if most <= self.gpus_per_host:
            return most
        if not wiring.spans_hosts:
            return self.gpus_per_host
        return min(self.devices, most // self.gpus_per_host * self.gpus_per_host)

    @property
    def hosts_per_rack(self) -> int:
        """Hosts that NVLink joins; 1 where it ends at the host."""
        return max(1, self.links.domain // self.gpus_per_host)

    @property
    def domains(self) -> int:
        """Sets of whole hosts that share NVLink, all of one size, as XLA counts them.

        A host is one, even if its own GPUs don't all share NVLink; a rack of NVL72 joins hosts.
        XLA takes equal sets only: where whole racks would leave a rest, they are the fewest
        smaller ones that come out even.
        """
        fewest = -(-self.hosts // self.hosts_per_rack)
        return next(n for n in range(fewest, self.hosts + 1) if self.hosts % n == 0)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the reader of a prediction."""
        if self.tpu is not None:
            return _slice_notes(self.tpu)
        gpu = self.known_gpu
        notes = [f"{self.gpu}: {gpu.stands_in}"] if gpu and gpu.stands_in else []
        links = self.links
        if self.devices > max(links.domain, self.gpus_per_host) and self.nic_gbps is None:
            gbps = links.nic_bytes_per_s / _BYTES_PER_GBIT
            yours = f"as in {self}:{gbps:g}G"
            if self.origin:
                yours = f'in the file: [network] nic = "{gbps:g} Gb/s"'
            notes.append(
                f"No network is given; using {gbps:g} Gb/s per GPU, a {links.network_source}. "
                f"State yours {yours}."
            )
        return tuple(notes)

    def __str__(self) -> str:
        if self.origin or self.tpu is not None:
            return self.origin or str(self.tpu)
        hosts = f"{self.hosts}x" if self.hosts > 1 else ""
        return f"{hosts}{self.gpus_per_host}x{self.gpu}{self._network()}"

    def _network(self) -> str:
        if self.nic_gbps is None:
            return ""
        if self.nics_per_host is None:
            return f":{self.nic_gbps:g}G"
        nic_rate = self.nic_gbps * self.gpus_per_host / self.nics_per_host
        return f":{self.nics_per_host}x{nic_rate:g}G"


def _slice_notes(where: TpuSlice) -> tuple[str, ...]:
    if where.slices == 1 or where.dcn_gbps is not None:
        return ()
    gbps = f"{where.tpu.dcn_gbps:g}"
    note = f"No network is given; using {gbps} Gb/s per host ({where.tpu.dcn_source})."
    return (f"{note} State yours as in {where}:{gbps}G.",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Devices:
    """The devices that run the program: how many of which chip, on how many hosts.

    `hosts` is None if it is unknown how many of the chip a host has: of the first TPUs. `slices`
    is None of GPUs, which have none; a slice of TPUs usually has many hosts, of `chips_per_host`.
    """

    chip: str
    count: int
    hosts: int | None = 1
    slices: int | None = None
    chips_per_host: int | None = None
