"""The line of the user's program that an error of the compiler is about, where that can be found.

MLIR's errors name it, or the line of the module. XLA's name an operation by its `op_name` at best,
and StableHLO with debug information (what `JAX_DUMP_IR_TO` writes) says where that comes from.
"""

from __future__ import annotations

import re
from typing import Final

_FILE: Final = re.compile(r'"(?!-")([^"\n]+\.\w+)":(\d+)(?::\d+)?')
_METADATA: Final = re.compile(r'source_file="([^"]+)"[^}]*?source_line=(\d+)')
_MODULE_LINE: Final = re.compile(r'"-":(\d+):\d+')
_OP_NAME: Final = re.compile(r'op_name="([^"]+)"|loc\("([^"]+)"\)')
_ALIAS: Final = re.compile(rb"#loc\d+")
_DEPTH: Final = 12
_LONGEST: Final = 120


def source_line(said: str, program: bytes) -> str | None:
    """FILE:LINE, or what the module itself has there; None where the error does not lead there."""
    for pattern in (_FILE, _METADATA):
        if found := pattern.search(said):
            return f"{found[1]}:{found[2]}"
    for scope in (one or other for one, other in _OP_NAME.findall(said)):
        if place := _place_of(scope, program):
            return f"{place}, in {scope}"
    if found := _MODULE_LINE.search(said):
        return _line_of_module(int(found[1]), program)
    return None


def _place_of(scope: str, program: bytes) -> str | None:
    """Where an operation of that name is written, by the locations in a module's text."""
    at = re.search(rb'loc\("' + re.escape(scope.encode()) + rb'"\((.*)\)\)', program)
    text = at[1] if at else b""
    for _ in range(_DEPTH):
        if found := _FILE.search(text.decode(errors="replace")):
            return f"{found[1]}:{found[2]}"
        alias = _ALIAS.search(text)  # the first is the innermost frame
        if alias is None:
            return None
        definition = re.search(rb"(?m)^" + alias[0] + rb" = (.*)$", program)
        text = definition[1] if definition else b""
    return None


def _line_of_module(number: int, program: bytes) -> str | None:
    lines = program.splitlines()
    if not 0 < number <= len(lines):
        return None
    text = lines[number - 1].decode(errors="replace").strip()
    return f"line {number} of the module: {text[:_LONGEST]}"
