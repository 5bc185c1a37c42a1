"""Known failures of the compiler, and the option that avoids each.

They prevent a schedule without being related to it: the compile is retried with the option, unless
the user has set that option, and a note reports it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Workaround:
    """The text of a failure, the option to compile with instead, and its consequence."""

    mark: re.Pattern[str]
    option: str
    value: str
    note: str


WORKAROUNDS: Final = (
    # Code of a custom call is looked up when kernels are generated, long after scheduling.
    Workaround(
        re.compile(r"No FFI handler registered|No registered implementation for custom call"),
        "xla_gpu_mock_custom_calls",
        "True",
        "custom calls whose code is not on this machine are scheduled as they are, and left out of"
        " the executable",
    ),
    # jaxlib 0.12.0: an all-reduce of one integer, combined with others.
    Workaround(
        re.compile(r"compiling Triton kernel:.*\n?.*all-reduce"),
        "xla_gpu_experimental_use_collective_kernels",
        "",
        "all-reduces are left to NCCL: XLA's own kernel for small ones does not compile here",
    ),
)


def find_workaround(said: str, tried: Mapping[str, str]) -> Workaround | None:
    """Return the remedy for this failure, unless it was tried or the user set its option."""
    for known in WORKAROUNDS:
        if known.option not in tried and known.mark.search(said):
            return known
    return None


def workaround_notes(taken: Mapping[str, str], asked: Mapping[str, str]) -> Iterator[str]:
    """Yield notes on the options that were added."""
    for known in WORKAROUNDS:
        if known.option in taken and known.option not in asked:
            yield known.note


_FILE: Final = re.compile(r'"(?!-")([^"\n]+\.\w+)":(\d+)(?::\d+)?')
_METADATA: Final = re.compile(r'source_file="([^"]+)"[^}]*?source_line=(\d+)')
_MODULE_LINE: Final = re.compile(r'"-":(\d+):\d+')
_OP_NAME: Final = re.compile(r'op_name="([^"]+)"|loc\("([^"]+)"\)')
_ALIAS: Final = re.compile(rb"#loc\d+")
_DEPTH: Final = 12
_LONGEST: Final = 120


def source_line(said: str, program: bytes) -> str | None:
    """Return FILE:LINE, or the module's own text there; None if the error has no location.

    MLIR's errors contain the location, or the line of the module. XLA's contain an operation's
    `op_name` at best, which StableHLO with debug information (as `JAX_DUMP_IR_TO` writes it) maps
    to a location.
    """
    for pattern in (_FILE, _METADATA):
        if found := pattern.search(said):
            return f"{found[1]}:{found[2]}"
    for scope in (
        scope_name or location_name for scope_name, location_name in _OP_NAME.findall(said)
    ):
        if place := _place_of(scope, program):
            return f"{place}, in {scope}"
    if found := _MODULE_LINE.search(said):
        return _line_of_module(int(found[1]), program)
    return None


def _place_of(scope: str, program: bytes) -> str | None:
    """Return where an operation of that name is written, from the locations in a module's text."""
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
