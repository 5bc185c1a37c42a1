"""A Jupyter notebook as a program: its code cells in order, without what only IPython reads.

`notebook_command` makes a command of a notebook. The command starts this file by its path, in a
Python that may lack Counterpoint: the standard library alone, of Python 3.9.
"""

from __future__ import annotations

import json
import linecache
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

__all__ = [
    "NotebookCell",
    "as_typed",
    "is_notebook",
    "left_out",
    "notebook_cells",
    "notebook_command",
]

_ENDING = ".ipynb"
_MARKS = ("%", "!", "?")
_OF_PYTHON = ("%%time", "%%timeit", "%%capture", "%%prun")
"""Magics of whole cells whose lines are Python; other cells are of another language, or files."""


class NotebookCell(NamedTuple):
    """A cell as Python, and the lines that were left out, each with the number of the cell."""

    number: int
    python: str
    left_out: tuple[str, ...]


def is_notebook(words: Sequence[str]) -> bool:
    """Return whether a command is a notebook alone."""
    return len(words) == 1 and words[0].endswith(_ENDING) and Path(words[0]).is_file()


def notebook_command(path: str) -> list[str]:
    """Return the command that runs a notebook, by the Python on the PATH."""
    return ["python" if shutil.which("python") else sys.executable, __file__, path]


def as_typed(command: Sequence[str]) -> list[str]:
    """Return a command as the user typed it: a notebook alone, instead of what runs it."""
    runs = len(command) == 3 and Path(command[1]).parts[-3:] == Path(__file__).parts[-3:]
    return [command[2]] if runs else [*command]


def notebook_cells(path: str) -> list[NotebookCell]:
    """Return the code cells; ValueError, KeyError or TypeError if the file is not a notebook."""
    content: Any = json.loads(Path(path).read_text(encoding="utf-8"))
    return [
        _cell(number, "".join(cell["source"]))
        for number, cell in enumerate(content["cells"], 1)
        if cell["cell_type"] == "code"
    ]


def left_out(cells: Sequence[NotebookCell]) -> list[str]:
    """Return what is not run, such as `%matplotlib inline (cell 1)`."""
    return [f"{line} (cell {cell.number})" for cell in cells for line in cell.left_out]


def _cell(number: int, source: str) -> NotebookCell:
    lines = source.splitlines()
    gone: list[str] = []
    if lines and lines[0].startswith("%%"):
        gone.append(lines[0].strip())
        is_python = lines[0].split()[0] in _OF_PYTHON
        lines = ["", *lines[1:]] if is_python else []  # keeps the numbers of lines
    if not _is_python("\n".join(lines)):
        gone += [line.strip() for line in lines if _is_for_ipython(line)]
        lines = [*_kept(lines)]
    return NotebookCell(number, "\n".join(lines), tuple(gone))


def _is_python(source: str) -> bool:
    try:
        compile(source, "cell", "exec", dont_inherit=True)
    except SyntaxError:
        return False
    return True


def _is_for_ipython(line: str) -> bool:
    """Return whether a line is a magic, a shell command or a question, or assigned from one."""
    text = line.strip()
    target, equals, value = text.partition("=")
    is_assigned = bool(equals) and target.strip().isidentifier()
    return (
        text.startswith(_MARKS)
        or text.endswith("?")
        or (is_assigned and value.strip().startswith(("%", "!")))
    )


def _kept(lines: Sequence[str]) -> Iterator[str]:
    """Yield the lines; `pass` stands for one that is left out, for the block that it was in."""
    for line in lines:
        indent = line[: len(line) - len(line.lstrip())]
        yield f"{indent}pass" if _is_for_ipython(line) else line


def main(path: str) -> None:
    """Run the cells in one namespace, where the notebook is, as Jupyter does."""
    os.environ.setdefault("MPLBACKEND", "Agg")  # no windows
    cells = notebook_cells(path)
    place = Path(path).resolve()
    os.chdir(place.parent)
    sys.argv, sys.path[0] = [str(place)], str(place.parent)
    program = ModuleType("__main__")
    sys.modules["__main__"] = program
    vars(program).update(__file__=str(place), display=print)
    for cell in cells:
        name = f"{place}:cell_{cell.number}"
        linecache.cache[name] = (len(cell.python), None, cell.python.splitlines(True), name)
        code = compile(cell.python, name, "exec", dont_inherit=True)
        exec(code, vars(program))  # noqa: S102  the user's own notebook


if __name__ == "__main__":
    main(sys.argv[1])
