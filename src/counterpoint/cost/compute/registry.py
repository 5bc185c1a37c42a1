"""Pricers of custom calls whose insides the compiler does not know.

A custom call is opaque: kernels of cuDNN, Transformer Engine, Pallas, Triton, Mosaic and FFI say
nothing of their work. A pricer knows one kind of them by a pattern of its target (or, where many
kernels share one target, of its name). Those that a user registers are asked first.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from counterpoint.cost.compute.machine import Machine
from counterpoint.cost.price import Price
from counterpoint.hlo import Instruction, Program

Pricer = Callable[[Program, Instruction, Machine], Price | None]
"""Answers None where the call is not one that it can price; then the next is asked."""

_USERS: Final[list[tuple[re.Pattern[str], Pricer]]] = []


def register(pattern: str, pricer: Pricer) -> None:
    """Price custom calls whose target, name or op_name the pattern matches anywhere.

    The latest registered is asked first, and all of them before the pricers of Counterpoint.
    """
    _USERS.insert(0, (re.compile(pattern), pricer))


def unregister(pricer: Pricer) -> None:
    """Ask it no more."""
    _USERS[:] = [it for it in _USERS if it[1] is not pricer]


def price_registered(program: Program, instruction: Instruction, machine: Machine) -> Price | None:
    """What the first registered pricer that knows the call says."""
    said = f"{instruction.custom_call_target} {instruction.name} {instruction.op_name}"
    for pattern, pricer in _USERS:
        if pattern.search(said):
            price = pricer(program, instruction, machine)
            if price is not None:
                return price
    return None
