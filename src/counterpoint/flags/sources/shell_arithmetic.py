"""Integer arithmetic as a shell does it in `$((...))`: 64 bits, C's operators, bare names."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

_LONGEST: Final = 300  # a longer one is not worked out: brackets are read one within the other
_TOKEN: Final = re.compile(
    r"\s*(?:(0[xX][0-9a-fA-F]+|\d+)|\$?\{?([A-Za-z_]\w*)\}?|(\*\*|<<|>>|[-+*/%()&|^~]))"
)
_NUMBER: Final = re.compile(r"-?(?:0[xX][0-9a-fA-F]+|\d+)")
_BINDS: Final = {"|": 1, "^": 2, "&": 3, "<<": 4, ">>": 4, "+": 5, "-": 5}
_BINDS_MORE: Final = {"*": 6, "/": 6, "%": 6, "**": 8}
_STRENGTH: Final = _BINDS | _BINDS_MORE
_UNARY: Final = 7


class _NoNumberError(Exception):
    """It is no such expression, or a name in it has no value."""


def work_out(expression: str, value_of: Callable[[str], str | None]) -> int | None:
    """What an expression comes to; None where a name in it is not known, or an operator."""
    if len(expression) > _LONGEST:
        return None
    try:
        reader = _Expression(_tokens(expression), value_of)
        result = reader.read(0)
    except (_NoNumberError, ZeroDivisionError):
        return None
    return None if reader.tokens else result


def _tokens(expression: str) -> list[str]:
    """In reverse order, so that the next one is popped."""
    found: list[str] = []
    at, text = 0, expression.strip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if not match:
            raise _NoNumberError
        found.append(match[1] or match[2] or match[3])
        at = match.end()
    return found[::-1]


@dataclass(slots=True)
class _Expression:
    """What is left to read of one."""

    tokens: list[str]
    value_of: Callable[[str], str | None]

    def read(self, least: int) -> int:
        """Up to an operator that binds less than `least`."""
        left = self._operand()
        while self.tokens and _STRENGTH.get(self.tokens[-1], -1) >= least:
            operator = self.tokens.pop()
            strength = _STRENGTH[operator]
            right = self.read(strength if operator == "**" else strength + 1)
            left = _wrapped(_applied(operator, left, right))
        return left

    def _operand(self) -> int:
        if not self.tokens:
            raise _NoNumberError
        token = self.tokens.pop()
        if token == "(":  # noqa: S105
            value = self.read(0)
            if not self.tokens or self.tokens.pop() != ")":
                raise _NoNumberError
            return value
        if token in ("-", "+", "~"):
            value = self.read(_UNARY + 1)
            return _wrapped({"-": -value, "+": value, "~": ~value}[token])
        return self._number(token)

    def _number(self, token: str) -> int:
        text = token if token[0].isdigit() else (self.value_of(token) or "").strip()
        if not _NUMBER.fullmatch(text):
            raise _NoNumberError
        digits = text.lstrip("-")
        base = 16 if digits[:2] in ("0x", "0X") else 8 if digits[0] == "0" else 10
        try:
            return _wrapped(int(text, base))
        except ValueError:  # an 8 or 9 in an octal number, or thousands of digits
            raise _NoNumberError from None


def _applied(operator: str, left: int, right: int) -> int:
    if operator == "**":
        if right < 0:
            raise _NoNumberError
        return pow(left, right, 1 << 64)
    if operator in ("/", "%"):  # towards zero, as in C
        whole = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
        return whole if operator == "/" else left - whole * right
    return {
        "|": left | right,
        "^": left ^ right,
        "&": left & right,
        "<<": left << (right & 63),
        ">>": left >> (right & 63),
        "+": left + right,
        "-": left - right,
        "*": left * right,
    }[operator]


def _wrapped(value: int) -> int:
    """As it is in 64 bits with a sign."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)
