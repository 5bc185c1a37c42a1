"""Profile: what each instruction of a compiled program costs, as XLA's scheduler is told it.

XLA looks an instruction up by its exact name. A name says nothing of its module: `fusion.3` of one
matches that of any other, unless it is written `<fingerprint>::fusion.3`. Then it counts only for
the module whose 128-bit fingerprint, taken before scheduling, is that one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

SEPARATOR: Final = "::"
"""Between the fingerprint and the instruction, in XLA's own keys."""

_FINGERPRINT: Final = re.compile(r"[0-9a-f]{32}")


def is_fingerprint(text: str) -> bool:
    """Whether it has the form of a module's fingerprint: 32 hexadecimal digits."""
    return _FINGERPRINT.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class Cost:
    """Microseconds that one execution of an instruction takes; of an async one, its start's.

    Without a fingerprint the name is bare: it stands for that instruction of whatever module.
    """

    name: str
    us: float
    fingerprint: str | None = None

    def __post_init__(self) -> None:
        if not self.name or SEPARATOR in self.name:
            raise ValueError(f"{self.name!r} is no name of an instruction")
        if self.fingerprint is not None and (not self.fingerprint or SEPARATOR in self.fingerprint):
            raise ValueError(f"{self.fingerprint!r} is no fingerprint")
        if not (math.isfinite(self.us) and self.us >= 0):
            raise ValueError(f"{self.name} can't cost {self.us} us")

    @property
    def key(self) -> str:
        """The name as it is written for XLA."""
        return self.name if self.fingerprint is None else f"{self.fingerprint}::{self.name}"


@dataclass(frozen=True, slots=True)
class Latency:
    """Microseconds from one instruction to another. XLA:GPU leaves these out; kept as read."""

    source: str
    target: str
    us: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.us) and self.us >= 0):
            raise ValueError(f"{self.source} to {self.target} can't take {self.us} us")


@dataclass(frozen=True, slots=True)
class Profile:
    """Costs in the order of the file, duplicates included, and how they came to be.

    `origin` is kept as comments of the text format, in its order; the binary format has no room.
    """

    costs: tuple[Cost, ...]
    latencies: tuple[Latency, ...] = ()
    origin: Mapping[str, str] = field(default_factory=dict[str, str])

    def __repr__(self) -> str:
        return f"<Profile of {len(self.costs):,} costs of {len(self.fingerprints)} modules>"

    @property
    def fingerprints(self) -> tuple[str, ...]:
        """Modules that it has costs of, in order of their first; bare names have none."""
        found = dict.fromkeys(cost.fingerprint for cost in self.costs)
        return tuple(fingerprint for fingerprint in found if fingerprint is not None)

    @property
    def duplicates(self) -> Mapping[str, tuple[Cost, ...]]:
        """Keys that stand in it more than once; XLA takes the last."""
        by_key: dict[str, list[Cost]] = {}
        for cost in self.costs:
            by_key.setdefault(cost.key, []).append(cost)
        return {key: tuple(costs) for key, costs in by_key.items() if len(costs) > 1}
