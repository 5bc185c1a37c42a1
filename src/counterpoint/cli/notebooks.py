"""Commands that are a notebook."""

from __future__ import annotations

from collections.abc import Sequence

from counterpoint.cli.printing import say_line
from counterpoint.core import InputError
from counterpoint.core.notebook import is_notebook, left_out, notebook_cells, notebook_command
from counterpoint.core.printable import some

_SHOWN = 6


def with_notebook(words: Sequence[str]) -> Sequence[str]:
    """Return the command; of a notebook alone, the one that runs it, and say what it leaves out."""
    if not is_notebook(words):
        return words
    try:
        cells = notebook_cells(words[0])
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(
            f"{words[0]}: not a notebook of nbformat 4, with cells",
            why=f"{type(error).__name__}: {error}",
            next="jupyter nbconvert --to script, and pass the script after `-- python`",
        ) from None
    gone = left_out(cells)
    if gone:
        say_line(f"{words[0]}: not run, since only IPython reads them: {some(gone, _SHOWN)}")
    return notebook_command(words[0])
