"""Read a Program from HLO text, as `compiled.as_text()` and XLA's text dumps give it.

    HloModule jit_step, is_scheduled=true, ...
    (tables of file names, functions, locations and stack frames)
    %computation (a: f32[]) -> f32[] {
      ROOT %name = f32[] opcode(%operand), attribute=..., metadata={...}
    }
    ENTRY %main ...

Names come with and without %, operands with and without their shapes, instructions on one line
or on several (constants). Attributes that we don't know are skipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from counterpoint.core.errors import InputError
from counterpoint.hlo import text_parts as parts
from counterpoint.hlo.asyncs import unwrap
from counterpoint.hlo.instruction import Computation, Instruction
from counterpoint.hlo.program import Alias, Program
from counterpoint.hlo.soundness import sound
from counterpoint.hlo.stack import StackTable
from counterpoint.hlo.text_scan import attributes, fields, shown, unquote
from counterpoint.hlo.text_shape import Shapes

_MODULE = re.compile(r'HloModule\s+("[^"]*"|[^\s,]+)')
_HEADER = re.compile(r"(ENTRY\s+)?%?([^\s(){}=,]+)\s*(?:\(.*)?\{$", re.DOTALL)
_FINGERPRINT = "fingerprint_before_lhs"
_ALIAS = re.compile(r"\{([\d,\s]*)\}:\s*\((\d+),\s*\{([\d,\s]*)\}(?:,\s*([\w-]+))?\)")
_TABLES = ("FileNames", "FunctionNames", "FileLocations", "StackFrames")
_ROW = re.compile(r"\d+\s+(.*)", re.DOTALL)
_INSTRUCTION = re.compile(r"\s+(ROOT\s+)?%?([\w.\-]+)\s*=\s")


def program_from_text(text: str) -> Program:
    """The Program in HLO text."""
    start = _MODULE.search(text)
    if not start:
        raise InputError(
            f"this is not HLO text: it starts with {shown(text)}",
            why="HLO text has a line `HloModule name, ...`",
            next="give what compiled.as_text() returns, or a *after_optimizations.txt of a dump",
        )
    try:
        return sound(unwrap(_program(unquote(start[1]), text[start.end() :])))
    except (ValueError, IndexError, KeyError, RecursionError) as error:
        raise InputError(f"HLO text of {start[1]} is damaged", why=str(error)) from error


def _program(name: str, text: str) -> Program:
    first, _, rest = text.partition("\n")
    module = attributes(first.lstrip(","))
    tables: dict[str, list[str]] = {table: [] for table in _TABLES}
    computations: dict[str, Computation] = {}
    entry = ""
    shapes = Shapes()
    for header, lines in _blocks(rest, tables):
        computation = _computation(header[2], lines, shapes)
        computations[computation.name] = computation
        if header[1]:
            entry = computation.name
    if not entry:
        raise InputError(f"HLO text of {name} has no ENTRY computation", why="it is cut off")
    attached = dict(fields(module.get("frontend_attributes", "")))
    return Program(
        name=name,
        entry=entry,
        computations=computations,
        fingerprint=attached.get(_FINGERPRINT),
        is_scheduled=module.get("is_scheduled") == "true",
        num_partitions=int(module.get("num_partitions", 1)),
        num_replicas=int(module.get("replica_count", 1)),
        aliases=tuple(_aliases(module.get("input_output_alias", ""))),
        stacks=_stacks(tables),
    )


def _blocks(
    text: str, tables: dict[str, list[str]]
) -> Iterator[tuple[re.Match[str], list[tuple[bool, str]]]]:
    """Every computation: its header, and its instructions with whether each is the root."""
    table: list[str] = []
    header: re.Match[str] | None = None
    lines: list[tuple[bool, str]] = []
    for line in text.splitlines():
        if header is None:
            header = _HEADER.match(line)
            lines = []
            if header is None:
                table = _table_row(line, table, tables)
        elif line.startswith("}") and not line.startswith("})"):
            yield header, lines
            header = None
        elif start := _INSTRUCTION.match(line):
            lines.append((bool(start[1]), line))
        elif lines and line.strip():
            # A constant that is written over several lines.
            lines[-1] = (lines[-1][0], f"{lines[-1][1]}\n{line}")
    if header is not None:
        raise InputError(
            f"HLO text is cut off in computation {header[2]}", why="its closing brace is missing"
        )


def _table_row(line: str, table: list[str], tables: dict[str, list[str]]) -> list[str]:
    """Put a row where it belongs; the table that the next row goes to."""
    if line.strip() in tables:
        return tables[line.strip()]
    row = _ROW.match(line)
    if row:
        table.append(row[1])
    return table


def _computation(name: str, lines: list[tuple[bool, str]], shapes: Shapes) -> Computation:
    found: dict[str, Instruction] = {}
    root = ""
    for is_root, line in lines:
        parsed = parts.instruction(line, name, len(found), shapes)
        for operand in parsed.operands:
            _take_element(operand, found)
        found[parsed.name] = replace(parsed, index=len(found))
        if is_root or not root:
            root = parsed.name
    if not found:
        raise InputError(f"computation {name} of the HLO text has no instructions")
    return Computation(name, tuple(found.values()), root)


def _take_element(operand: str, found: dict[str, Instruction]) -> None:
    """Since 0.12 `%loop#2` stands for an element of a tuple that has no line of its own."""
    whole, sign, index = operand.rpartition("#")
    if not sign or operand in found:
        return
    _take_element(whole, found)
    source = found[whole]
    found[operand] = Instruction(
        name=operand,
        opcode="get-tuple-element",
        shape=source.shape.parts[int(index)],
        operands=(whole,),
        calls=(),
        computation=source.computation,
        index=len(found),
        tuple_index=int(index),
    )


def _aliases(text: str) -> Iterator[Alias]:
    for output, parameter, index, kind in _ALIAS.findall(text):
        yield Alias(
            output=parts.numbers(output),
            parameter=int(parameter),
            parameter_index=parts.numbers(index),
            must=kind == "must-alias",
        )


def _stacks(tables: dict[str, list[str]]) -> StackTable:
    locations = (dict(fields(row)) for row in tables["FileLocations"])
    rows = [dict(fields(row)) for row in tables["StackFrames"]]
    frames = [(_index(row, "file_location_id"), _index(row, "parent_frame_id")) for row in rows]
    # Newer text writes a parent as its index plus one, protos don't. An outermost frame tells: it
    # has 0 for its parent in the old way, never in the new one.
    shift = 1 if all(parent > 0 for _, parent in frames) else 0
    return StackTable(
        files=tuple(unquote(row.strip()) for row in tables["FileNames"]),
        functions=tuple(unquote(row.strip()) for row in tables["FunctionNames"]),
        locations=tuple(
            (_index(row, "file_name_id"), _index(row, "function_name_id"), _index(row, "line"))
            for row in locations
        ),
        frames=tuple((location, parent - shift) for location, parent in frames),
    )


def _index(row: dict[str, str], key: str) -> int:
    return int(row.get(key, 0))
