"""A program that was lowered once, in a file that later predictions take as their workload.

StableHLO holds neither the order of the mesh's devices nor what the program sets for itself, so
the file ends with comments that do.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any, Final

from counterpoint.core import UsageError
from counterpoint.core.outputs import write_whole
from counterpoint.flags import Settings

_MARK: Final = b"// counterpoint.kept = "


def keep_program(
    path: Path, program: bytes, origin: str, settings: Settings, notes: tuple[str, ...]
) -> None:
    """Write the lowered program, and what a later prediction has to know of it."""
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
        raise UsageError(f"can't write {path}: {failure.strerror or failure}") from None


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


_TAIL: Final = 1 << 20
