"""XLA's own estimate of an operation on a TPU: cycles, which libtpu writes into the scheduled HLO.

Fusions, convolutions and most plain operations have one; collectives, kernels in Mosaic, sorts,
gathers and scatters do not.
"""

from __future__ import annotations

import re
from typing import Final

from counterpoint.hlo import Instruction, Program
from counterpoint.hlo.work import Category, category

HOST: Final = 5
_HBM: Final = 0
"""Memory spaces of a TPU's layouts; S(1) is VMEM, on the chip, and others are small."""
_CYCLES: Final = re.compile(r'"estimated_cycles":\s*"?(\d{1,18})')
_FREE: Final = frozenset(
    {"AllocateBuffer", "ConcatBitcast", "AssumeGatherIndicesInBound", "SliceId"}
)
_PLAIN: Final = frozenset({Category.ELEMENTWISE, Category.COPY, Category.REDUCTION, Category.OTHER})


def estimated_cycles(instruction: Instruction) -> int | None:
    """Return the cycles that XLA estimates; None if it wrote none."""
    found = _CYCLES.search(instruction.backend_config)
    return int(found[1]) or None if found else None


def names_memory(instruction: Instruction) -> bool:
    """Return whether it only names a part of memory, which takes no time."""
    return instruction.custom_call_target in _FREE


def is_plain(program: Program, instruction: Instruction) -> bool:
    """Return whether its time is that of moving and adding, without the matrix unit."""
    return category(program, instruction) in _PLAIN


def hbm_share(program: Program, instruction: Instruction) -> float:
    """Return the share of an operation's operands and results that are in HBM, by bytes."""
    shapes = [instruction.shape, *(operand.shape for operand in program.operands(instruction))]
    leaves = [leaf for shape in shapes for leaf in shape.leaves]
    whole = sum(leaf.bytes for leaf in leaves)
    return sum(leaf.bytes for leaf in leaves if leaf.memory_space == _HBM) / whole if whole else 0.0
