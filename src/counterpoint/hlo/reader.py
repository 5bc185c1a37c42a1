"""Reads a Program from a file or from bytes: HLO proto or HLO text, compressed or not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from hashlib import sha256
from os import PathLike
from pathlib import Path
from typing import cast

from counterpoint.core import InputError, UsageError
from counterpoint.core.opening import read_input
from counterpoint.core.unpacking import is_packed, unpack
from counterpoint.hlo import text_reader as parts
from counterpoint.hlo.model.instruction import Computation, Instruction
from counterpoint.hlo.model.program import Program
from counterpoint.hlo.proto_reader import program_from_proto, read_part
from counterpoint.hlo.text_reader import Shapes, program_from_text
from counterpoint.hlo.text_scan import closing, split, without_comments

_LONGEST_SHOWN = 200
_TEXT_MARK = b"HloModule "


def read_program(source: bytes | str | PathLike[str]) -> Program:
    """Read the Program in a file (or in its bytes): *.hlo.pb or HLO text, also .xz, .gz or .bz2.

    A str with a line break, or one that starts with `HloModule`, is not a path but HLO text itself,
    as `compiled.as_text()` returns it.
    """
    given = cast("object", source)
    if isinstance(given, bytes | bytearray):
        return _read(bytes(given), "the given bytes")
    if not isinstance(given, str | PathLike):
        raise UsageError(
            f"read_program takes a path, HLO text or bytes, not {type(given).__name__}",
            next="for a compiled JAX function, pass compiled.as_text()",
        )
    if isinstance(given, str) and ("\n" in given or given.startswith("HloModule")):
        return _read(given.encode(errors="replace"), "the given text")
    if given == "":
        raise UsageError("the name of an HLO module's file is empty")
    return _read_file(Path(cast("str", given)))


def program_hash(data: bytes) -> bytes:
    """Return a hash of HLO that is equal only for bytes that `read_program` reads alike.

    A profile of each rank has its own copy of a module. Copies differ in what is not read: the
    numbers of the devices, the addresses of buffers.
    """
    plain = is_packed(data) or _is_text(data)
    return sha256(data if plain else read_part(data)).digest()


def _read_file(path: Path) -> Program:
    try:
        data = read_input(path)
    except (OSError, ValueError) as error:  # a ValueError: a null byte in the name
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"{_cut(path)} can't be read", why=reason, next="check the path") from None
    return _read(data, str(path))


def _cut(path: Path) -> str:
    name = str(path)
    return name if len(name) <= _LONGEST_SHOWN else f"{name[:_LONGEST_SHOWN]}..."


def _read(data: bytes, where: str) -> Program:
    data = unpack(data, where)
    if not data:
        raise InputError(f"{where}: empty, so there is no program in it")
    try:
        if _is_text(data):
            return program_from_text(data.decode(errors="replace"))
        return program_from_proto(data)
    except InputError as error:
        raise InputError(f"{where}: {error.what}", why=error.why, next=error.next) from error


def _is_text(data: bytes) -> bool:
    # A proto may contain the mark too, but never starts with printable words.
    head = data.lstrip()[:4096]
    at = head.find(_TEXT_MARK)
    return at == 0 or (at > 0 and b"\x00" not in head[:at] and head[:at].isascii())


_ENTRY = "fragments"


@dataclass(frozen=True, slots=True)
class Fragment:
    """The text of one instruction, and its op_name path if the profiler records it."""

    text: str
    op_name: str | None = None


def program_from_fragments(name: str, fragments: Iterable[Fragment]) -> Program:
    """Build a Program from all readable fragments; truncated texts are left out.

    TPU profiles spell out the instruction beside each op, without a module. Opcode, shapes, replica
    groups and the profiler's op_name are known. Operands that are not among the fragments become
    parameters with the shape written before their names; fused computations and the schedule are
    unknown.
    """
    shapes = Shapes()
    read: dict[str, tuple[Instruction, str]] = {}
    for fragment in fragments:
        try:
            parsed = parts.instruction(fragment.text, _ENTRY, 0, shapes)
        except (InputError, ValueError, IndexError, KeyError):
            continue
        parsed = replace(parsed, calls=(), op_name=parsed.op_name or fragment.op_name or "")
        read[parsed.name] = (parsed, fragment.text)
    instructions: list[Instruction] = []
    placed: set[str] = set()
    for name_of in read:
        instructions += _with_its_start(name_of, read, placed, shapes)
    if not instructions:
        instructions = [parts.instruction("nothing = () tuple()", _ENTRY, 0, shapes)]
    numbered = tuple(replace(parsed, index=index) for index, parsed in enumerate(instructions))
    entry = Computation(_ENTRY, numbered, numbered[-1].name)
    return Program(name=name, entry=_ENTRY, computations={_ENTRY: entry}, is_scheduled=False)


def _with_its_start(
    name: str, read: dict[str, tuple[Instruction, str]], placed: set[str], shapes: Shapes
) -> Iterator[Instruction]:
    """Yield an instruction after its operands.

    Only the start of an async op is kept as an operand.
    """
    if name in placed:
        return
    placed.add(name)
    parsed, text = read[name]
    operands: list[str] = []
    for index, written in enumerate(_operands(text, shapes)):
        operand = written.rpartition(" ")[2].removeprefix("%")
        if operand in read and parsed.opcode.endswith(("-done", "-update")):
            yield from _with_its_start(operand, read, placed, shapes)
            operands.append(operand)
            continue
        parameter = _parameter(f"{name}/operand.{index}", written, shapes)
        if parameter is not None:
            yield parameter
            operands.append(parameter.name)
    yield replace(parsed, operands=tuple(operands))


def _operands(text: str, shapes: Shapes) -> list[str]:
    """Return the texts between the parentheses of the opcode, each a shape and a name."""
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
