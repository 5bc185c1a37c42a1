"""How fast the chips of a TPU slice reach each other."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources


@dataclass(frozen=True, slots=True, kw_only=True)
class Ici:
    """Links between chips of one kind of TPU."""

    chip: str
    pattern: str  # matches the names that profiles give it
    bytes_per_s: float  # of all links of a chip, in one direction
    devices: int  # of one chip, as JAX counts
    slice: int  # chips of the largest one
    slice_source: str
    source: str

    @property
    def device_bytes_per_s(self) -> float:
        """A device's share, while all of its chip use the links."""
        return self.bytes_per_s / self.devices

    @property
    def slice_devices(self) -> int:
        """Devices of the largest slice."""
        return self.slice * self.devices


@cache
def icis() -> tuple[Ici, ...]:
    """All kinds that are known, in the order in which names are tried."""
    text = resources.files("counterpoint.hardware").joinpath("ici.toml").read_text("utf-8")
    return tuple(Ici(**entry) for entry in tomllib.loads(text)["ici"])


def find_ici(name: str | None) -> Ici | None:
    """The links of the chip that a profile calls by this name; None for other chips."""
    if name is None:
        return None
    return next((ici for ici in icis() if re.search(ici.pattern, name, re.IGNORECASE)), None)
