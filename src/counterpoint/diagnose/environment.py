"""The hardware and the settings of the profiled step, as far as known, and remedies that fit them.

For GPUs with a known chip, `cost` computes what a kernel could reach. For TPUs only data sheet
rates are available: their compiler's tiling is not modeled.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from counterpoint.core import CounterpointError, UsageError
from counterpoint.diagnose.finding import Remedy
from counterpoint.diagnose.step_data import StepData
from counterpoint.flags.catalogue.lookup import release
from counterpoint.hardware.chip import find_chip
from counterpoint.hardware.target import Target
from counterpoint.hardware.target_config import target_config
from counterpoint.timeline.model import Device, Timeline

if TYPE_CHECKING:
    from counterpoint.cost.compute.machine import ComputeDevice
    from counterpoint.hardware.chip import Chip


def advise(
    data: StepData,
    text: str,
    flags: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Remedy:
    """Build a Remedy of settings that would change something."""
    pairs = tuple((flags or {}).items())
    return that_changes(data, Remedy(text, pairs, tuple((environment or {}).items())))


def that_changes(data: StepData, remedy: Remedy) -> Remedy:
    """Return a Remedy without flags and variables that would change nothing.

    These are flags that the version lacks, values that are already set, and those that are the
    default and were not set otherwise. If no version is known, the newest release in the catalogue
    counts.
    """
    if not remedy.flags and not remedy.environment:
        return remedy
    known, given = release(data.context.jaxlib).flags, given_flags(data) or {}
    variables = data.context.environment or {}

    def changes(name: str, value: str) -> bool:
        flag = known.get(name)
        if flag is None:
            return False
        if name in given:
            return given[name] != value and flag.meaning(given[name]) != flag.meaning(value)
        return not flag.is_default(value)

    return replace(
        remedy,
        flags=tuple((name, value) for name, value in remedy.flags if changes(name, value)),
        environment=tuple(
            (name, value) for name, value in remedy.environment if variables.get(name) != value
        ),
    )


_AMD: Final = re.compile(r"\bAMD\b|\bMI\d{2,3}|\bgfx\d")

"""Matches names of chips whose rates are not known."""


def chip_of(data: StepData) -> Chip | None:
    """Return the chip of all selected devices, or the user's Target if the profile names none.

    None if devices differ or the chip is not known.
    """
    device = _device(data)
    if device is None or device.chip is not None:
        return find_chip(device.chip) if device else None
    return _named(data.context.target) if device.kind == "gpu" else None


def is_nvidia(data: StepData) -> bool:
    """Return whether the devices are NVIDIA GPUs, as far as is known."""
    device, chip = _device(data), chip_of(data)
    if device is None or device.kind != "gpu":
        return False
    if chip is not None:
        return chip.vendor == "NVIDIA"
    return not _AMD.search(device.chip or "")


def gpu_machine(data: StepData) -> ComputeDevice | None:
    """Return the cost model's description of the GPU; None for other devices."""
    from counterpoint.cost.compute.machine import machine_of
    from counterpoint.cost.scalars import default_scalars

    device, chip = _device(data), chip_of(data)
    if device is None or device.kind != "gpu" or chip is None:
        return None
    return machine_of(_target(chip), default_scalars(chip.name))


def _device(data: StepData) -> Device | None:
    chosen = [data.timeline.devices[index] for index in data.selection.devices]
    kinds = {(device.kind, device.chip) for device in chosen}
    return chosen[0] if len(kinds) == 1 else None


def _named(target: Target | None) -> Chip | None:
    try:
        return target.chip if target is not None else None
    except UsageError:  # described without rates
        return None


def _target(chip: Chip) -> Target:
    gpu = chip.gpu
    if gpu is None:  # unknown to XLA's CUDA compiler: AMD or an older chip
        return Target(gpu=chip.name, gpus_per_host=1, config="", own_chip=chip)
    return Target(gpu=gpu.name, gpus_per_host=1, config=target_config(gpu))


def given_flags(data: StepData) -> Mapping[str, str] | None:
    """Return the flags of the Run, else those recorded by the profiler; None if not recorded."""
    from counterpoint.flags.text import parse_xla_flags

    if data.context.flags is not None:
        return data.context.flags
    text = data.timeline.environment.get("XLA_FLAGS")
    if text is None:
        return None
    try:
        return dict(parse_xla_flags(text))
    except CounterpointError:  # damaged, or in a file on another machine
        return None


def is_true(flags: Mapping[str, str], name: str) -> bool | None:
    """Return the value of an on/off flag; None if it was not given."""
    value = flags.get(name)
    return None if value is None else value.lower() in ("true", "1", "")


def on_virtual_devices(timeline: Timeline) -> bool:
    """Return whether the devices are the CPU's: they share its cores, and preempt each other."""
    return {device.kind for device in timeline.devices} == {"cpu"}


def on_gpu(data: StepData) -> bool:
    """Return whether XLA:GPU compiled the program; its flags and passes do not apply elsewhere."""
    return all(device.kind == "gpu" for device in data.timeline.devices)
