"""Compiles that were done before, by the hash of all that they depend on.

They lie in $XDG_CACHE_HOME/counterpoint/compile (else ~/.cache), or where COUNTERPOINT_CACHE says;
`COUNTERPOINT_CACHE=off` keeps and takes none. An entry is one zip, written beside and moved into
place, so it is whole or not there; one that can't be read counts as not there, and so does a
directory that can't be written. The least recently used go when there are too many.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from counterpoint.compile.fingerprint import FORMAT, fingerprint
from counterpoint.compile.recorded import Recorded
from counterpoint.compile.task import Task
from counterpoint.compile.workers.job import outcome_of

VARIABLE: Final = "COUNTERPOINT_CACHE"
MOST_BYTES: Final = 4 << 30
_ROOM: Final = 0.9  # of it is left in when some have to go, so that not every compile tidies
_ABOUT: Final = "compile.json"
_MODULE: Final = "module.hlo.pb"
_LOG: Final = "log"
_DAMAGE: Final = (
    OSError, EOFError, ValueError, KeyError, TypeError, zlib.error, zipfile.BadZipFile,
    NotImplementedError, RuntimeError,
)  # fmt: skip


def cache_directory(environment: Mapping[str, str] = os.environ) -> Path | None:
    """Where compiles are kept; None where they are not."""
    said = environment.get(VARIABLE, "")
    if said.lower() in ("off", "0", "no", "false"):
        return None
    if said:
        return Path(said).expanduser() / "compile"
    home = environment.get("XDG_CACHE_HOME", "")
    with contextlib.suppress(RuntimeError):  # there is no home
        root = Path(home) if Path(home).is_absolute() else Path.home() / ".cache"
        return root / "counterpoint" / "compile"
    return None


def find(task: Task) -> Recorded | None:
    """The compile of an equal task."""
    entry = _entry(task)
    if entry is None:
        return None
    try:
        with zipfile.ZipFile(entry) as kept:
            about: dict[str, Any] = json.loads(kept.read(_ABOUT))
            recorded = Recorded(
                module=kept.read(_MODULE),
                log=kept.read(_LOG).decode(),
                outcome=outcome_of(about["outcome"]),
                taken=dict(about["taken"]),
            )
    except _DAMAGE:
        return None
    with contextlib.suppress(OSError):
        os.utime(entry)
    return recorded


def keep(task: Task, recorded: Recorded) -> None:
    """Keep a compile for the next one that asks, if there is a place for it."""
    entry = _entry(task)
    if entry is None:
        return
    with contextlib.suppress(OSError):
        entry.parent.mkdir(parents=True, exist_ok=True)
        _write(entry, recorded)
        _tidy(entry.parent.parent)


def _entry(task: Task) -> Path | None:
    directory = cache_directory()
    name = fingerprint(task) if directory is not None else None
    if directory is None or name is None:
        return None
    return directory / f"v{FORMAT}" / name[:2] / f"{name}.zip"


def _write(entry: Path, recorded: Recorded) -> None:
    about = {"outcome": asdict(recorded.outcome), "taken": dict(recorded.taken)}
    handle, part = tempfile.mkstemp(dir=entry.parent, suffix=".part")
    try:
        with (
            os.fdopen(handle, "wb") as file,
            zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as kept,
        ):
            kept.writestr(_ABOUT, json.dumps(about))
            kept.writestr(_MODULE, recorded.module)
            kept.writestr(_LOG, recorded.log)
        Path(part).replace(entry)
    except BaseException:
        Path(part).unlink(missing_ok=True)
        raise


def _tidy(directory: Path) -> None:
    """Drop the least recently used until the rest fits."""
    found = [(it.stat(), it) for it in directory.rglob("*") if it.is_file()]
    total = sum(stat.st_size for stat, _ in found)
    if total <= MOST_BYTES:
        return
    for stat, path in sorted(found, key=lambda it: it[0].st_mtime_ns):
        if total <= _ROOM * MOST_BYTES:
            break
        path.unlink(missing_ok=True)
        total -= stat.st_size
