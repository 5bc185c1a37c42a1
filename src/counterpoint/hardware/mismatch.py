"""Mismatches: recorded devices that are not those of a target."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from counterpoint.core import UsageError
from counterpoint.hardware.chip import Chip, find_chip, find_tpu
from counterpoint.hardware.target import Target
from counterpoint.timeline.model import Device

__all__ = ["mismatched_chip", "mismatched_devices", "unknown_devices"]

_NO_GPU: Final = {"cpu": "CPUs", "tpu": "TPUs"}


def mismatched_devices(
    devices: Iterable[Device], target: Target, *, links: bool = False
) -> str | None:
    """Return the recorded chip if it is known not to be the target's; else None.

    With `links`, chips of one family with the same links count as equal: A100s of 40 and 80 GB.
    """
    names = (_other(device.kind, device.chip, target, links=links) for device in devices)
    return min(filter(None, names), default=None)


def mismatched_chip(name: str, target: Target) -> str | None:
    """Return the same for a device of which only the name is known."""
    return _other("cpu" if name.casefold() == "cpu" else "gpu", name, target, links=False)


def unknown_devices(devices: Iterable[Device]) -> tuple[str, ...]:
    """Return recorded device names of no known chip; "" for devices without a name."""
    return tuple(
        sorted({device.chip or "" for device in devices if find_chip(device.chip) is None})
    )


def _other(kind: str, name: str | None, target: Target, *, links: bool) -> str | None:
    chip = find_chip(name)
    if kind == "tpu" and target.tpu is not None:
        recorded = find_tpu(name)
        return chip.name if chip and recorded and recorded != target.tpu.tpu else None
    if kind in _NO_GPU:
        return chip.name if chip else _NO_GPU[kind]
    wanted = _chip_of(target)
    if chip is None or wanted is None or chip.name == wanted.name:
        return None
    related = _family(chip) == _family(wanted)
    if related and (target.own_chip or target.own_wiring):  # a file may describe it
        return None
    if links and related and chip.links == wanted.links:
        return None
    return chip.name


def _chip_of(target: Target) -> Chip | None:
    try:
        return target.chip
    except UsageError:  # only its compiler description is known
        return None


def _family(chip: Chip) -> str:
    return chip.name.split(maxsplit=1)[0]
