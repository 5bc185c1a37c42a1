"""Roles of threads in a trace: which hold a device's work, and where their events name a device."""

from __future__ import annotations

import re
from collections.abc import Collection
from enum import Enum, auto
from typing import Final

from counterpoint.timeline.chrome.tracks import EventKind, integer

DeviceKey = tuple[str, str, int]
"""Host (if the process name contains one), kind and ordinal."""

_DEVICE: Final = re.compile(r"(?:(.*)\s)?/device:(GPU|TPU|CPU):(\d{1,9})$", re.DOTALL)
_STREAM: Final = "Stream #"
# Lines that XLA or its viewer derives from others, or that hold no work.
_DERIVED: Final = (
    *("Framework ", "TensorFlow ", "Source code", "Host Offload Ops", "XLA TraceMe"),
    *("TC Overlay", "Launch Stats", "_counters_"),
)
_KINETO_DEVICE_WORK: Final = ("kernel", "gpu_memcpy", "gpu_memset")
_ANNOTATION: Final = "user_annotation"
GPU_ANNOTATION: Final = "gpu_user_annotation"
_KINETO_STEP: Final = re.compile(r"ProfilerStep#(\d{1,15})$")


class Role(Enum):
    """The role of a thread's events."""

    OPS = auto()
    ASYNC_OPS = auto()
    MODULES = auto()
    STEPS = auto()
    HOST = auto()
    DEVICE_STEPS = auto()  # on the thread of a device's kernels
    LEFT_OUT = auto()


class Naming(Enum):
    """The naming scheme of a device process's threads, which determines where its work lies."""

    STREAMS = auto()  # a GPU: work lies on the streams, and the other lines are derived from them
    XLA = auto()  # a TPU: work lies on lines with XLA's names
    OTHER = auto()  # no names that XLA uses for work


_NAMED: Final = {
    "XLA Ops": Role.OPS,
    "Async XLA Ops": Role.ASYNC_OPS,
    "XLA Modules": Role.MODULES,
    "Steps": Role.STEPS,
}
_WORK: Final = (Role.OPS, Role.ASYNC_OPS)


def device_of_process(name: str) -> DeviceKey | None:
    """Return the device whose work a process holds."""
    match = _DEVICE.match(name)
    return (match[1] or "", match[2].lower(), int(match[3])) if match else None


def naming_of(threads: Collection[str]) -> Naming:
    """Return the naming scheme of a process's threads."""
    if any(name.startswith(_STREAM) for name in threads):
        return Naming.STREAMS
    return Naming.XLA if any(_NAMED.get(name) in _WORK for name in threads) else Naming.OTHER


def role_of(process: str, thread: str, naming: Naming) -> Role:
    """Return the role of a thread."""
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


def device_of_kind(kind: EventKind) -> DeviceKey | None:
    """Return the device that an event on a host thread ran on, if the event has it.

    The CPU backend's virtual devices have no process: their ops are on host threads and carry a
    device ordinal. Kineto (PyTorch) has no device processes either: its kernels carry `cat` and
    `args.device`.
    """
    if kind.hlo_op is not None:
        ordinal = integer(kind.device_ordinal)
        return None if ordinal is None else ("", "cpu", ordinal)
    if kind.cat in _KINETO_DEVICE_WORK:
        ordinal = integer(kind.device)
        return None if ordinal is None else ("", "gpu", ordinal)
    return None


def step_of_kind(kind: EventKind) -> int | None:
    """Return the step that an event marks.

    Kineto draws an annotation of the host again on a GPU, from the first of its kernels on.
    """
    if kind.cat in (_ANNOTATION, GPU_ANNOTATION):
        match = _KINETO_STEP.match(kind.name)
        return int(match[1]) if match else None
    return integer(kind.step_num)


def mark_name(kind: EventKind) -> str:
    """Return the name that the markers of all steps share."""
    return kind.name.partition("#")[0] if _KINETO_STEP.match(kind.name) else kind.name
