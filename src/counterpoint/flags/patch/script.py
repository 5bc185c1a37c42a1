"""Settings in a shell script: a block of exports behind the script's own, or options of xpk.

Flags are appended to what the script has set by then, and XLA lets the last one count, so that the
script's other flags stay. The block has marks, by which the next patch replaces it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from itertools import takewhile
from typing import Final

from counterpoint.core import UsageError
from counterpoint.flags.forms import quoted
from counterpoint.flags.patch.manifest import merged_flags
from counterpoint.flags.settings import FLAG_VARIABLES, Settings
from counterpoint.flags.text import parse_xla_flags, render_xla_flags

_BEGIN: Final = "# begin of settings by `counterpoint tune`"
_END: Final = "# end of settings by `counterpoint tune`"
_BLOCK: Final = re.compile(
    rf"^{re.escape(_BEGIN)}\r?\n.*?^{re.escape(_END)}(?:\r?\n|\Z)", re.MULTILINE | re.DOTALL
)
_XPK: Final = re.compile(
    r"^[^#\n]*\bxpk(?:\.py)?\s+workload\s+create(?:-pathways)?\b", re.MULTILINE
)
_OPTION: Final = r"""-{2}env[= ]((?=['"]?NAME=)(?:'[^']*'|"(?:\\.|[^"\\])*"|\\.|[^\s'"\\])+)"""
_LONGEST: Final = 400
"""Lines of one statement; more are an unclosed quotation mark."""


def patch_script(text: str, settings: Settings) -> tuple[str, tuple[str, ...]]:
    """Return the text with the settings, and notes."""
    variables = dict(_variables(settings))
    if not variables:
        return text, ()
    newline = "\r\n" if "\r\n" in text else "\n"
    if found := _XPK.search(text):
        return _with_options(text, found.end(), settings)
    plain = _BLOCK.sub("", text)
    at, notes = _place(plain, tuple(variables))
    lines = [_BEGIN, *(_export(name, value) for name, value in variables.items()), _END]
    first = newline if at and plain[at - 1] != "\n" else ""
    block = first + "".join(f"{line}{newline}" for line in lines)
    return plain[:at] + block + plain[at:], notes


def _variables(settings: Settings) -> Iterator[tuple[str, str]]:
    if settings.xla:
        yield "XLA_FLAGS", render_xla_flags(settings.flags.items())
    yield from settings.variables.items()


def _export(name: str, value: str) -> str:
    if name in FLAG_VARIABLES:
        return f'export {name}="${{{name}:-}} {quoted(value)}"'
    return f'export {name}="{quoted(value)}"'


def _place(text: str, names: tuple[str, ...]) -> tuple[int, tuple[str, ...]]:
    """Return where the block goes: after the last assignment of these names, or after the head."""
    sets = re.compile(rf"^(\s*)(?:export\s+|declare\s+-x\s+)?({'|'.join(names)})\+?=")
    lines = text.splitlines(keepends=True)
    at = sum(map(len, takewhile(lambda line: line.startswith("#"), lines)))
    notes: list[str] = []
    begin = number = 0
    while number < len(lines):
        count = _length(lines, number)
        size = sum(map(len, lines[number : number + count]))
        found = sets.match(lines[number])
        if found and found[1]:
            notes.append(
                f"line {number + 1}: {found[2]} is set within a block of the script; if that runs"
                " later, it replaces the new value"
            )
        elif found:
            at = begin + size
        begin += size
        number += count
    return at, tuple(notes)


def _length(lines: list[str], first: int) -> int:
    """Return the number of lines of the statement that begins there."""
    if lines[first].lstrip().startswith("#"):
        return 1
    whole = ""
    for count, line in enumerate(lines[first : first + _LONGEST], 1):
        whole += line
        if line.rstrip("\r\n").endswith("\\"):
            continue
        try:
            shlex.split(whole, comments=True)
        except ValueError:
            continue
        return count
    return 1


def _with_options(text: str, at: int, settings: Settings) -> tuple[str, tuple[str, ...]]:
    """Return the text with `--env NAME=value` for xpk, new ones right after the command's name."""
    end = _end(text, at)
    statement = text[at:end]
    if "--env-file" in statement:
        raise UsageError(
            "the command of xpk names a file of variables",
            why="xpk takes variables either from a file or from its command line",
            next="print the settings with `counterpoint tune show STUDY --as env`, and add these",
        )
    new: list[str] = []
    for name, value in _variables(settings):
        option = re.compile(_OPTION.replace("NAME", name))
        found = option.search(statement)
        old = "".join(shlex.split(found[1])).partition("=")[2] if found else ""
        if name in FLAG_VARIABLES:
            value = merged_flags(name, old, dict(parse_xla_flags(value, where=name)))  # noqa: PLW2901
        word = f"--env={name}={shlex.quote(value)}"
        if found is None:
            new.append(word)
        elif old != value:
            statement = statement[: found.start()] + word + statement[found.end() :]
    return text[:at] + "".join(f" {word}" for word in new) + statement + text[end:], ()


def _end(text: str, at: int) -> int:
    """Return the end of the statement that this place belongs to."""
    begin = text.rfind("\n", 0, at) + 1
    lines = text[begin:].splitlines(keepends=True)
    return begin + sum(map(len, lines[: _length(lines, 0)]))
