"""The host's processor, memory, limits and network, from the kernel, and its GPUs, from NVIDIA."""

from __future__ import annotations

import ctypes
import os
import re
import resource
import socket
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from counterpoint.doctor.facts import (
    NO_DRIVER,
    GpuState,
    HostGpus,
    HostMachine,
    HostNetwork,
    Interface,
    KernelClock,
    RdmaPort,
    ResourceLimit,
)
from counterpoint.doctor.recommended import SYSCTLS


def text_of(path: Path) -> str | None:
    """Return the text, stripped of surrounding whitespace; None if it can't be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except (OSError, ValueError):
        return None


def number_of(path: Path) -> int | None:
    """The whole number in a file; None where there is none, or it is below 0 (unknown speeds)."""
    text = text_of(path)
    try:
        value = int(text or "")
    except ValueError:
        return None
    return value if value >= 0 else None


def names_in(path: Path) -> tuple[str, ...]:
    """Return the names in a directory, sorted; empty if it can't be read."""
    try:
        return tuple(sorted(entry.name for entry in path.iterdir()))
    except OSError:
        return ()


_UNSYNCHRONIZED: Final = 0x40  # STA_UNSYNC of <sys/timex.h>
_ERROR: Final = 5  # TIME_ERROR
_LOCK: Final = threading.Lock()


class _Timex(ctypes.Structure):
    """The head of `struct timex`, padded for the remaining fields."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_byte * 256),
    )


def gather_machine(root: Path, clock: KernelClock | None = None) -> HostMachine:
    """Gather all of it; `clock` is the state of the kernel's clock if already read."""
    size, free = _space(root / "dev/shm")
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    governors, driver = _governors(root / "sys/devices/system/cpu")
    return HostMachine(
        open_files=_limit(resource.RLIMIT_NOFILE),
        locked=_limit(resource.RLIMIT_MEMLOCK),
        shared_bytes=size,
        shared_free=free,
        container=in_container(root),
        governors=governors,
        frequency_driver=driver,
        numa_nodes=_numa_nodes(root),
        cpus=os.cpu_count(),
        cpus_allowed=allowed,
        huge_pages=_huge_pages(root),
        clock=kernel_clock() if clock is None else clock,
    )


def kernel_clock() -> KernelClock:
    """Read the clock's state from adjtimex, without changing it."""
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        state = _Timex()
        with _LOCK:
            answer = int(libc.adjtimex(ctypes.byref(state)))
    except (OSError, AttributeError) as failure:
        return KernelClock(why_not=str(failure))
    if answer < 0:
        return KernelClock(why_not=os.strerror(ctypes.get_errno()))
    status, error = int(state.status), int(state.maxerror)
    synchronized = not status & _UNSYNCHRONIZED and answer != _ERROR
    return KernelClock(synchronized=synchronized, error_us=error if synchronized else None)


def in_container(root: Path) -> bool:
    """Return whether this is a Docker, Podman or Kubernetes container."""
    marks = ("/docker", "/kubepods", "/containerd", "/libpod")
    groups = text_of(root / "proc/1/cgroup") or ""
    files = (root / ".dockerenv", root / "run/.containerenv")
    return any(file.exists() for file in files) or any(mark in groups for mark in marks)


def _space(path: Path) -> tuple[int | None, int | None]:
    try:
        about = os.statvfs(path)
    except OSError:
        return None, None
    return about.f_blocks * about.f_frsize, about.f_bavail * about.f_frsize


def _limit(what: int) -> ResourceLimit | None:
    try:
        soft, hard = resource.getrlimit(what)
    except (OSError, ValueError):
        return None
    endless = resource.RLIM_INFINITY
    return ResourceLimit(None if soft == endless else soft, None if hard == endless else hard)


def _governors(cpus: Path) -> tuple[dict[str, int], str]:
    counted: Counter[str] = Counter()
    driver = ""
    for name in names_in(cpus):
        if name.startswith("cpu") and name[3:].isdecimal():
            governor = text_of(cpus / name / "cpufreq/scaling_governor")
            counted.update([governor] if governor else [])
            driver = driver or text_of(cpus / name / "cpufreq/scaling_driver") or ""
    return dict(counted), driver


def _numa_nodes(root: Path) -> int:
    names = names_in(root / "sys/devices/system/node")
    return max(1, sum(name.startswith("node") and name[4:].isdecimal() for name in names))


def _huge_pages(root: Path) -> str | None:
    text = text_of(root / "sys/kernel/mm/transparent_hugepage/enabled") or ""
    return text.partition("[")[2].partition("]")[0] or None


RunTool = Callable[[Sequence[str]], "str | None"]
"""Returns the output of a program; None if it can't be run or failed."""

_SECONDS: Final = 20
"""nvidia-smi takes seconds if the driver has to initialize the GPUs first."""


def run_tool(words: Sequence[str]) -> str | None:
    """Run a program with LC_ALL=C and return its output; None if it can't be run or fails."""
    try:
        done = subprocess.run(  # noqa: S603 - fixed commands
            words,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SECONDS,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "LC_ALL": "C"},
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout if done.returncode == 0 else None


_UP: Final = 0x1
_HYSTART: Final = "sys/module/tcp_cubic/parameters/hystart_detect"


def gather_network(root: Path, ask: RunTool, host: str) -> HostNetwork:
    """Gather all network facts."""
    route = ask(("ip", "-4", "route", "show", "default"))
    return HostNetwork(
        sysctls=dict(_sysctls(root)),
        interfaces=tuple(_interfaces(root / "sys/class/net")),
        default=tuple(_default_routes(root)),
        rdma=tuple(_ports(root / "sys/class/infiniband")),
        hystart_detect=text_of(root / _HYSTART),
        route=route.splitlines()[0].strip() if route and route.strip() else None,
        addresses=_addresses(host),
    )


def _sysctls(root: Path) -> Iterator[tuple[str, str]]:
    for name in SYSCTLS:
        text = text_of(root / "proc/sys" / name.replace(".", "/"))
        if text is not None:
            yield name, text


def _interfaces(directory: Path) -> Iterator[Interface]:
    for name in names_in(directory):
        interface = directory / name
        state = text_of(interface / "operstate")
        if state is None:
            continue  # bonding_masters and other files
        flags = text_of(interface / "flags") or "0x0"
        set_up = bool(int(flags, 16) & _UP) if flags.startswith("0x") else False
        yield Interface(
            name=name,
            up=state == "up" or (state == "unknown" and set_up),
            physical=(interface / "device").exists() or (interface / "bonding").exists(),
            mtu=number_of(interface / "mtu"),
            speed_mbps=number_of(interface / "speed"),
        )


def _default_routes(root: Path) -> Iterator[str]:
    for line in (text_of(root / "proc/net/route") or "").splitlines()[1:]:
        words = line.split()
        if len(words) > 1 and words[1] == "00000000":
            yield words[0]


def _ports(directory: Path) -> Iterator[RdmaPort]:
    for device in names_in(directory):
        for port in names_in(directory / device / "ports"):
            port_directory = directory / device / "ports" / port
            yield RdmaPort(
                device=device,
                port=int(port) if port.isdecimal() else 0,
                active="ACTIVE" in (text_of(port_directory / "state") or ""),
                link_layer=text_of(port_directory / "link_layer") or "",
                rate=text_of(port_directory / "rate") or "",
            )


def _addresses(host: str) -> tuple[str, ...] | None:
    """Return the addresses that the name resolves to; None if there are none."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return None
    return tuple(dict.fromkeys(str(entry[4][0]) for entry in found))


_FIELDS: Final = (
    "index,name,driver_version,persistence_mode,ecc.mode.current,memory.total"
    ",clocks_throttle_reasons.active"
)
_QUERY: Final = ("nvidia-smi", f"--query-gpu={_FIELDS}", "--format=csv,noheader,nounits")
_TOPOLOGY: Final = ("nvidia-smi", "topo", "-m")
_SLOWED: Final = {
    0x08: "the hardware (slowdown)",
    0x20: "heat (software)",
    0x40: "heat (hardware)",
    0x80: "the power brake",
}
"""Bits of NVML's clocks event reasons; idle, application clocks and power cap are not faults."""

_VERSION: Final = re.compile(r"Kernel Module(?: for \S+)?\s+(\d+(?:\.\d+)+)")
_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")
_ROW: Final = re.compile(r"GPU(\d+)\s")


def gather_gpus(root: Path, ask: RunTool) -> HostGpus:
    """Return the driver, and its GPUs if nvidia-smi lists them."""
    version = _VERSION.search(text_of(root / "proc/driver/nvidia/version") or "")
    driver = version[1] if version else None
    listed = ask(_QUERY)
    cards = tuple(_cards(listed or ""))
    driver = driver or _driver(listed or "")
    if driver is None:
        return HostGpus(driver=None, why_none=NO_DRIVER)
    return HostGpus(
        driver=driver,
        why_none="nvidia-smi lists no GPUs" if listed is not None else "nvidia-smi can't be run",
        cards=cards,
        admin_only=_admin_only(root),
        links=tuple(_links(ask(_TOPOLOGY) or "")) if len(cards) > 1 else (),
    )


def _rows(listed: str) -> Iterator[list[str]]:
    for line in listed.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) == _FIELDS.count(",") + 1 and cells[0].isdecimal():
            yield cells


def _driver(listed: str) -> str | None:
    return next((cells[2] for cells in _rows(listed) if cells[2][:1].isdecimal()), None)


def _cards(listed: str) -> Iterator[GpuState]:
    for index, name, _, persistence, ecc, memory, reasons in _rows(listed):
        yield GpuState(
            index=int(index),
            name=name,
            persistence=_switch(persistence),
            ecc=_switch(ecc),
            memory_bytes=int(memory) * 2**20 if memory.isdecimal() else None,
            slowed_by=_slowed_by(reasons),
        )


def _switch(text: str) -> bool | None:
    return {"enabled": True, "disabled": False}.get(text.lower())


def _slowed_by(text: str) -> tuple[str, ...]:
    try:
        bits = int(text, 16)
    except ValueError:
        return ()
    return tuple(words for bit, words in _SLOWED.items() if bits & bit)


def _admin_only(root: Path) -> bool | None:
    params = text_of(root / "proc/driver/nvidia/params") or ""
    found = re.search(r"^RmProfilingAdminOnly:\s*(\d+)", params, re.MULTILINE)
    return None if found is None else found[1] != "0"


def _links(matrix: str) -> Iterator[tuple[int, int, str]]:
    """Yield each pair once. The columns of the matrix are GPUs first, then network cards."""
    for line in _COLOUR.sub("", matrix).splitlines():
        row = _ROW.match(line)
        if row is None:
            continue
        gpu = int(row[1])
        for other_gpu, kind in enumerate(line.split()[1 : gpu + 1]):
            if re.fullmatch(r"[A-Z]+\d*", kind) and kind != "X":
                yield other_gpu, gpu, kind
