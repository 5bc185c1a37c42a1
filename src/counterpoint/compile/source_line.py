"""The line of the program that an error of the compiler points to."""

from __future__ import annotations

import re
from typing import Final

_FILE: Final = re.compile(r'"(?!-")([^"\n]+\.\w+)":(\d+)(?::\d+)?')
_METADATA: Final = re.compile(r'source_file="([^"]+)"[^}]*?source_line=(\d+)')
_MODULE_LINE: Final = re.compile(r'"-":(\d+):\d+')
_OP_NAME: Final = re.compile(r'op_name="([^"]+)"|loc\("([^"]+)"\)')
_ALIAS: Final = re.compile(rb"#loc\d+")
_DEPTH: Final = 12
_LONGEST_LINE: Final = 120


def source_line(message: str, program: bytes) -> str | None:
    """Return FILE:LINE, or the module's own text there; None if the error has no location.

    MLIR's errors contain the location, or the line of the module. XLA's contain an operation's
    `op_name` at best, which StableHLO with debug information (as `JAX_DUMP_IR_TO` writes it) maps
    to a location.
    """
    for pattern in (_FILE, _METADATA):
        if match := pattern.search(message):
            return f"{match[1]}:{match[2]}"
    for scope in (
        scope_name or location_name for scope_name, location_name in _OP_NAME.findall(message)
    ):
        if place := _place_of(scope, program):
            return f"{place}, in {scope}"
    if match := _MODULE_LINE.search(message):
        return _line_of_module(int(match[1]), program)
    return None


def _place_of(scope: str, program: bytes) -> str | None:
    """Return where an operation of that name is written, from the locations in a module's text."""
    at = re.search(rb'loc\("' + re.escape(scope.encode()) + rb'"\((.*)\)\)', program)
    text = at[1] if at else b""
    for _ in range(_DEPTH):
        if match := _FILE.search(text.decode(errors="replace")):
            return f"{match[1]}:{match[2]}"
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
    return f"line {number} of the module: {text[:_LONGEST_LINE]}"
