"""Settings as they stand somewhere, read with their places: the door to all readers.

    a file, `-`, flags as text      read_written   sniffs the form, or is told it
    a text that is already there    read_text
    an environment                  read_variables (`--env`, a Run), read_process (`pid:123`)

Readers are tolerant: a fault becomes a Slip, so that the rest can still be checked. Only what is
not text, or can't be parsed as a whole, is an error. To apply settings, use load_settings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from counterpoint.flags.written import Written


def read_written(source: str | Path, *, form: str | None = None) -> Written:
    """What a source says: a file, a directory's flag file, `-`, `pid:123`, a recipe, or flags.

    `form` forces one of FORMS instead of sniffing.
    """
    raise NotImplementedError


def read_text(text: str, where: str, *, form: str | None = None) -> Written:
    """What a text says; `where` is its name, by whose suffix the form is known, too."""
    raise NotImplementedError


def read_variables(
    variables: Mapping[str, str],
    where: str,
    *,
    form: str = "environment",
    directory: Path | None = None,
) -> Written:
    """What an environment says. `directory` is where its process runs: a flag file lies there.

    Variables that set nothing about training (PATH, HOME) are left out.
    """
    raise NotImplementedError


def read_process(pid: int) -> Written:
    """What the environment of a running process said when it started."""
    raise NotImplementedError


def read_command(words: Sequence[str], inherited: Mapping[str, str]) -> Written:
    """What a command would get: the environment, and `NAME=value` before it, also behind `env`."""
    raise NotImplementedError
