"""Any other text, line by line: logs, templates that are not YAML yet, blocks of no known form.

Each line is read for itself: a flag with a value, `NAME=value`, `NAME: value`, and a `name:` line
with the `value:` line after it. A bare name in a sentence sets nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from counterpoint.flags.catalogue.variable import meant_option
from counterpoint.flags.parse.scan import Scan
from counterpoint.flags.parse.traced import TracedText, known, unknown
from counterpoint.flags.parsed import LINE
from counterpoint.flags.settings import FLAG_VARIABLES, Channel, is_setting
from counterpoint.flags.text import LIBTPU

_VALUE: Final = r"""(?:"[^"\n]*"|'[^'\n]*'|(?:(?!\]\()[^\s"'`\\|<>])*)"""
"""A value in quotes, or up to a space; a Markdown link ends it."""
_FLAG: Final = re.compile(rf"(?<![\w-])--((?:xla|megascale)_\w+)(?:=({_VALUE}))?")
_VARIABLE: Final = re.compile(rf"\b([A-Z][A-Z0-9_]+)=({_VALUE})")
_OPTION: Final = re.compile(rf"(?<![\w-])--(trainer\.[\w.]+)[ =]({_VALUE})")
_ENTRY: Final = re.compile(
    r"^[ \t>]*(?:[-*+][ \t]+)?[`\"']?([A-Z][A-Z0-9_]+)[`\"']?:"
    r"[ \t]*[`\"']?([^\s`\"']+)[`\"']?,?\s*$"
)
"""`- NCCL_PROTO: SIMPLE`, an entry of a list, or of a dict."""
_NAME_LINE: Final = re.compile(r"[ \t-]*name:[ \t]*[\"']?([A-Z][A-Z0-9_]+)[\"']?\s*$")
_VALUE_LINE: Final = re.compile(r"[ \t]*+value:[ \t]*+(.*\S)")
_HOLDS: Final = re.compile(r"\b(XLA_FLAGS|LIBTPU_INIT_ARGS)[\"']?\]?\s*(?:\+?=|:)")
_PUNCTUATION: Final = ".,;:)]}*"
_PLACEHOLDER: Final = re.compile(r"\.{2,}|\N{HORIZONTAL ELLIPSIS}|[.\d]*X{1,}|N|[^{$\n]*+[{$].*")


@dataclass(frozen=True, slots=True)
class _Held:
    """The variable of flags whose value goes on in the next line, and the quote that ends it."""

    name: str = ""
    quote: str = ""


def scan_lines(text: str, scan: Scan, line: int = 1) -> None:
    """Read each line; a value of flags may go on over several."""
    held, name = _Held(), ""
    for number, row in enumerate(text.split("\n"), line):
        if row.lstrip().startswith("#"):  # a comment discusses settings, and sets none
            continue
        with scan.inside(LINE, str(number)):
            held = _flags(row, scan, number, held) if row.strip() else _Held()
            _variables(row, scan, number)
            if name and (value := _VALUE_LINE.match(row)):
                _set(name, value[1].strip("\"'"), scan, number)
            match = _NAME_LINE.match(row)
            name = match[1] if match else ""
    if scan.own or scan.options:
        scan.notes["flags found in text, in order; the text itself is not interpreted"] = None


def _flags(row: str, scan: Scan, number: int, held: _Held) -> _Held:
    """Read the flags of a line; return the variable that those of the next line belong to."""
    rest = row
    if holds := _HOLDS.search(row):
        rest = row[holds.end() :].strip()
        quote = rest[:1] if rest[:1] in ("'", '"') else ""
        held, rest = _Held(holds[1], quote), rest.removeprefix(quote)
    for match in _FLAG.finditer(row):
        value = _bare(match[2])
        if value is None and not held.name:
            continue
        own = "LIBTPU_INIT_ARGS" if match[1].startswith(LIBTPU) else "XLA_FLAGS"
        text = f"--{match[1]}" if value is None else f"--{match[1]}={value}"
        scan.take(_traced(text, number), FLAG_VARIABLES[held.name or own], "")
    for match in _OPTION.finditer(row):
        if meant_option(match[1]) is not None and (value := _bare(match[2])):
            option = _traced(value, number)
            scan.option(Channel.TRAINER, match[1], option, number, text=f"--{match[1]}={value}")
    goes_on = held.quote not in rest if held.quote else rest.rstrip().endswith("\\")
    return held if goes_on else _Held()


def _variables(row: str, scan: Scan, number: int) -> None:
    entry = _ENTRY.match(row)
    for match in (*_VARIABLE.finditer(row), *([entry] if entry else ())):
        if (value := _bare(match[2])) and match[1] not in FLAG_VARIABLES:
            _set(match[1], value, scan, number)


def _set(name: str, value: str, scan: Scan, number: int) -> None:
    if is_setting(name):
        scan.give(name, _traced(value, number), number)


def _traced(value: str, number: int) -> TracedText:
    _, equals, inner = value.partition("=")
    if _PLACEHOLDER.fullmatch(inner if equals and value.startswith("--") else value):
        start = value[: len(value) - len(inner)] if equals and value.startswith("--") else ""
        return known(start, number) + unknown(value[len(start) :], number)
    return known(value, number)


def _bare(value: str | None) -> str | None:
    if value is None or value[:1] in ("'", '"'):
        return value and value[1:-1]
    return value.rstrip(_PUNCTUATION)
