"""What `flags refresh` has learnt on this machine: a file per release, beside what ships.

They lie where a user's data lie, $XDG_DATA_HOME/counterpoint/flags, and go before what ships.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Final

from counterpoint.core.errors import InputError
from counterpoint.flags.catalogue.table import Table, parse_table

_START: Final = "jaxlib-"
_ENDING: Final = ".jsonl"


def directory() -> Path:
    """Where the files are; it may not be there."""
    home = os.environ.get("XDG_DATA_HOME", "")
    base = Path(home) if Path(home).is_absolute() else Path.home() / ".local" / "share"
    return base / "counterpoint" / "flags"


def path_of(version: str) -> Path:
    """The file of one release."""
    return directory() / f"{_START}{version}{_ENDING}"


def overlaid() -> tuple[str, ...]:
    """The releases that have a file here."""
    try:
        names = [path.name for path in directory().iterdir()]
    except (OSError, RuntimeError):  # no such directory; no home
        return ()
    return tuple(
        name.removeprefix(_START).removesuffix(_ENDING)
        for name in sorted(names)
        if name.startswith(_START) and name.endswith(_ENDING)
    )


def read_overlay(version: str) -> Table:
    """What was learnt about one release."""
    path = path_of(version)
    try:
        table = parse_table(path.read_text("utf-8"))
    except OSError as failure:
        raise InputError(f"{path} can't be read: {failure.strerror or failure}") from None
    except (ValueError, KeyError, TypeError):
        raise InputError(
            f"{path} is damaged",
            why="it holds what `flags refresh` learnt, one JSON value per line",
            next=f"rm {shlex.quote(str(path))}",
        ) from None
    if version not in table.releases:
        raise InputError(
            f"{path} is not about jaxlib {version}",
            why=f"it is about {', '.join(table.releases) or 'no release'}",
            next=f"rm {shlex.quote(str(path))}",
        )
    return table
