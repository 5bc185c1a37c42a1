"""A Run brought together: what ranks left on nodes without a common file system, as one archive."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import uuid
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from counterpoint.core.errors import InputError
from counterpoint.runs import layout

CHUNK: Final = 8 << 20


def pack(directory: Path, ranks: Iterable[int], archive: Path, *, manifest: bool) -> None:
    """Put the directories of some ranks, and the Run's manifest, into an archive.

    What disappears meanwhile is left out: profilers and compilers clean up after themselves.
    """
    places = [layout.rank_directory(directory, rank) for rank in ranks]
    archive.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as into:
        for file in [
            *([directory / layout.MANIFEST] if manifest else []),
            *(path for place in places for path in sorted(place.rglob("*"))),
        ]:
            if file.name == layout.RESERVE or file.is_symlink():
                continue
            try:
                into.write(file, file.relative_to(directory))
            except FileNotFoundError:
                continue
        into.comment = os.fsencode(directory)


def merge(archives: Iterable[Path], into: Path) -> str:
    """One archive of several, and its hash."""
    with zipfile.ZipFile(into, "w", zipfile.ZIP_STORED) as merged:
        for path in archives:
            merged.write(path, path.name)
    return hash_of(into)


def unpack(archive: Path, directory: Path) -> None:
    """Lay a Run where it is to be: all of it, or nothing.

    `archive` holds an archive per node, as `merge` makes it.
    """
    parts = directory.with_name(f".{directory.name}.{uuid.uuid4().hex[:8]}.part")
    inner = parts.with_suffix(".zip")
    try:
        parts.mkdir(parents=True)
        with zipfile.ZipFile(archive) as outer:
            for name in outer.namelist():
                with outer.open(name) as source, inner.open("wb") as target:
                    shutil.copyfileobj(source, target)
                _extract(inner, parts, directory)
        if directory.is_dir():
            directory.rmdir()  # an empty one may be there already
        parts.rename(directory)
    except (OSError, zipfile.BadZipFile) as failure:
        shutil.rmtree(parts, ignore_errors=True)
        what = getattr(failure, "strerror", None) or str(failure)
        raise InputError(
            f"{directory}: the run can't be brought here: {what}", next="make room there"
        ) from None
    finally:
        inner.unlink(missing_ok=True)


def _extract(archive: Path, into: Path, final: Path) -> None:
    """What tells of places on the node tells of those here: a Run knows where its parts lie."""
    with zipfile.ZipFile(archive) as packed:
        there, here = (json.dumps(os.fsdecode(it))[1:-1].encode() for it in (packed.comment, final))
        for name in packed.namelist():
            target = (into / name).resolve()
            if not target.is_relative_to(into.resolve()) or target.exists():
                continue
            packed.extract(name, into)
            if there and _tells_of_places(Path(name)) and target.is_file():
                target.write_bytes(target.read_bytes().replace(there, here))


def _tells_of_places(name: Path) -> bool:
    return name.name == layout.RANK_MANIFEST or name.parts[1:2] == (layout.AGENT,)


def chunks(path: Path) -> Iterator[bytes]:
    """A file, piece by piece."""
    with path.open("rb") as file:
        while piece := file.read(CHUNK):
            yield piece


def hash_of(path: Path) -> str:
    """SHA-256 of a file."""
    found = hashlib.sha256()
    for piece in chunks(path):
        found.update(piece)
    return found.hexdigest()
