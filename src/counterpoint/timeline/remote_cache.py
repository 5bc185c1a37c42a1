"""Copies of remote profiles on this machine, by their content.

They are in $XDG_CACHE_HOME/counterpoint/profiles (else ~/.cache), or where COUNTERPOINT_CACHE says;
`COUNTERPOINT_CACHE=off` keeps none. `objects` holds each content once, under its SHA-256; `names`
says which content a URL has in the version that its store describes. What was not used for the
longest time is removed when all takes more than COUNTERPOINT_PROFILE_CACHE_GB.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from hashlib import file_digest, sha256
from pathlib import Path
from tempfile import NamedTemporaryFile, gettempdir, mkstemp
from typing import IO, Final

from counterpoint.core import InputError, UsageError
from counterpoint.core.cache import cache_directory
from counterpoint.core.outputs import write_whole
from counterpoint.timeline.remote import BLOCK, RemoteFile, RemotePath, open_url, shown_url

SIZE_VARIABLE: Final = "COUNTERPOINT_PROFILE_CACHE_GB"
_SIZE_GB: Final = 20.0
_ABANDONED_S: Final = 86400.0
_PART: Final = ".part-"

Reached = Callable[[int, int], None]
"""Callback that receives the bytes that came, and how many there are."""


def open_copy(url: str, reached: Reached) -> IO[bytes]:
    """Return the content behind a URL as an open file of this machine.

    It can be read to its end even if another process removes it from the cache meanwhile.
    """
    place = open_url(url)
    if place.is_dir():
        raise InputError(f"{place.shown}: a directory; a file was expected")
    most_bytes = _most_bytes()
    cache = cache_directory("profiles")
    key = _key(url, place.entry)
    if cache is not None and key is not None:
        if (kept := _kept(cache, key, place.entry)) is not None:
            return kept
        with suppress(OSError):  # a cache that can't be written is none
            return _kept_from_now(cache, key, place, most_bytes, reached)
    try:
        with NamedTemporaryFile(prefix=_PART) as part:
            _download(place, Path(part.name), reached)
            return Path(part.name).open("rb")
    except OSError as failure:
        raise InputError(
            f"{place.shown}: can't be copied to {gettempdir()}: {failure.strerror or failure}",
            next="make room there, or set TMPDIR to a directory with room",
        ) from None


def _key(url: str, entry: RemoteFile) -> str | None:
    """Return a name for what a URL holds now; None if its store tells no version of it.

    A signature in the query is new each time, and not part of it.
    """
    if entry.version is None or entry.size is None:
        return None
    return sha256(repr((shown_url(url), entry.version, entry.size)).encode()).hexdigest()


def _kept(cache: Path, key: str, entry: RemoteFile) -> IO[bytes] | None:
    try:
        content = (cache / "names" / key).read_text(encoding="ascii")
        path = cache / "objects" / Path(content).name
        file = path.open("rb")
    except (OSError, ValueError):
        return None
    if os.fstat(file.fileno()).st_size != entry.size:
        file.close()
        return None
    with suppress(OSError):
        os.utime(path)
    return file


def _kept_from_now(
    cache: Path, key: str, place: RemotePath, most_bytes: float, reached: Reached
) -> IO[bytes]:
    for directory in ("objects", "names"):
        (cache / directory).mkdir(parents=True, exist_ok=True)
    handle, part = mkstemp(prefix=_PART, dir=cache / "objects")
    os.close(handle)
    try:
        content = _download(place, Path(part), reached)
        file = Path(part).open("rb")  # noqa: SIM115 - the caller closes it
        Path(part).replace(cache / "objects" / content)
    except BaseException:
        Path(part).unlink(missing_ok=True)
        raise
    write_whole(cache / "names" / key, content.encode())
    _remove_oldest(cache, most_bytes)
    return file


def _download(place: RemotePath, into: Path, reached: Reached) -> str:
    """Write the content to a file, piece by piece where the store allows; return its SHA-256."""
    store, entry = place.store, place.entry
    content_hash = _in_pieces(place, entry.size, into, reached) if entry.size else None
    if content_hash is None:
        store.copy(entry.path, into, entry.size)
        with into.open("rb") as file:
            content_hash = file_digest(file, "sha256").hexdigest()
    if entry.version is not None and store.describe(entry.path).version != entry.version:
        raise InputError(
            f"{place.shown}: it changed while it was read", next="read it again when it is complete"
        )
    return content_hash


def _in_pieces(place: RemotePath, size: int, into: Path, reached: Reached) -> str | None:
    """Write the content block by block; return its SHA-256, or None if there are only wholes."""
    content = sha256()
    with into.open("wb") as file:
        for first in range(0, size, BLOCK):
            end = min(first + BLOCK, size)
            block = place.store.block(place.entry.path, first, end)
            if block is None:
                return None
            content.update(block)
            file.write(block)
            reached(end, size)
    return content.hexdigest()


def _most_bytes() -> float:
    text = os.environ.get(SIZE_VARIABLE, "")
    try:
        gigabytes = float(text or _SIZE_GB)
    except ValueError:
        gigabytes = -1.0
    if not gigabytes >= 0:
        raise UsageError(
            f"{SIZE_VARIABLE}={text}: not a number of GB",
            next=f"export {SIZE_VARIABLE}={_SIZE_GB:g}",
        )
    return gigabytes * 1e9


def _remove_oldest(cache: Path, most_bytes: float) -> None:
    """Remove what was not used for the longest time, and what interrupted processes left."""
    held = 0
    for used, size, path in sorted(_held(cache / "objects"), reverse=True):
        abandoned = path.name.startswith(_PART) and time.time() - used > _ABANDONED_S
        held += size
        if abandoned or (held > most_bytes and not path.name.startswith(_PART)):
            path.unlink(missing_ok=True)
    for named, _, name in _held(cache / "names"):
        if time.time() - named > _ABANDONED_S and not _has_object(cache, name):
            name.unlink(missing_ok=True)


def _held(directory: Path) -> Iterator[tuple[float, int, Path]]:
    for path in directory.iterdir():
        with suppress(FileNotFoundError):
            about = path.stat()
            yield about.st_mtime, about.st_size, path


def _has_object(cache: Path, name: Path) -> bool:
    with suppress(FileNotFoundError):
        return (cache / "objects" / name.read_text(encoding="ascii")).exists()
    return False
