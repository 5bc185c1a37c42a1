"""Numerals: what C, C++ and Python make of a text that is to be a number.

NCCL takes strtoll: as far as the digits go, 0 where there are none. XLA's log takes a stream, which
does nearly the same. Python takes all of a text, or raises.
"""

from __future__ import annotations

import re
from typing import Final

_STRTOLL: Final = re.compile(r"[ \t\n\v\f\r]*([+-]?)(0[xX][\da-fA-F]+|\d+)", re.ASCII)
_STREAM: Final = re.compile(r"[ \t\n\v\f\r]*([+-]?\d+)", re.ASCII)
_OCTAL: Final = re.compile(r"0[0-7]*")
_LIMIT: Final = 1 << 63
_DIGITS: Final = 40  # more do not fit, whatever they are


def strtoll(text: str) -> int | None:
    """C's reading with base 0: `0x10` is 16, `010` is 8. None where the number does not fit."""
    match = _STRTOLL.match(text)
    if match is None:
        return 0
    digits = match[2]
    octal = _OCTAL.match(digits)
    base = 16 if digits[:2] in ("0x", "0X") else 8 if octal else 10
    digits = octal[0] if octal and base == 8 else digits
    return _fitting(match[1] + digits, base)


def from_stream(text: str) -> int:
    """A C++ stream's reading, as XLA's log has it: 0 where it fails."""
    match = _STREAM.match(text)
    return (_fitting(match[1], 10) if match else None) or 0


def is_python_int(text: str) -> bool:
    """Whether Python's `int` takes it."""
    try:
        int(text)
    except ValueError:
        return False
    return True


def is_python_float(text: str) -> bool:
    """Whether Python's `float` takes it."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def _fitting(digits: str, base: int) -> int | None:
    if len(digits.lstrip("+-0")) > _DIGITS:
        return None
    number = int(digits, base)
    return number if -_LIMIT <= number < _LIMIT else None
