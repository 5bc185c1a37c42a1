"""Sorts that XLA:GPU hands to cub: on a GPU only, since a compile without one has its own instead.

There a count of the places keeps equal keys in order, which cub's does by itself. XLA says so in
its log ("Using fallback sort algorithm"). Where it takes cub's was found by compiling for H100 with
jaxlib 0.10.2 and xla_gpu_deviceless_cub_mode=DEVICELESS_CUB_NO_FALLBACK: keys alone or with one
value each, one row of more than some 22,000, or many rows of more than 8,192.
"""

from __future__ import annotations

from typing import Final

from counterpoint.hlo.model.instruction import Instruction
from counterpoint.hlo.model.program import Program

__all__ = ["runs_cub"]

_FEW: Final = 22_000
_ROWS: Final = 64
_LONG_ROW: Final = 8_192
_KEYS: Final = 2  # operands: keys, and what moves with them


def runs_cub(program: Program, sort: Instruction) -> bool:
    """Return whether XLA on a GPU would run cub's sort for what it compiled to its own here."""
    if sort.opcode != "sort":
        return False
    operands = program.operands(sort)
    counted = [place for place, it in enumerate(operands) if place and it.opcode == "iota"]
    keys = [operand.shape for operand in operands]
    if not 0 < len(keys) - len(counted[-1:]) <= _KEYS or keys[0].dtype == "pred":
        return False
    dims, order = keys[0].dims, keys[0].minor_to_major
    if not dims or sort.dimensions[-1:] != (order[0] if order else len(dims) - 1,):
        return False
    length = dims[sort.dimensions[-1]]
    rows = keys[0].elements // max(1, length)
    enough = length > _FEW if rows == 1 else rows >= _ROWS and length > _LONG_ROW
    return enough and _compares_keys_alone(program, sort, {0, *counted})


def _compares_keys_alone(program: Program, sort: Instruction, allowed: set[int]) -> bool:
    """Return whether only keys decide, and where they are equal the places that XLA counted."""
    body = program.computations[sort.calls[0]].instructions if sort.calls else ()
    read = {(it.parameter_number or 0) // 2 for it in body if it.parameter_number is not None
            and program.users(it)}  # fmt: skip
    return read <= allowed
