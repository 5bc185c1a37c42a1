"""The host's processor, memory, limits and clock, from the kernel."""

from __future__ import annotations

import ctypes
import os
import resource
import threading
from collections import Counter
from pathlib import Path
from typing import Final

from counterpoint.doctor.facts import (
    HostMachine,
    KernelClock,
    ResourceLimit,
)
from counterpoint.doctor.gather.kernel_files import names_in, text_of

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
