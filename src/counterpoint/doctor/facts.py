"""The facts of a host: everything the checks read, gathered before the first of them runs.

What a host does not reveal is None or empty, and the check that needs it reports `unknown`. Sizes
are in bytes; a limit of None means unlimited.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})
_NO_REQUIREMENTS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType({})
_NO_GOVERNORS: Final[Mapping[str, int]] = MappingProxyType({})
NO_DRIVER: Final = "no NVIDIA driver"


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledPackages:
    """Installed distributions related to JAX, and the requirements in their metadata.

    `shadowing`: NVIDIA libraries in directories of LD_LIBRARY_PATH.
    """

    python: str = ""
    packages: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    requires: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: _NO_REQUIREMENTS)
    shadowing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FlagRemark:
    """One remark of `flags check` on this environment; `why` and `source` are those of its rule."""

    code: str
    severity: str  # error, warning, note
    name: str
    message: str
    advice: str
    why: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedFlags:
    """The remarks of `flags check` on the environment; `why_not` if it could not be read.

    `names`: the settings that were checked. `libtpu`: those that only libtpu can check.
    """

    names: tuple[str, ...] = ()
    libtpu: tuple[str, ...] = ()
    release: str = ""
    remarks: tuple[FlagRemark, ...] = ()
    probed: bool = False
    why_not: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interface:
    """A network interface. `physical`: it has a device, and is not a bridge or a tunnel."""

    name: str
    up: bool
    physical: bool = True
    mtu: int | None = None
    speed_mbps: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RdmaPort:
    """A port of an InfiniBand or RoCE device."""

    device: str
    port: int
    active: bool
    link_layer: str = ""
    rate: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostNetwork:
    """`sysctls` by name, as far as the kernel shows them; `default`: default routes' interfaces."""

    sysctls: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    interfaces: tuple[Interface, ...] = ()
    default: tuple[str, ...] = ()
    rdma: tuple[RdmaPort, ...] = ()
    hystart_detect: str | None = None
    route: str | None = None  # the default route as `ip route` prints it
    addresses: tuple[str, ...] | None = None  # what the host's own name resolves to; None: nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuState:
    """One GPU, as nvidia-smi shows it; None for a value that it does not show."""

    index: int
    name: str
    persistence: bool | None = None
    ecc: bool | None = None
    memory_bytes: int | None = None
    slowed_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HostGpus:
    """NVIDIA driver and GPUs. `why_none`: why `cards` is empty. `links`: pairs, as in `topo -m`."""

    driver: str | None = None
    why_none: str = NO_DRIVER
    cards: tuple[GpuState, ...] = ()
    admin_only: bool | None = None  # hardware counters are for administrators only
    links: tuple[tuple[int, int, str], ...] = ()


@dataclass(frozen=True, slots=True)
class ResourceLimit:
    """A limit of the process: the current value, and the maximum to which it may be raised."""

    soft: int | None
    hard: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelClock:
    """State of the kernel's clock; `why_not` if the kernel does not report it."""

    synchronized: bool | None = None
    error_us: int | None = None
    why_not: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostMachine:
    """The host's processor, memory and limits."""

    open_files: ResourceLimit | None = None
    locked: ResourceLimit | None = None
    shared_bytes: int | None = None
    shared_free: int | None = None
    container: bool = False
    governors: Mapping[str, int] = field(default_factory=lambda: _NO_GOVERNORS)
    frequency_driver: str = ""
    numa_nodes: int = 1
    cpus: int | None = None
    cpus_allowed: int | None = None
    huge_pages: str | None = None  # the chosen mode of transparent huge pages
    clock: KernelClock = field(default_factory=KernelClock)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDirectory:
    """A directory that a run writes to, and the setting that names it."""

    path: str
    named_by: str
    exists: bool = True
    writable: bool = True
    filesystem: str = ""
    free_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFacts:
    """One host, as seen by one process. `hosts`: how many run together, as far as is known."""

    host: str
    hosts: int = 1
    ranks_here: int = 1
    dcn: bool = False
    tpu: bool = False
    privileged: bool = False
    environment: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    processes: tuple[str, ...] = ()
    software: InstalledPackages = field(default_factory=InstalledPackages)
    flags: CheckedFlags = field(default_factory=CheckedFlags)
    network: HostNetwork = field(default_factory=HostNetwork)
    gpus: HostGpus = field(default_factory=HostGpus)
    machine: HostMachine = field(default_factory=HostMachine)
    places: tuple[RunDirectory, ...] = ()

    @property
    def has_driver(self) -> bool:
        """True if there is an NVIDIA driver."""
        return self.gpus.driver is not None

    @property
    def has_rdma(self) -> bool:
        """True if an InfiniBand or RoCE port is up: then little of a step's traffic uses TCP."""
        return any(port.active for port in self.network.rdma)

    @property
    def by_tcp(self) -> bool:
        """True if a step's traffic between hosts uses TCP."""
        return self.dcn or (self.hosts > 1 and not self.has_rdma)


_REMOTE: Final = frozenset(
    {
        *("nfs", "nfs4", "lustre", "gpfs", "beegfs", "ceph", "cifs", "smb3", "9p", "afs", "wekafs"),
        *("glusterfs", "orangefs", "pvfs2", "virtiofs", "panfs", "daos", "juicefs", "vastnfs"),
    }
)
_REMOTE_FUSE: Final = (
    *("gcsfuse", "s3fs", "goofys", "sshfs", "rclone", "blobfuse", "juicefs", "weka"),
)


def is_remote(kind: str) -> bool:
    """Return whether several hosts can see a filesystem, given its type in `/proc/mounts`."""
    return kind in _REMOTE or any(word in kind for word in _REMOTE_FUSE)
