"""Checks whether the requested flags reached the program: a script may overwrite XLA_FLAGS.

Flags are then silently dropped. The agent records the variable as its process had it when it first
compiled, and that is compared with the Settings.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, cast

from counterpoint.runs.run import ObservedProcess, Rank, RunSettings

_FLAG: Final = re.compile(r"""--?(\w+)(?:=("(?:\\.|[^"\\])*"|'[^']*'|\S*))?""")
_ITSELF: Final = "it sets XLA_FLAGS itself (it may append to what is there)"


def unreached_flags(settings: RunSettings, ranks: Iterable[Rank]) -> tuple[str, ...]:
    """Return notes on flags that did not reach a compiling process, each distinct one once."""
    notes = (
        note
        for rank in ranks
        for process in rank.processes
        for note in _of(settings, rank, process)
    )
    return tuple(dict.fromkeys(notes))


def _of(settings: RunSettings, rank: Rank, process: ObservedProcess) -> list[str]:
    text = process.facts.get("xla_flags", None)
    if not isinstance(text, str) or not _compiled(process) or text.lstrip()[:1] not in ("", "-"):
        return []  # not recorded, not used, or the name of a file
    had = flags_in(text)
    notes = [
        _note(name, value, had.get(name))
        for name, value in dict(settings.xla).items()
        if had.get(name) != value
    ]
    if rank.dump is not None and not _same_place(had.get("xla_dump_to"), rank.dump):
        notes.append(
            f"XLA's modules are not in this run: the program took no --xla_dump_to, as {_ITSELF}"
        )
    return notes


def _note(name: str, value: str, had: str | None) -> str:
    missed = f"--set {name}={value} did not reach the program"
    return f"{missed}: {_ITSELF}" if had is None else f"{missed}: it has --{name}={had} itself"


def _same_place(had: str | None, dump: Path) -> bool:
    """Return whether the dump goes to the expected place; the user's may be a relative path."""
    return had is not None and (had == str(dump) or not Path(had).is_absolute())


def _compiled(process: ObservedProcess) -> bool:
    compiles = process.facts.get("compiles")
    return isinstance(compiles, dict) and bool(cast("Mapping[str, object]", compiles).get("count"))


def flags_in(text: str) -> dict[str, str]:
    """Parse the flags of a variable as XLA does: the last of a name counts, without quotes."""
    return {
        name: _plain(value)
        for name, value in cast("Sequence[tuple[str, str]]", _FLAG.findall(text))
    }


def _plain(value: str) -> str:
    if value[:1] == "'":
        return value[1:-1]
    return re.sub(r"\\(.)", r"\1", value[1:-1]) if value[:1] == '"' else value
