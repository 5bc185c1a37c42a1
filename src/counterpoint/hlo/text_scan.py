"""Splits HLO text into pieces, with regard to quotes, braces and comments.

Everything in HLO text nests in (), {} and [] and may be in double quotes with backslash escapes.
The functions here find where a piece ends; the text reader interprets it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from counterpoint.core import InputError

# Text may be cut off: a string or comment without its end goes to the end of the text. A search
# that began again within it would take the square of its length; so it would within a long word.
_STRING = r'"(?:[^"\\]|\\.)*+"?'
_MARK = re.compile(rf"{_STRING}|[(){{}}\[\],]", re.DOTALL)
_FIELD = re.compile(
    rf'(?<![\w.\-/])([\w.\-/]++)=({_STRING}|\{{[^{{}}]*\}}|[^\s,{{}}"]+)', re.DOTALL
)
_KEY = re.compile(r"[\w\-]+")
_COMMENT = re.compile(rf"({_STRING})|/\*.*?\*/|(/\*.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|[0-7]{1,3}|.)", re.DOTALL)
_NAMED_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}


def closing(text: str, start: int) -> int:
    """Return the index after the bracket that closes the one at `start`."""
    depth = 0
    for mark in _MARK.finditer(text, start):
        symbol = mark[0]
        if symbol in "({[":
            depth += 1
        elif symbol in ")}]":
            depth -= 1
            if depth <= 0:
                return mark.end()
    raise InputError(
        f"HLO text is cut off or damaged near {shown(text[start:])}",
        why=f"a {text[start]!r} is not closed",
    )


def split(text: str) -> list[str]:
    """Return the pieces between top-level commas, stripped."""
    pieces: list[str] = []
    depth, begin = 0, 0
    for mark in _MARK.finditer(text):
        symbol = mark[0]
        if symbol == ",":
            if depth == 0:
                pieces.append(text[begin : mark.start()].strip())
                begin = mark.end()
        elif symbol in "({[":
            depth += 1
        elif symbol in ")}]":
            depth -= 1
    pieces.append(text[begin:].strip())
    return [piece for piece in pieces if piece]


def attributes(text: str) -> dict[str, str]:
    """Parse `key=value, key=value` as a dict; a piece without a key belongs to the previous one."""
    pairs: dict[str, str] = {}
    key = ""
    for piece in split(text):
        name, equals, value = piece.partition("=")
        if equals and _KEY.fullmatch(name) and name != "device_ids":
            key = name
            pairs[key] = value
        elif key:
            # A mesh of devices in arbitrary order: mesh['x'=2], device_ids=(1,0) {'x'}.
            pairs[key] += f", {piece}"
    return pairs


def fields(text: str) -> Iterator[tuple[str, str]]:
    """Yield the `key=value` pairs of `{key="value" key=value}`, values unquoted."""
    for match in _FIELD.finditer(text):
        yield match[1], unquote(match[2])


def without_comments(text: str) -> str:
    """Remove /* ... */ from the text, except in quotes."""
    return _COMMENT.sub(lambda match: match[1] or match[2] or "", text) if "/*" in text else text


def unquote(text: str) -> str:
    """Return a C-escaped string without its quotes; other text unchanged."""
    if len(text) < 2 or text[0] != '"' or text[-1] != '"':
        return text
    text = text[1:-1]
    if "\\" not in text:
        return text
    # Octal and hex escapes are bytes of UTF-8, not characters.
    plain = _ESCAPE.sub(lambda match: _unescape(match[1]), text)
    return plain.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _unescape(code: str) -> str:
    if code[0].isdigit():
        return bytes([int(code, 8) & 255]).decode("utf-8", "surrogateescape")
    if code[0] == "x" and len(code) == 3:
        return bytes([int(code[1:], 16)]).decode("utf-8", "surrogateescape")
    return _NAMED_ESCAPES.get(code, code)


def shown(text: str) -> str:
    """Return the beginning of a text, for an error message."""
    line = text.strip().partition("\n")[0]
    return repr(line if len(line) <= 80 else f"{line[:77]}...")
