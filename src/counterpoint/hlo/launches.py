"""Whether an instruction launches work on the device, or only names a value.

Free are those that XLA turns into addresses: they never show in a profile and cost nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from counterpoint.hlo.instruction import Computation, Instruction
from counterpoint.hlo.program import Program

_FREE_WORDS = (
    "parameter constant tuple get-tuple-element bitcast after-all add-dependency partition-id "
    "replica-id opt-barrier optimization-barrier domain get-dimension-size"
)
_FREE = frozenset(_FREE_WORDS.split())

_RUNNING = ("while", "conditional", "call", "call-start", "async-start")


def launches(instruction: Instruction) -> bool:
    """Whether running it launches work (a loop or a call launches what it contains)."""
    return instruction.opcode not in _FREE


def launched(program: Program) -> Iterator[Computation]:
    """The computations whose instructions are launched one by one.

    That is the entry, and what loops, branches and calls run; not the insides of fusions.
    """
    waiting = [program.entry]
    seen = set(waiting)
    while waiting:
        computation = program.computations[waiting.pop()]
        yield computation
        for instruction in computation.instructions:
            if instruction.opcode in _RUNNING:
                fresh = [name for name in instruction.calls if name not in seen]
                seen.update(fresh)
                waiting += fresh
