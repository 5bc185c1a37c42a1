"""A Jupyter notebook: its code cells are one program, in order; a place names the cell.

%env NAME=value, %set_env NAME value    set the environment of the notebook
!NAME=value command, %%bash             are read as shell scripts
"""

from __future__ import annotations

import ast
import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final, cast

from counterpoint.core import InputError
from counterpoint.flags.parse.flag_values import may_set
from counterpoint.flags.parsed import Location, ParsedSource, SyntaxIssue

Reader = Callable[[str, str], ParsedSource]
_ENV: Final = re.compile(r"^([ \t]*)%(?:set_)?env[ \t]+([A-Za-z_]\w*)(?:[ \t]*=[ \t]*|[ \t]+)(.*)$")
_SHELL: Final = re.compile(r"^([ \t]*)(?:!{1,2}|%sx[ \t]|%system[ \t])(.*)$")
_MAGIC: Final = re.compile(r"^([ \t]*)(?:%\w.*|\?.*|[\w.]+\?{1,2}[ \t]*)$")
_ASSIGNED: Final = re.compile(r"^([ \t]*\w[\w, ]*=[ \t]*)[!%].*$")
_RUN: Final = re.compile(r"[ \t]*(%(?:run|dotenv|load|loadpy)\b[^\n]{0,60})")
"""Commands that load other files, whose settings are not read."""
_SCRIPT: Final = re.compile(r"^%%(?:bash|sh|script[ \t]+(?:ba)?sh)\b")
_HOLE: Final = re.compile(r"\$\{?([A-Za-z_]\w*)\}?|\{([A-Za-z_]\w*)\}")
_LINE: Final = re.compile(r"\bline (\d+)\b")


@dataclass(slots=True)
class Cells:
    """The program so far: its lines, the shell's lines, and the line where each cell begins."""

    where: str
    python: list[str] = field(default_factory=list[str])
    shell: list[str] = field(default_factory=list[str])
    starts: list[int] = field(default_factory=list[int])
    numbers: list[int] = field(default_factory=list[int])
    notes: list[str] = field(default_factory=list[str])
    unread: list[str] = field(default_factory=list[str])

    def add(self, number: int, source: str) -> None:
        self.starts.append(len(self.python) + 1)
        self.numbers.append(number)
        lines = source.split("\n")
        if lines[0].startswith("%%"):
            self.python += [""] * len(lines)
            script = bool(_SCRIPT.match(lines[0]))
            self.shell += ["", *(lines[1:] if script else [""] * (len(lines) - 1))]
            return
        shell = [""] * len(lines)
        python = list(_python(lines, shell))
        try:
            ast.parse("\n".join(python))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            self._leave(number, source)
            python = [""] * len(lines)
        self.unread += _run_elsewhere(number, lines)
        self.python += python
        self.shell += shell

    def _leave(self, number: int, source: str) -> None:
        if may_set(source):
            self.unread.append(f"cell {number}: not Python")
        else:
            self.notes.append(f"cell {number}: not Python, not read")

    def place(self, place: Location) -> Location:
        """Return a place in its cell: `x.ipynb, cell 3:5`."""
        if place.line is None or place.where != self.where:
            return place
        cell, line = self.at(place.line)
        return Location(f"{self.where}, cell {cell}", line)

    def at(self, line: int) -> tuple[int, int]:
        index = max(bisect_right(self.starts, line) - 1, 0)
        return self.numbers[index], line - self.starts[index] + 1

    def told(self, text: str) -> str:
        """Translate the lines in a sentence into cells and lines."""
        return _LINE.sub(
            lambda match: "cell {}, line {}".format(*self.at(int(match[1]))) if self.starts else "",
            text,
        )


def read_notebook(text: str, where: str, reader: Callable[[str], Reader]) -> ParsedSource:
    """Read all settings of the code cells; cell numbers count all cells, from 1."""
    cells = Cells(where)
    for number, source in _sources(text, where):
        cells.add(number, source)
    if not cells.starts:
        return ParsedSource(where=where, form="python")
    found = [reader("python")("\n".join(cells.python), where)]
    if any(line.strip() for line in cells.shell):
        try:
            found.append(reader("shell")("\n".join(cells.shell), where))
        except InputError as failure:
            cells.unread.append(f"its shell commands: {failure.what}")
    given = tuple(
        replace(occurrence, place=cells.place(occurrence.place))
        for parsed in found
        for occurrence in parsed.given
    )
    return ParsedSource(
        where=where,
        form="python",
        given=given,
        slips=tuple(_placed(slip, cells) for parsed in found for slip in parsed.slips),
        notes=(*cells.notes, *(cells.told(note) for parsed in found for note in parsed.notes)),
        unread=(*cells.unread, *(cells.told(part) for parsed in found for part in parsed.unread)),
        inherited=tuple(cells.told(part) for parsed in found for part in parsed.inherited),
    )


def _placed(slip: SyntaxIssue, cells: Cells) -> SyntaxIssue:
    return replace(slip, place=cells.place(slip.place), why=cells.told(slip.why))


def _python(lines: list[str], shell: list[str]) -> list[str]:
    """Return the Python lines of a cell; lines for a shell go into `shell`."""
    python: list[str] = []
    goes_on = False
    for row, line in enumerate(lines):
        command = _SHELL.match(line)
        if goes_on or command:
            bare = command[2] if command and not goes_on else line
            shell[row] = bare
            python.append(f"{command[1]}pass" if command and not goes_on else "")
            goes_on = line.endswith("\\")
        else:
            python.append(_magic(line))
    return python


def _run_elsewhere(number: int, lines: list[str]) -> Iterator[str]:
    for row, line in enumerate(lines, 1):
        if match := _RUN.match(line):
            yield f"cell {number}, line {row}: {match[1].strip()}"


def _magic(line: str) -> str:
    if match := _ENV.match(line):
        indent, name, value = match.groups()
        quoted = repr(value.strip())
        if _HOLE.search(value):
            quoted = "f" + _HOLE.sub(lambda hole: "{" + (hole[1] or hole[2]) + "}", quoted)
        return f'{indent}os.environ["{name}"] = {quoted}'
    if match := _MAGIC.match(line):
        return f"{match[1]}pass"
    if match := _ASSIGNED.match(line):
        return f"{match[1]}None"
    return line


def _sources(text: str, where: str) -> list[tuple[int, str]]:
    """Return number and source of each code cell."""
    try:
        whole: Any = json.loads(text)
    except (ValueError, RecursionError) as failure:
        raise InputError(
            f"{where}: not a notebook: {failure}", next="--form text finds flags in any text"
        ) from None
    cells: Any = cast("dict[str, Any]", whole).get("cells") if isinstance(whole, dict) else None
    if not isinstance(cells, list):
        raise InputError(
            f"{where}: not a notebook: it has no cells", next="--form text finds flags in any text"
        )
    found: list[tuple[int, str]] = []
    for number, cell in enumerate(cast("list[Any]", cells), 1):
        if isinstance(cell, dict):
            fields = cast("dict[str, Any]", cell)
            source: Any = fields.get("source", "")
            lines = cast("list[Any]", source) if isinstance(source, list) else [source]
            if fields.get("cell_type") == "code":
                found.append((number, "".join(line for line in lines if isinstance(line, str))))
    return found
