"""A Program of single instructions, as TPU profiles spell them beside each op, without a module.

What an instruction says of itself is there: opcode, shapes, replica groups, and the op_name the
profiler gives. Operands that are not among the fragments become parameters of the shape written
before their names; fused computations and the schedule are not known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from counterpoint.core.errors import InputError
from counterpoint.hlo import text_parts as parts
from counterpoint.hlo.instruction import Computation, Instruction
from counterpoint.hlo.program import Program
from counterpoint.hlo.text_scan import closing, split, without_comments
from counterpoint.hlo.text_shape import Shapes

_ENTRY = "fragments"


@dataclass(frozen=True, slots=True)
class Fragment:
    """The text of one instruction, and its op_name path where the profiler gives one."""

    text: str
    op_name: str | None = None


def program_from_fragments(name: str, fragments: Iterable[Fragment]) -> Program:
    """The Program of all fragments that can be read; a text that was cut off is left out."""
    shapes = Shapes()
    read: dict[str, tuple[Instruction, str]] = {}
    for fragment in fragments:
        try:
            one = parts.instruction(fragment.text, _ENTRY, 0, shapes)
        except (InputError, ValueError, IndexError, KeyError):
            continue
        one = replace(one, calls=(), op_name=one.op_name or fragment.op_name or "")
        read[one.name] = (one, fragment.text)
    instructions: list[Instruction] = []
    placed: set[str] = set()
    for name_of in read:
        instructions += _with_its_start(name_of, read, placed, shapes)
    if not instructions:
        instructions = [parts.instruction("nothing = () tuple()", _ENTRY, 0, shapes)]
    numbered = tuple(replace(one, index=index) for index, one in enumerate(instructions))
    entry = Computation(_ENTRY, numbered, numbered[-1].name)
    return Program(name=name, entry=_ENTRY, computations={_ENTRY: entry}, is_scheduled=False)


def _with_its_start(
    name: str, read: dict[str, tuple[Instruction, str]], placed: set[str], shapes: Shapes
) -> Iterator[Instruction]:
    """An instruction behind its operands; of these only the start of an async op is kept real."""
    if name in placed:
        return
    placed.add(name)
    one, text = read[name]
    operands: list[str] = []
    for index, written in enumerate(_operands(text, shapes)):
        operand = written.rpartition(" ")[2].removeprefix("%")
        if operand in read and one.opcode.endswith(("-done", "-update")):
            yield from _with_its_start(operand, read, placed, shapes)
            operands.append(operand)
            continue
        parameter = _parameter(f"{name}/operand.{index}", written, shapes)
        if parameter is not None:
            yield parameter
            operands.append(parameter.name)
    yield replace(one, operands=tuple(operands))


def _operands(text: str, shapes: Shapes) -> list[str]:
    """The texts between the parentheses of the opcode, each a shape and a name."""
    start = text.index(" = ") + len(" = ")
    _, end = shapes.at_start(text[start:])
    opening = text.index("(", start + end)
    return split(without_comments(text[opening + 1 : closing(text, opening) - 1]))


def _parameter(name: str, written: str, shapes: Shapes) -> Instruction | None:
    try:
        shape, _ = shapes.at_start(written.strip())
    except (InputError, ValueError):
        return None  # a name without a shape: nothing is known of it
    return Instruction(name, "parameter", shape, (), (), _ENTRY, 0)
