"""Whether an instruction launches work on the device, or only names a value.

Free are those that XLA turns into addresses: they never show in a profile and cost nothing.
"""

from __future__ import annotations

from counterpoint.program.instruction import Instruction

_FREE_WORDS = (
    "parameter constant tuple get-tuple-element bitcast after-all add-dependency partition-id "
    "replica-id opt-barrier optimization-barrier domain get-dimension-size"
)
_FREE = frozenset(_FREE_WORDS.split())


def launches(instruction: Instruction) -> bool:
    """Whether running it launches work (a loop or a call launches what it contains)."""
    return instruction.opcode not in _FREE
