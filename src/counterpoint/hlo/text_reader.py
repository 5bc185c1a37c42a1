"""Reads a Program from HLO text, as in `compiled.as_text()` and XLA's text dumps.

    HloModule jit_step, is_scheduled=true, ...
    (tables of file names, functions, locations and stack frames)
    %computation (a: f32[]) -> f32[] {
      ROOT %name = f32[] opcode(%operand), attribute=..., metadata={...}
    }
    ENTRY %main ...

Names come with and without %, operands with and without their shapes, instructions on one line or
on several (constants). Unknown attributes are skipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from counterpoint.core import InputError
from counterpoint.hlo.model.groups import ListedGroups, parse_groups
from counterpoint.hlo.model.instruction import (
    WINDOWED,
    Computation,
    Convolution,
    DotDimensions,
    Indexing,
    Instruction,
    Shape,
    WindowDimension,
    element_bits,
)
from counterpoint.hlo.model.program import Alias, Program
from counterpoint.hlo.model.sharding import parse_sharding
from counterpoint.hlo.model.stack import StackTable
from counterpoint.hlo.model.validation import validate_program
from counterpoint.hlo.schedule import with_async_collectives, without_async_wrappers
from counterpoint.hlo.text_scan import (
    attributes,
    closing,
    fields,
    shown,
    split,
    unquote,
    without_comments,
)

_ARRAY = re.compile(r"([a-z][a-z0-9]*)\[([\d,<=\s?]*)\](?:\{([^{}]*)\})?")
_MEMORY_SPACE = re.compile(r"S\((\d+)\)")
_BUFFER = re.compile(r"b\((.*)\)", re.DOTALL)


_DEEPEST: Final = 32


class Shapes:
    """Parses shapes, each distinct text once."""

    def __init__(self) -> None:
        self._known: dict[str, Shape] = {}
        self._depth = 0

    def at_start(self, text: str) -> tuple[Shape, int]:
        """Return the shape at the start of the text and the index after it."""
        if text.startswith(("(", "b(")):
            end = closing(text, text.index("("))
        else:
            match = _ARRAY.match(text)
            if not match:
                raise _unreadable(text)
            end = match.end()
        return self.read(text[:end]), end

    def read(self, text: str) -> Shape:
        """Return the shape that the whole text describes."""
        shape = self._known.get(text)
        if shape is None:
            self._depth += 1
            if self._depth > _DEEPEST:  # each level looks at all of the text within it
                raise _unreadable(text)
            shape = self._known[text] = self._parse(without_comments(text).strip())
            self._depth -= 1
        return shape

    def _parse(self, text: str) -> Shape:
        if text.startswith("("):
            return Shape("tuple", parts=tuple(map(self.read, split(text[1:-1]))))
        buffer = _BUFFER.fullmatch(text)
        if buffer:
            return Shape("buffer", parts=(self.read(buffer[1]),))
        match = _ARRAY.fullmatch(text)
        if not match:
            raise _unreadable(text)
        dtype, dims, layout = match.groups()
        element_bits(dtype)
        order, _, rest = (layout or "").partition(":")
        space = _MEMORY_SPACE.search(rest)
        known = "?" not in dims  # of other dimensions, the size is known when a program runs
        return Shape(
            dtype,
            dims=tuple(int(dim) for dim in re.findall(r"\d+", dims)),
            minor_to_major=tuple(int(dim) for dim in re.findall(r"\d+", order)) if known else (),
            memory_space=int(space[1]) if space else 0,
        ).sound()


def _unreadable(text: str) -> InputError:
    return InputError(
        f"shape {shown(text)} can't be read",
        why="shapes look like bf16[8,128]{1,0} or (f32[], s32[2])",
    )


_NAME = re.compile(r"\s*(?:ROOT\s+)?%?([\w.\-]+)\s*=\s*")
_OPCODE = re.compile(r"\s*([a-z][\w\-]*)\s*(?=\()")
# Attributes that name the computations an instruction calls, in the order of the proto.
_CALLS = ("calls", "to_apply", "body", "condition", "select", "scatter", "branch_computations",
          "true_computation", "false_computation", "called_computations",
          "async_wrapped")  # fmt: skip
_COLLECTIVES = ("all-", "reduce-scatter", "collective-", "ragged-all", "partition-")
_PAIR = re.compile(r"\{\s*(\d+)\s*,\s*(\d+)\s*\}")
_WINDOW = re.compile(r"\b(size|stride|pad|lhs_dilate|rhs_dilate)=([\d_x-]+)")
_INTEGERS = ("s32", "s64", "u32", "u64")


def instruction(line: str, computation: str, index: int, shapes: Shapes) -> Instruction:
    """Parse an instruction from a line (or several, for constants)."""
    name = _NAME.match(line)
    if not name:
        raise InputError(f"instruction {shown(line)} can't be read", why="it has no `name =`")
    shape, end = shapes.at_start(line[name.end() :])
    opcode = _OPCODE.match(line, name.end() + end)
    if not opcode:
        raise InputError(f"instruction {shown(line)} can't be read", why="it has no opcode")
    end = closing(line, opcode.end())
    inside = line[opcode.end() + 1 : end - 1]
    parsed = attributes(without_comments(line[end:]).lstrip(", "))
    metadata = dict(fields(parsed.get("metadata", "")))
    return Instruction(
        name[1],
        opcode[1],
        shape,
        () if opcode[1] in ("constant", "parameter") else tuple(_operands(inside)),
        tuple(_calls(parsed)),
        computation,
        index,
        metadata.get("op_name", ""),
        metadata.get("source_file", ""),
        int(metadata.get("source_line", 0)),
        int(metadata.get("stack_frame_id", 0)),
        unquote(parsed.get("backend_config", "")),
        scheduling_name=metadata.get("scheduling_name", ""),
        **_details(opcode[1], shape, inside, parsed),
    )


def numbers(text: str) -> tuple[int, ...]:
    """Parse `{0,1}` or `0,1` as integers."""
    return tuple(int(number) for number in re.findall(r"-?\d+", text))


def _operands(text: str) -> Iterator[str]:
    for operand in split(without_comments(text)):
        # Dumps may print the operand's shape before its name.
        yield operand.rpartition(" ")[2].removeprefix("%")


def _calls(attributes: dict[str, str]) -> Iterator[str]:
    for key in _CALLS:
        for name in attributes.get(key, "").strip("{} ").split(","):
            if name.strip():
                yield name.strip().removeprefix("%")


def _details(opcode: str, shape: Shape, inside: str, attributes: dict[str, str]) -> dict[str, Any]:
    channel = int(attributes.get("channel_id", 0))
    details: dict[str, Any] = {
        "frontend_attributes": tuple(sorted(fields(attributes.get("frontend_attributes", "")))),
        "channel_id": channel if channel > 0 else None,
        "custom_call_target": unquote(attributes.get("custom_call_target", "")),
        "fusion_kind": attributes.get("kind", "") if opcode.startswith("fusion") else "",
        "comparison": attributes.get("direction", "") if opcode == "compare" else "",
        "dimensions": numbers(attributes.get("dimensions", attributes.get("iota_dimension", ""))),
        "is_host_transfer": attributes.get("is_host_transfer") == "true",
    }
    if opcode == "parameter":
        details["parameter_number"] = int(inside)
        details["sharding"] = parse_sharding(attributes.get("sharding", ""))
    elif opcode == "get-tuple-element":
        details["tuple_index"] = int(attributes["index"])
    elif opcode == "constant":
        details["literal"] = _literal(shape, inside)
    elif opcode.startswith(_COLLECTIVES):
        details["use_global_device_ids"] = attributes.get("use_global_device_ids") == "true"
        groups = attributes.get("replica_groups")
        details["groups"] = parse_groups(groups) if groups else ListedGroups(())
        pairs = _PAIR.findall(attributes.get("source_target_pairs", ""))
        details["source_target_pairs"] = tuple((int(a), int(b)) for a, b in pairs)
    elif opcode in ("gather", "scatter"):
        details["indexing"] = _indexing(attributes)
    elif opcode in WINDOWED:
        details["window"] = _sizes(attributes)
    elif opcode == "fft":
        details["fft_length"] = numbers(attributes.get("fft_length", ""))
    if "lhs_contracting_dims" in attributes or opcode == "dot":
        details["dot"] = _dot(attributes)
    if "dim_labels" in attributes:
        details["convolution"] = _convolution(attributes)
    return details


def _literal(shape: Shape, text: str) -> int | None:
    text = text.strip()
    if shape.dims:
        return None
    if shape.dtype == "pred":
        return {"true": 1, "false": 0}.get(text)
    return int(text) if shape.dtype in _INTEGERS and re.fullmatch(r"-?\d+", text) else None


def _indexing(attributes: dict[str, str]) -> Indexing:
    window = attributes.get("offset_dims", attributes.get("update_window_dims", ""))
    left_out = attributes.get("collapsed_slice_dims", attributes.get("inserted_window_dims", ""))
    batching = attributes.get("operand_batching_dims", attributes.get("input_batching_dims", ""))
    return Indexing(
        numbers(window),
        (*numbers(left_out), *numbers(batching)),
        attributes.get("indices_are_sorted") == "true",
        attributes.get("unique_indices") == "true",
    )


def _sizes(attributes: dict[str, str]) -> tuple[int, ...]:
    window: dict[str, str] = dict(_WINDOW.findall(attributes.get("window", "")))
    return tuple(max(int(size), 1) for size in window.get("size", "").split("x") if size)


def _dot(attributes: dict[str, str]) -> DotDimensions:
    return DotDimensions(
        numbers(attributes.get("lhs_contracting_dims", "")),
        numbers(attributes.get("rhs_contracting_dims", "")),
        numbers(attributes.get("lhs_batch_dims", "")),
        numbers(attributes.get("rhs_batch_dims", "")),
    )


def _convolution(attributes: dict[str, str]) -> Convolution:
    """Parse `window={size=3x3 stride=2x2}, dim_labels=b01f_01io->b01f`.

    I and o are the features; the digits are the spatial dimensions, in the order of the window.
    """
    window = {
        name: value.split("x") for name, value in _WINDOW.findall(attributes.get("window", ""))
    }
    image, _, rest = attributes["dim_labels"].partition("_")
    kernel, _, result = rest.partition("->")

    def read(name: str, at: int, usual: int) -> int:
        parts = window.get(name, [])
        return int(parts[at].partition("_")[0]) if at < len(parts) else usual

    return Convolution(
        window=tuple(
            WindowDimension(
                size=int(size),
                stride=read("stride", at, 1),
                padding_low=read("pad", at, 0),
                window_dilation=read("rhs_dilate", at, 1),
                base_dilation=read("lhs_dilate", at, 1),
                base=image.index(str(at)) if str(at) in image else None,
                result=result.index(str(at)) if str(at) in result else None,
            )
            for at, size in enumerate(window.get("size", ()))
        ),
        kernel_output_feature=kernel.index("o"),
        feature_groups=int(attributes.get("feature_group_count", 1)),
        batch_groups=int(attributes.get("batch_group_count", 1)),
    )


_MODULE = re.compile(r'HloModule\s+("[^"]*"|[^\s,]+)')
_HEADER = re.compile(r"(ENTRY\s+)?%?([^\s(){}=,]+)\s*(?:\(.*)?\{$", re.DOTALL)
_FINGERPRINT = "fingerprint_before_lhs"
_ALIAS = re.compile(r"\{([\d,\s]*)\}:\s*\((\d+),\s*\{([\d,\s]*)\}(?:,\s*([\w-]+))?\)")
_TABLES = ("FileNames", "FunctionNames", "FileLocations", "StackFrames")
_ROW = re.compile(r"\d+\s+(.*)", re.DOTALL)
_INSTRUCTION = re.compile(r"\s+(ROOT\s+)?%?([\w.\-]+)\s*=\s")
# Attributes of several lines (a Mosaic kernel's metadata) end with braces, too: `}}, metadata=`.
_END = re.compile(r"\}\s*(?:$|,\s*execution_thread=)")


def program_from_text(text: str) -> Program:
    """Read the Program in HLO text."""
    start = _MODULE.search(text)
    if not start:
        raise InputError(
            f"this is not HLO text: it starts with {shown(text)}",
            why="HLO text has a line `HloModule name, ...`",
            next="pass the result of compiled.as_text(), or *after_optimizations.txt of a dump",
        )
    try:
        return validate_program(
            with_async_collectives(
                without_async_wrappers(_program(unquote(start[1]), text[start.end() :]))
            )
        )
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
    """Yield each computation: its header, and its instructions with whether each is the root."""
    table: list[str] = []
    header: re.Match[str] | None = None
    lines: list[tuple[bool, str]] = []
    for line in text.splitlines():
        if header is None:
            header = _HEADER.match(line)
            lines = []
            if header is None:
                table = _table_row(line, table, tables)
        elif _END.match(line):
            yield header, lines
            header = None
        elif start := _INSTRUCTION.match(line):
            lines.append((bool(start[1]), line))
        elif lines and line.strip():
            # A constant or an attribute written over several lines.
            lines[-1] = (lines[-1][0], f"{lines[-1][1]}\n{line}")
    if header is not None:
        raise InputError(
            f"HLO text is cut off in computation {header[2]}", why="its closing brace is missing"
        )


def _table_row(line: str, table: list[str], tables: dict[str, list[str]]) -> list[str]:
    """Add a row to its table; return the table for the next row."""
    if line.strip() in tables:
        return tables[line.strip()]
    row = _ROW.match(line)
    if row:
        table.append(row[1])
    return table


def _computation(name: str, lines: list[tuple[bool, str]], shapes: Shapes) -> Computation:
    instructions: dict[str, Instruction] = {}
    root = ""
    for is_root, line in lines:
        parsed = instruction(line, name, len(instructions), shapes)
        for operand in parsed.operands:
            _take_element(operand, instructions)
        instructions[parsed.name] = replace(parsed, index=len(instructions))
        if is_root or not root:
            root = parsed.name
    if not instructions:
        raise InputError(f"computation {name} of the HLO text has no instructions")
    return Computation(name, tuple(instructions.values()), root)


def _take_element(operand: str, instructions: dict[str, Instruction]) -> None:
    """Add the element that `%loop#2`, since 0.12, refers to without a line of its own."""
    whole, sign, index = operand.rpartition("#")
    if not sign or operand in instructions:
        return
    _take_element(whole, instructions)
    source = instructions[whole]
    instructions[operand] = Instruction(
        name=operand,
        opcode="get-tuple-element",
        shape=source.shape.parts[int(index)],
        operands=(whole,),
        calls=(),
        computation=source.computation,
        index=len(instructions),
        tuple_index=int(index),
    )


def _aliases(text: str) -> Iterator[Alias]:
    for output, parameter, index, kind in _ALIAS.findall(text):
        yield Alias(
            output=numbers(output),
            parameter=int(parameter),
            parameter_index=numbers(index),
            must=kind == "must-alias",
        )


def _stacks(tables: dict[str, list[str]]) -> StackTable:
    locations = (dict(fields(row)) for row in tables["FileLocations"])
    rows = [dict(fields(row)) for row in tables["StackFrames"]]
    frames = [(_index(row, "file_location_id"), _index(row, "parent_frame_id")) for row in rows]
    # Newer text writes a parent as its index plus one, protos don't. An outermost frame shows
    # which: its parent is 0 in the old form, never in the new one.
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
