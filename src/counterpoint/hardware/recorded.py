"""Recorded devices against a target: what one machine was measured to do is not said of another."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from counterpoint.core.errors import UsageError
from counterpoint.hardware.chip import Chip, find_chip
from counterpoint.hardware.gpu import gpus
from counterpoint.hardware.links import Wiring, find_wiring
from counterpoint.hardware.target import Target
from counterpoint.timeline.device import Device

_NO_GPU: Final = {"cpu": "CPUs", "tpu": "TPUs"}


def other_devices(devices: Iterable[Device], target: Target, *, links: bool = False) -> str | None:
    """What was recorded on, where that is known to be no chip of the target's; else None.

    With `links`, chips of one family with the same links are alike: A100s of 40 and 80 GB.
    """
    found = (_other(it.kind, it.chip, target, links=links) for it in devices)
    return min(filter(None, found), default=None)


def other_chip(name: str, target: Target) -> str | None:
    """The same of a device of which the name alone is known."""
    return _other("cpu" if name.casefold() == "cpu" else "gpu", name, target, links=False)


def unknown_devices(devices: Iterable[Device]) -> tuple[str, ...]:
    """Names, of those recorded on, that no chip known here has; "" for devices without a name."""
    return tuple(sorted({it.chip or "" for it in devices if find_chip(it.chip) is None}))


def _other(kind: str, name: str | None, target: Target, *, links: bool) -> str | None:
    found = find_chip(name)
    if kind in _NO_GPU:
        return found.name if found else _NO_GPU[kind]
    wanted = _chip(target)
    if found is None or wanted is None or found.name == wanted.name:
        return None
    related = _family(found) == _family(wanted)
    if related and (target.own_chip or target.own_wiring):  # as a file tells
        return None
    if links and related and _wiring(found) == _wiring(wanted):
        return None
    return found.name


def _chip(target: Target) -> Chip | None:
    try:
        return target.chip
    except UsageError:  # only its compiler's description is known
        return None


def _family(chip: Chip) -> str:
    return chip.name.split(maxsplit=1)[0]


def _wiring(chip: Chip) -> Wiring | None:
    return next((find_wiring(gpu.name) for gpu in gpus() if gpu.chip == chip.name), None)
