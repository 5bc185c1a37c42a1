"""Reads the emulator's reports from a program while it runs, for the user and for errors."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

Say = Callable[[str], None]
_SOME: Final = 3


class EmulatorReports:
    """The lines that the emulator has written so far, and their meaning."""

    def __init__(self, path: Path, say: Say) -> None:
        path.write_bytes(b"")
        self._path = path
        self._say = say
        self._read = 0
        self.functions: list[dict[str, Any]] = []
        self.has_begun = False
        self.has_queried_backend = False
        self.contained: dict[str, str] | None = None  # directories, by the names of their layers
        self.refused: list[str] = []  # directories that have no layer
        self.uncontained: str | None = None  # why there is no layer
        self.unstartable: str | None = None  # why the command can't be executed
        self.unusable: str | None = None  # why the emulator can't work in this program
        self._kept: list[str] = []  # files that the program would have overwritten
        self._wrote: list[str] = []

    def look(self) -> None:
        """Report new lines."""
        with self._path.open("rb") as file:
            file.seek(self._read)
            new = file.read()
        whole = new[: new.rfind(b"\n") + 1]
        self._read += len(whole)
        for line in whole.splitlines():
            with suppress(ValueError):
                self._read_line(json.loads(line))

    def _read_line(self, line: dict[str, Any]) -> None:
        if line["event"] == "began":
            self.has_begun = True
            self._say(f"the program has loaded jax {line['jax']}")
        elif line["event"] == "lowered":
            self.functions.append(line)
            name = line["name"]
            self._say(f"lowered {name} (--program {name} stops there)")
        elif line["event"] == "asked":
            self.has_queried_backend = True
        elif line["event"] == "kept":
            self._kept.append(line["name"])
            self._say(f"{line['name']} is not changed")
        elif line["event"] == "contained":
            self.contained, self.refused = line["places"], line["refused"]
        elif line["event"] in ("uncontained", "unstartable", "unusable"):
            setattr(self, line["event"], line["name"])
        elif line["event"] == "wrote":
            self._wrote.append(line["name"])
        elif line["event"] == "found":
            name = line["name"]
            self._say(f"{name} donates little: looking for other functions of the iteration")
        else:
            self._say(f"{line['name']} is not run; its results are zeros")

    def notes(self) -> list[str]:
        """Return notes on the program's files."""
        notes: list[str] = []
        if self._kept:
            files = first_names(self._kept)
            notes.append(f"not changed, although the program writes or removes it: {files}")
        wrote = [name for name in self._wrote if Path(name).exists()]
        if wrote:
            files = first_names(wrote)
            notes.append(f"the program has written zeros to {files}: remove it before a real run")
        return notes


def first_names(names: Sequence[str]) -> str:
    """Return the first names, and the number of the others."""
    more = f" and {len(names) - _SOME} more" if len(names) > _SOME else ""
    return f"{', '.join(names[:_SOME])}{more}"
