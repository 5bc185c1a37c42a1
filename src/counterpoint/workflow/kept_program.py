"""Kept programs: a lowered program in a file, as a workload for later predictions.

The file is StableHLO, followed by a comment with what StableHLO lacks: where the program is from,
and the settings that it makes itself.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any, Final

from counterpoint.core import WriteError
from counterpoint.core.outputs import write_whole
from counterpoint.flags.settings import Settings

_MARK: Final = b"// counterpoint.kept = "
_TAIL: Final = 1 << 20
"""Bytes at the end of a file in which the comment is sought."""


def keep_program(
    path: Path, program: bytes, origin: str, settings: Settings, notes: tuple[str, ...]
) -> None:
    """Write the lowered program to a file that later predictions accept as their workload.

    StableHLO contains neither the order of the mesh's devices nor the settings that the program
    itself makes, so the file ends with comments that do.
    """
    about = {
        "origin": origin,
        "flags": list(settings.xla),
        "variables": list(settings.env),
        "notes": list(notes),
    }
    data = program.rstrip(b"\n") + b"\n" + _MARK + json.dumps(about).encode() + b"\n"
    try:
        write_whole(path, gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)
    except OSError as failure:
        raise WriteError(path, failure) from None


def kept_about(program: bytes) -> tuple[str, Settings, tuple[str, ...]] | None:
    """Return the origin, the settings and the notes of a kept program; None for any other."""
    _, mark, rest = program[-_TAIL:].rpartition(_MARK)
    if not mark:
        return None
    try:
        about: dict[str, Any] = json.loads(rest)
        xla = tuple((str(name), str(value)) for name, value in about["flags"])
        env = tuple((str(name), str(value)) for name, value in about["variables"])
        notes = tuple(str(note) for note in about["notes"])
        return str(about["origin"]), Settings(xla, env), notes
    except (ValueError, KeyError, TypeError):
        return None
