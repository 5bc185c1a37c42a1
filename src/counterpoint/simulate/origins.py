"""Which starts a done may wait for, also across the turns of a loop.

Pipelined sends and receives begin in one turn and end in the next: their dones read an element of
the loop's tuple. It is followed to what the turn before put there, and to what went into the loop.
"""

from __future__ import annotations

from collections.abc import Iterator

from counterpoint.hlo import Instruction, Program, is_done, is_start, start_of

_PASSING = ("bitcast", "optimization-barrier", "opt-barrier", "copy")


def starts_of(program: Program, done: Instruction) -> list[Instruction]:
    """All starts whose end a done can mark."""
    own = start_of(program, done)
    if own is not None:
        return [own]
    operands = program.operands(done)
    return list(_trace(program, operands[0], set())) if operands else []


def _trace(
    program: Program, it: Instruction, seen: set[tuple[str, str, int]], element: int = -1
) -> Iterator[Instruction]:
    """Starts whose value an instruction may carry, in the element of its tuple."""
    key = (it.computation, it.name, element)
    if key in seen:
        return
    seen.add(key)
    operands = program.operands(it)
    if is_start(it):
        yield it
    elif it.opcode == "get-tuple-element" and operands:
        yield from _trace(program, operands[0], seen, it.tuple_index or 0)
    elif it.opcode == "tuple" and 0 <= element < len(operands):
        yield from _trace(program, operands[element], seen)
    elif it.opcode == "parameter":
        yield from _from_callers(program, it, seen, element)
    elif it.opcode == "while" and it.calls:
        yield from _from_body(program, it.calls[0], seen, element)
        yield from _trace(program, operands[0], seen, element)
    elif (it.opcode in _PASSING or is_done(it)) and operands:
        yield from _trace(program, operands[0], seen, element)


def _from_callers(
    program: Program, parameter: Instruction, seen: set[tuple[str, str, int]], element: int
) -> Iterator[Instruction]:
    for caller in program.callers(parameter.computation):
        given = program.operands(caller)
        if caller.opcode == "while" and given:
            yield from _from_body(program, parameter.computation, seen, element)
            yield from _trace(program, given[0], seen, element)
        elif caller.opcode == "call" and (parameter.parameter_number or 0) < len(given):
            yield from _trace(program, given[parameter.parameter_number or 0], seen, element)


def _from_body(
    program: Program, body: str, seen: set[tuple[str, str, int]], element: int
) -> Iterator[Instruction]:
    root = program.root(body)
    if root is not None:
        yield from _trace(program, root, seen, element)
