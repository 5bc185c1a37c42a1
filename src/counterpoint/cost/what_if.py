"""WhatIf: a program on other hardware, as in `nic=2x,hbm=1.5x,collective:all-gather-start.3=0`."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from counterpoint.core import ArgumentError, UsageError
from counterpoint.cost.model import Price, PriceFamily, PriceSource
from counterpoint.hlo.collectives import collective
from counterpoint.hlo.model.instruction import Instruction
from counterpoint.hlo.model.program import Program

_PARTS: Final[Mapping[str, PriceFamily]] = {
    "nic": PriceFamily.NETWORK, "network": PriceFamily.NETWORK, "nvlink": PriceFamily.DOMAIN,
    "domain": PriceFamily.DOMAIN, "hbm": PriceFamily.MEMORY, "memory": PriceFamily.MEMORY,
    "ici": PriceFamily.DOMAIN, "dcn": PriceFamily.NETWORK,
    "matmul": PriceFamily.MATMUL, "gemm": PriceFamily.MATMUL, "flops": PriceFamily.MATMUL,
    "attention": PriceFamily.ATTENTION, "host": PriceFamily.HOST, "pcie": PriceFamily.HOST,
    "custom": PriceFamily.CUSTOM, "custom-call": PriceFamily.CUSTOM, "launch": PriceFamily.LAUNCH,
}  # fmt: skip
_OF_GPUS: Final = {"nvlink": "ici", "nic": "dcn"}
_OF_TPUS: Final = {own: other for other, own in _OF_GPUS.items()}
_REBUILT: Final = frozenset(
    {
        PriceFamily.NETWORK,
        PriceFamily.DOMAIN,
        PriceFamily.MEMORY,
        PriceFamily.MATMUL,
        PriceFamily.HOST,
    }
)
"""Families repriced by their formulas with the faster part, instead of scaling their prices."""
_LINKS: Final = frozenset({PriceFamily.NETWORK, PriceFamily.DOMAIN})
_FACTOR: Final = re.compile(r"(\d+(?:\.\d*)?|\.\d+)x?")
_EXAMPLE: Final = "nic=2x,hbm=1.5x,collective:all-gather-start.3=0"


@dataclass(frozen=True, slots=True)
class WhatIf:
    """Speeds of families of prices (2.0 is twice as fast), and factors of single instructions."""

    speed: Mapping[PriceFamily, float] = field(default_factory=dict[PriceFamily, float])
    # By the name of an instruction or a kind of collective: 0.5 is half as long, 0 is free.
    instructions: Mapping[str, float] = field(default_factory=dict[str, float])

    def of(self, family: PriceFamily) -> float:
        """Return the speedup of a family."""
        return self.speed.get(family, 1.0)

    def apply(self, program: Program, instruction: Instruction, price: Price) -> Price:
        """Return the price under the what-if, from a machine that already has the faster parts.

        Links belong to the machine: a collective can wait for either of the links that it takes.
        """
        factor = 1.0
        measured = price.source in (PriceSource.MEASURED, PriceSource.USER_TABLE)
        if price.family not in _REBUILT or (measured and price.family not in _LINKS):
            factor /= self.of(price.family)
        factor *= self._own(program, instruction)
        if factor == 1.0:
            return price
        return replace(price.times(factor), how=f"{price.how}, what if {factor:g}x".lstrip(", "))

    def scaled(self, program: Program, instruction: Instruction, price: Price) -> Price:
        """Return the price under the what-if, scaled as a whole: TPUs' have no other parts."""
        factor = self._own(program, instruction) / self.of(price.family)
        if factor == 1.0:
            return price
        return replace(price.times(factor), how=f"{price.how}, what if {factor:g}x".lstrip(", "))

    def _own(self, program: Program, instruction: Instruction) -> float:
        if instruction.name in self.instructions:
            return self.instructions[instruction.name]
        if not self.instructions:
            return 1.0
        communication = collective(program, instruction)
        return self.instructions.get(communication.kind, 1.0) if communication else 1.0


def parse_what_if(text: str, *, tpus: bool | None = None) -> WhatIf:
    """Parse `nic=2x,hbm=1.5x,collective:all-gather-start.3=0`.

    Raise UsageError if it is invalid, or names a link that the target's devices don't have:
    `tpus` is None if these are unknown.
    """
    speed: dict[PriceFamily, float] = {}
    instructions: dict[str, float] = {}
    for part in filter(None, (word.strip() for word in text.split(","))):
        name, equals, value = (word.strip() for word in part.partition("="))
        if not equals or not name:
            raise _refused(part, "it is not of the form NAME=FACTOR")
        kind, colon, own = name.partition(":")
        if colon:
            if kind not in ("collective", "op", "instruction"):
                raise _refused(part, f"{kind}: is neither collective: nor op:")
            own = own.strip().removeprefix("%")
            factor = _factor(part, value, least=0.0)
            instructions[own] = _unlike(part, instructions.get(own), factor)
        elif name.casefold() in _PARTS:
            if tpus is not None:
                _check_link(part, name, value, tpus=tpus)
            family = _PARTS[name.casefold()]
            speed[family] = _unlike(part, speed.get(family), _factor(part, value, least=1e-3))
        else:
            raise _refused(part, _nearest(name))
    if not speed and not instructions:
        raise _refused(text, "it is empty")
    return WhatIf(speed, instructions)


def _check_link(part: str, name: str, factor: str, *, tpus: bool) -> None:
    """Raise UsageError for a link that only the other kind of device has."""
    own = (_OF_GPUS if tpus else _OF_TPUS).get(name.casefold())
    if own is not None:
        problem = f"{'TPUs' if tpus else 'GPUs'} have no {name}; the link in its place is {own}"
        raise ArgumentError("what_if", part, problem, instead=f"{own}={factor}")


def _unlike(part: str, before: float | None, factor: float) -> float:
    """Return the factor, unless the same part was given a different one."""
    if before not in (None, factor):
        raise _refused(part, f"{before:g}x was already given for the same part")
    return factor


def _factor(part: str, value: str, least: float) -> float:
    match = _FACTOR.fullmatch(value.casefold())
    factor = float(match[1]) if match else math.nan
    if not least <= factor <= 1e6:
        raise _refused(
            part, f"{value or 'an empty text'} is not a factor of at least {least:g}, such as 2x"
        )
    return factor


def _nearest(name: str) -> str:
    near = difflib.get_close_matches(name.casefold(), _PARTS, n=1)
    if near:
        return f"there is no part {name}; did you mean {near[0]}?"
    return (
        f"there is no part {name}; the parts are {', '.join(_PARTS)}, collective:NAME and op:NAME"
    )


def _refused(part: str, why: str) -> UsageError:
    return ArgumentError("what_if", part, "not understood", why=why, instead=_EXAMPLE)
