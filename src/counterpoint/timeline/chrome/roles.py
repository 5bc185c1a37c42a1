"""What a track or a kind of event is: work on a device, modules, steps, a host thread, or noise.

XLA names processes `/device:GPU:0`, `/device:TPU:0`, `/host:CPU`. The CPU backend's virtual devices
have no process: their ops lie on host threads and carry a device ordinal. Kineto (PyTorch) has no
device processes either: kernels carry `cat` and `args.device`.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from enum import Enum, auto
from typing import Final

from counterpoint.timeline.chrome.tracks import Kind

DeviceKey = tuple[str, str, int]
"""Host, where the process names one, kind and ordinal."""


class Role(Enum):
    """What the events of one thread are."""

    OPS = auto()
    ASYNC_OPS = auto()
    MODULES = auto()
    STEPS = auto()
    HOST = auto()
    LEFT_OUT = auto()


class Naming(Enum):
    """How the threads of a device process are named, which tells where its work lies."""

    STREAMS = auto()  # a GPU: work lies on the streams, and other lines are derived from them
    XLA = auto()  # a TPU: work lies on the lines named so
    OTHER = auto()  # no name that XLA gives to work


_DEVICE: Final = re.compile(r"(?:(.*)\s)?/device:(GPU|TPU|CPU):(\d{1,9})$", re.DOTALL)
_STREAM: Final = "Stream #"
_NAMED: Final = {
    "XLA Ops": Role.OPS,
    "Async XLA Ops": Role.ASYNC_OPS,
    "XLA Modules": Role.MODULES,
    "Steps": Role.STEPS,
}
_WORK: Final = (Role.OPS, Role.ASYNC_OPS)
# Lines that XLA or its viewer derives from others, or that say nothing of work.
_DERIVED: Final = (
    *("Framework ", "TensorFlow ", "Source code", "Host Offload Ops", "XLA TraceMe"),
    *("TC Overlay", "Launch Stats", "_counters_"),
)
_KINETO_DEVICE_WORK: Final = ("kernel", "gpu_memcpy", "gpu_memset")
_KINETO_STEP: Final = re.compile(r"ProfilerStep#(\d{1,15})$")


def device_of_process(name: str) -> DeviceKey | None:
    """The device whose work a process holds."""
    match = _DEVICE.match(name)
    return (match[1] or "", match[2].lower(), int(match[3])) if match else None


def naming_of(threads: Collection[str]) -> Naming:
    """How a process names its threads."""
    if any(name.startswith(_STREAM) for name in threads):
        return Naming.STREAMS
    return Naming.XLA if any(_NAMED.get(name) in _WORK for name in threads) else Naming.OTHER


def role_of(process: str, thread: str, naming: Naming) -> Role:
    """What a thread holds."""
    if device_of_process(process) is None:
        return Role.LEFT_OUT if process.startswith("/device:") else Role.HOST
    role = _NAMED.get(thread)
    if role in (Role.MODULES, Role.STEPS):
        return role
    if naming is Naming.STREAMS:
        return Role.OPS if thread.startswith(_STREAM) else Role.LEFT_OUT
    if naming is Naming.XLA:
        return role or Role.LEFT_OUT
    return Role.LEFT_OUT if thread.startswith(_DERIVED) else Role.OPS


def device_of_kind(kind: Kind) -> DeviceKey | None:
    """The device that an event on a host thread ran on, when it says so."""
    if kind.hlo_op is not None:
        ordinal = integer(kind.device_ordinal)
        return None if ordinal is None else ("", "cpu", ordinal)
    if kind.cat in _KINETO_DEVICE_WORK:
        ordinal = integer(kind.device)
        return None if ordinal is None else ("", "gpu", ordinal)
    return None


def step_of_kind(kind: Kind) -> int | None:
    """The step that an event on a host thread marks."""
    if kind.cat == "user_annotation":
        match = _KINETO_STEP.match(kind.name)
        return int(match[1]) if match else None
    return integer(kind.step_num)


def integer(value: object) -> int | None:
    """A whole number, which XLA writes as text."""
    if isinstance(value, str):
        return int(value) if value.isdecimal() and len(value) < 19 else None
    return value if isinstance(value, int) and abs(value) < 1 << 62 else None
