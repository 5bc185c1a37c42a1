"""What a program's arguments are: parameters, optimizer state, batch; by who reads them.

Names, if the module has any, are for people; the class follows from the data flow. A parameter is
read by the forward or the backward pass, and by the optimizer, or the result is written in its
place. Optimizer state is read by the optimizer alone. What only the model reads is the batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from counterpoint.hlo.memory.uses import ArrayAt, Path, Uses, paths, shape_at
from counterpoint.hlo.model.instruction import Instruction, Shape
from counterpoint.hlo.model.program import Program
from counterpoint.hlo.phase import BACKWARD, Phase, phase

_MODEL = (Phase.FORWARD, Phase.BACKWARD, Phase.REMAT)
_FEW = 16
"""Elements up to which an array is a counter, a key of a random generator or the like."""


class ArgumentKind(StrEnum):
    PARAMETER = "parameters"
    OPTIMIZER = "optimizer state"
    BATCH = "batch"
    COUNTER = "counters"
    OTHER = "arguments"


@dataclass(frozen=True, slots=True)
class Argument:
    """An array that the program is given; `is_donated`: a result is written in its place."""

    number: int
    path: Path
    name: str
    shape: Shape
    kind: ArgumentKind
    is_donated: bool

    @property
    def is_state(self) -> bool:
        """Whether it is what a step updates."""
        return self.kind in (ArgumentKind.PARAMETER, ArgumentKind.OPTIMIZER)


def arguments(program: Program, uses: Uses) -> Mapping[tuple[int, Path], Argument]:
    """Return the arguments by the number of the parameter, and the place in it."""
    aliased = {(alias.parameter, alias.parameter_index) for alias in program.aliases}
    is_training = any(BACKWARD in it.op_name for it in program.instructions)
    found: dict[tuple[int, Path], Argument] = {}
    for it in program.computations[program.entry].instructions:
        if it.opcode != "parameter":
            continue
        number = it.parameter_number or 0
        for path in paths(it.shape):
            shape = shape_at(it.shape, path) or it.shape
            is_donated = (number, path) in aliased
            readers = uses.readers(ArrayAt(it.name, path))
            found[number, path] = Argument(
                number=number,
                path=path,
                name=it.op_name,
                shape=shape,
                kind=_kind(program, shape, readers, is_donated, is_training=is_training),
                is_donated=is_donated,
            )
    return found


def _kind(
    program: Program,
    shape: Shape,
    readers: tuple[Instruction, ...],
    is_donated: bool,
    *,
    is_training: bool,
) -> ArgumentKind:
    if shape.elements <= _FEW:
        return ArgumentKind.COUNTER
    if not is_training:
        return ArgumentKind.OTHER
    phases = {phase(program, reader) for reader in readers}
    by_model = not phases.isdisjoint(_MODEL)
    is_floating = shape.dtype.startswith(("f", "bf"))
    if by_model and (is_donated or Phase.OPTIMIZER in phases) and is_floating:
        return ArgumentKind.PARAMETER
    if by_model:
        return ArgumentKind.BATCH
    return ArgumentKind.OPTIMIZER if is_floating or is_donated else ArgumentKind.OTHER
