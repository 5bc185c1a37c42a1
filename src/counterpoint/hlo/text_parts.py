"""One instruction of HLO text: name, shape, opcode, operands and the attributes we know."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from counterpoint.core.errors import InputError
from counterpoint.hlo.groups import Listed, parse_groups
from counterpoint.hlo.instruction import Convolution, DotDimensions, Instruction
from counterpoint.hlo.shape import Shape
from counterpoint.hlo.text_scan import (
    attributes,
    closing,
    fields,
    shown,
    split,
    unquote,
    without_comments,
)
from counterpoint.hlo.text_shape import Shapes

_NAME = re.compile(r"\s*(?:ROOT\s+)?%?([\w.\-]+)\s*=\s*")
_OPCODE = re.compile(r"\s*([a-z][\w\-]*)\s*(?=\()")
# Attributes that name the computations an instruction calls, in the order of the proto.
_CALLS = ("calls", "to_apply", "body", "condition", "select", "scatter", "branch_computations",
          "true_computation", "false_computation", "called_computations",
          "async_wrapped")  # fmt: skip
_COLLECTIVES = ("all-", "reduce-scatter", "collective-", "ragged-all", "partition-")
_PAIR = re.compile(r"\{\s*(\d+)\s*,\s*(\d+)\s*\}")
_WINDOW_SIZE = re.compile(r"\bsize=([\dx]+)")
_INTEGERS = ("s32", "s64", "u32", "u64")


def instruction(line: str, computation: str, index: int, shapes: Shapes) -> Instruction:
    """The instruction which a line (or several, for constants) spells."""
    name = _NAME.match(line)
    if not name:
        raise InputError(f"instruction {shown(line)} can't be read", why="it has no `name =`")
    shape, end = shapes.at_start(line[name.end() :])
    opcode = _OPCODE.match(line, name.end() + end)
    if not opcode:
        raise InputError(f"instruction {shown(line)} can't be read", why="it has no opcode")
    end = closing(line, opcode.end())
    inside = line[opcode.end() + 1 : end - 1]
    found = attributes(without_comments(line[end:]).lstrip(", "))
    metadata = dict(fields(found.get("metadata", "")))
    return Instruction(
        name[1],
        opcode[1],
        shape,
        () if opcode[1] in ("constant", "parameter") else tuple(_operands(inside)),
        tuple(_calls(found)),
        computation,
        index,
        metadata.get("op_name", ""),
        metadata.get("source_file", ""),
        int(metadata.get("source_line", 0)),
        int(metadata.get("stack_frame_id", 0)),
        unquote(found.get("backend_config", "")),
        scheduling_name=metadata.get("scheduling_name", ""),
        **_details(opcode[1], shape, inside, found),
    )


def numbers(text: str) -> tuple[int, ...]:
    """`{0,1}` or `0,1` as integers."""
    return tuple(int(number) for number in re.findall(r"-?\d+", text))


def _operands(text: str) -> Iterator[str]:
    for operand in split(without_comments(text)):
        # Dumps may print the operand's shape before its name.
        yield operand.rpartition(" ")[2].removeprefix("%")


def _calls(found: dict[str, str]) -> Iterator[str]:
    for key in _CALLS:
        for name in found.get(key, "").strip("{} ").split(","):
            if name.strip():
                yield name.strip().removeprefix("%")


def _details(opcode: str, shape: Shape, inside: str, found: dict[str, str]) -> dict[str, Any]:
    channel = int(found.get("channel_id", 0))
    details: dict[str, Any] = {
        "frontend_attributes": tuple(sorted(fields(found.get("frontend_attributes", "")))),
        "channel_id": channel if channel > 0 else None,
        "custom_call_target": unquote(found.get("custom_call_target", "")),
        "fusion_kind": found.get("kind", "") if opcode.startswith("fusion") else "",
        "comparison": found.get("direction", "") if opcode == "compare" else "",
        "dimensions": numbers(found.get("dimensions", found.get("iota_dimension", ""))),
        "is_host_transfer": found.get("is_host_transfer") == "true",
    }
    if opcode == "parameter":
        details["parameter_number"] = int(inside)
    elif opcode == "get-tuple-element":
        details["tuple_index"] = int(found["index"])
    elif opcode == "constant":
        details["literal"] = _literal(shape, inside)
    elif opcode.startswith(_COLLECTIVES):
        details["use_global_device_ids"] = found.get("use_global_device_ids") == "true"
        groups = found.get("replica_groups")
        details["groups"] = parse_groups(groups) if groups else Listed(())
        pairs = _PAIR.findall(found.get("source_target_pairs", ""))
        details["source_target_pairs"] = tuple((int(a), int(b)) for a, b in pairs)
    if "lhs_contracting_dims" in found or opcode == "dot":
        details["dot"] = _dot(found)
    if "dim_labels" in found:
        details["convolution"] = _convolution(found)
    return details


def _literal(shape: Shape, text: str) -> int | None:
    text = text.strip()
    if shape.dims:
        return None
    if shape.dtype == "pred":
        return {"true": 1, "false": 0}.get(text)
    return int(text) if shape.dtype in _INTEGERS and re.fullmatch(r"-?\d+", text) else None


def _dot(found: dict[str, str]) -> DotDimensions:
    return DotDimensions(
        numbers(found.get("lhs_contracting_dims", "")),
        numbers(found.get("rhs_contracting_dims", "")),
        numbers(found.get("lhs_batch_dims", "")),
        numbers(found.get("rhs_batch_dims", "")),
    )


def _convolution(found: dict[str, str]) -> Convolution:
    """`window={size=3x3 stride=2x2}, dim_labels=b01f_01io->b01f`; i and o are the features."""
    size = _WINDOW_SIZE.search(found.get("window", ""))
    kernel = found["dim_labels"].partition("_")[2].partition("->")[0]
    return Convolution(
        window=tuple(int(part) for part in size[1].split("x")) if size else (),
        kernel_output_feature=kernel.index("o"),
        feature_groups=int(found.get("feature_group_count", 1)),
        batch_groups=int(found.get("batch_group_count", 1)),
    )
