"""What stands at the head of a trace that was written from a Timeline.

Only `counterpoint` writes it (`timeline/perfetto`), and a viewer that saves a trace anew drops it.
Without it a kept prediction would read back as measured. Anyone can edit a file, so whatever is
not of its type counts as not said.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, cast

from counterpoint.core.basis import Basis
from counterpoint.timeline.device import Device

_WRITER: Final = "counterpoint "


@dataclass(frozen=True, slots=True)
class Written:
    """What the Timeline was, besides its spans."""

    basis: Basis
    host: str | None  # its name, where there was one only
    known: Mapping[tuple[str, int], Device]  # by kind and number; of one host
    notes: tuple[str, ...]

    def devices(self, found: Sequence[Device]) -> tuple[Device, ...]:
        """The devices of the trace with what was known of their chips."""
        return tuple(self._known(device) for device in found)

    def _known(self, device: Device) -> Device:
        known = self.known.get((device.kind, device.ordinal))
        if known is None:
            return device
        chip, flops, rate = known.chip, known.peak_flops, known.peak_bytes
        return replace(device, chip=chip, peak_flops=flops, peak_bytes=rate)


def read_written(head: Mapping[str, object]) -> Written | None:
    """What the head of a trace says, if a Timeline was written there."""
    about = _fields(head.get("otherData"))
    writer = about.get("writer")
    if not isinstance(writer, str) or not writer.startswith(_WRITER):
        return None
    hosts = _texts(about.get("hosts"))
    devices = [_device(_fields(it)) for it in _list(about.get("devices"))]
    basis = about.get("basis")
    return Written(
        basis=Basis(basis) if basis in list(Basis) else Basis.MEASURED,
        host=hosts[0] if len(hosts) == 1 else None,
        known={(it.kind, it.ordinal): it for it in devices if it} if len(hosts) == 1 else {},
        notes=tuple(_texts(about.get("notes"))),
    )


def _device(fields: Mapping[str, object]) -> Device | None:
    kind, ordinal, chip = fields.get("kind"), fields.get("ordinal"), fields.get("chip")
    if not isinstance(kind, str) or not isinstance(ordinal, int):
        return None
    return Device(
        kind=kind,
        ordinal=ordinal,
        chip=chip if isinstance(chip, str) else None,
        peak_flops=_rate(fields.get("peak_flops")),
        peak_bytes=_rate(fields.get("peak_bytes")),
    )


def _rate(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and 0 < value < float("inf") else None


def _fields(value: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", value) if isinstance(value, dict) else {}


def _list(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []


def _texts(value: object) -> list[str]:
    return [it for it in _list(value) if isinstance(it, str)]
