"""What if the hardware were another: faster links or memory, or one instruction for nothing.

`nic=2x,hbm=1.5x,collective:all-gather-start.3=0`: parts of the machine by how much faster, single
instructions by how much longer they take (0 is free).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from counterpoint.cost.price import Family, Price
from counterpoint.hlo import Instruction


@dataclass(frozen=True, slots=True)
class WhatIf:
    """Speeds of families of prices (2.0 is twice as fast), and times of single instructions."""

    speed: Mapping[Family, float] = field(default_factory=dict[Family, float])
    instructions: Mapping[str, float] = field(default_factory=dict[str, float])

    def apply(self, instruction: Instruction, price: Price) -> Price:
        """The price under it."""
        raise NotImplementedError


def parse_what_if(text: str) -> WhatIf:
    """`nic=2x,hbm=1.5x,collective:all-gather-start.3=0`; UsageError where it says nothing known."""
    raise NotImplementedError
