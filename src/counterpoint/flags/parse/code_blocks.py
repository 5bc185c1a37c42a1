"""Settings in code blocks: those of Markdown and reStructuredText, the cells of notebooks.

A sentence sets nothing: what it says of flags is advice, or history. Each block is a program of its
own, of the form that its language or its lines tell. The cells of a notebook are one program.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, cast

from counterpoint.core import InputError
from counterpoint.flags.parse.flag_values import AS_TEXT, may_set, names_any
from counterpoint.flags.parse.form import by_content
from counterpoint.flags.parse.lines import scan_lines
from counterpoint.flags.parse.scan import Scan
from counterpoint.flags.parse.traced import known
from counterpoint.flags.parsed import PROGRAM

_FENCE: Final = re.compile(
    r"(?P<indent>[ \t>]*+(?:(?:[-*+]|\d{1,9}\.)[ \t>]*+)?)"
    r"(?P<mark>`{3,}+|~{3,}+)[ \t]*+{?(?P<language>[\w+-]*)"
)
_DIRECTIVE: Final = re.compile(
    r"[ \t]*+\.\. (?:code|code-block|sourcecode|prompt)::[ \t]*+(\w*+)[ \t]*+$"
)
_PROMPT: Final = re.compile(r"^([ \t]*+)(?:\$ |>>> |\.\.\. |% (?=\w))", re.MULTILINE)
_LANGUAGES: Final = {
    **dict.fromkeys(("bash", "sh", "shell", "zsh", "console", "shell-session", "slurm"), "shell"),
    **dict.fromkeys(("python", "py", "python3", "ipython", "ipython3", "pycon"), "python"),
    **dict.fromkeys(("yaml", "yml", "json"), "yaml"),
    **dict.fromkeys(("dockerfile", "docker"), "docker"),
}
_INDENTED: Final = 4


@dataclass(frozen=True, slots=True)
class _Block:
    """A block of code, the line where it begins, and the name of its language."""

    rows: list[str]
    line: int
    language: str = ""

    @property
    def text(self) -> str:
        return "\n".join(self.rows)


def scan_markdown(text: str, scan: Scan) -> None:
    """Read all blocks of code."""
    for block in _blocks(text.split("\n")):
        _read_block(block, scan)


def _read_block(block: _Block, scan: Scan) -> None:
    text = _PROMPT.sub(r"\1", block.text)
    if not names_any(text):
        return
    form = by_content(text)
    if form not in ("env", "flags"):  # which many call shell
        form = _LANGUAGES.get(block.language.lower(), form)
    scan.programs += 1
    with scan.inside(PROGRAM, str(block.line)), scan.another_shell({}):
        if not scan.embed(known(text, block.line), scan, form):
            scan_lines(text, scan, block.line)
        for one in [*scan.plain.values()]:  # which someone types before a program
            scan.export(one.name)


def _blocks(rows: list[str]) -> Iterator[_Block]:
    at = 0
    while at < len(rows):
        if fence := _FENCE.match(rows[at]):
            end = at + 1
            while end < len(rows) and not rows[end].lstrip(" \t>").startswith(fence["mark"]):
                end += 1
            inner = [_without(row, fence["indent"]) for row in rows[at + 1 : end]]
            yield _Block(inner, at + 2, fence["language"])
            at = end + 1
        elif (directive := _DIRECTIVE.match(rows[at])) or _announces(rows[at]):
            end = _indented(rows, at + 1, _indent(rows[at]) + 1)
            inner = [row if not re.match(r"\s++:\w+:", row) else "" for row in rows[at + 1 : end]]
            yield _Block(_dedented(inner), at + 2, directive[1] if directive else "")
            at = end
        elif (
            rows[at].strip()
            and _indent(rows[at]) >= _INDENTED
            and not (at and rows[at - 1].strip())
        ):
            end = _indented(rows, at, _INDENTED)
            block = _Block(_dedented(rows[at:end]), at + 1)
            if by_content(block.text) not in ("text", "yaml"):
                yield block
            at = end
        else:
            at += 1


def _announces(row: str) -> bool:
    """Return whether a sentence of reStructuredText says that code follows."""
    return row.rstrip().endswith("::") and not row.lstrip().startswith((".. ", "#"))


def _indent(row: str) -> int:
    return len(row.expandtabs()) - len(row.expandtabs().lstrip())


def _indented(rows: list[str], at: int, least: int) -> int:
    """Return the end of the lines that are indented that far, or a fence among them."""
    while at < len(rows) and (not rows[at].strip() or _indent(rows[at]) >= least):
        if _FENCE.match(rows[at]):
            break
        at += 1
    return at


def _dedented(rows: list[str]) -> list[str]:
    least = min((_indent(row) for row in rows if row.strip()), default=0)
    return [row.expandtabs()[least:] for row in rows]


def _without(row: str, indent: str) -> str:
    """Return a line of a fenced block without the indent of its fence."""
    for character in indent:
        if row[:1] == character or (row[:1] in (" ", ">") and character in "-*+ "):
            row = row[1:]
        elif not row[:1].isspace():
            break
    return row


def scan_notebook(text: str, scan: Scan) -> None:
    """Read the cells of code as one program, and those of `%%bash` as scripts."""
    rows = [""] * (text.count("\n") + 1)
    program: list[tuple[str, int]] = []
    at = 0
    for cell in _cells(text, scan.where):
        lines = list[tuple[str, int]]()
        for row in cell.splitlines():
            start = text.find(json.dumps(row, ensure_ascii=False)[1:-1], at) if row.strip() else -1
            start = text.find(json.dumps(row)[1:-1], at) if start < 0 and row.strip() else start
            at = start if start >= 0 else at
            lines.append((row, text.count("\n", 0, at) + 1))
        first = lines[0][0] if lines else ""
        line = lines[0][1] if lines else 0
        if first.startswith(("%%bash", "%%sh", "%%script")):
            with scan.inside(PROGRAM, str(line)), scan.another_shell({}):
                scan.embed(known("\n".join(cell.splitlines()[1:]), line + 1), scan, "shell")
        elif not first.startswith("%%"):
            _magic(lines, scan)
            program += _python(lines, scan)
    several = all(one[1] < other[1] for one, other in pairwise(program))
    for number, (row, line) in enumerate(program):
        if several:
            rows[line - 1] = row
        else:
            rows[number : number + 1] = [row]
    scan.embed(known("\n".join(rows), 1), scan, "python")


def _cells(text: str, where: str) -> Iterator[str]:
    try:
        whole: object = json.loads(text)
    except (ValueError, RecursionError):
        raise InputError(f"{where}: not a notebook", next=AS_TEXT) from None
    for cell in _list(_get(whole, "cells")):
        if _get(cell, "cell_type") == "code":
            source = _get(cell, "source")
            yield source if isinstance(source, str) else "".join(map(str, _list(source)))


def _get(value: object, key: str) -> object:
    return cast("dict[object, object]", value).get(key) if isinstance(value, dict) else None


def _list(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []


def _magic(lines: list[tuple[str, int]], scan: Scan) -> None:
    """Read `%env NAME=value`, and commands for a shell after `!`."""
    for row, line in lines:
        bare = row.strip()
        if match := re.match(r"%(?:set_)?env\s+(\w+)[=\s]\s*(.*)", bare):
            scan.give(match[1], known(match[2], line), line, "%env")
        elif bare.startswith("!") and may_set(bare):
            with scan.another_shell({}):
                scan.embed(known(bare[1:], line), scan, "shell")


def _python(lines: list[tuple[str, int]], scan: Scan) -> list[tuple[str, int]]:
    """Return a cell's lines as Python has them; none if it is not Python."""
    plain = [(re.sub(r"^([ \t]*)[%!?].*", r"\1pass", row), line) for row, line in lines]
    text = "\n".join(row for row, _ in plain)
    try:
        ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        if may_set(text):
            scan.leave(lines[0][1], lines[0][0])
        return []
    return plain
