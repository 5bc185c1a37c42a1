"""Pages that were computed before, in a cache: they open without reading the profile again.

A page is a directory of three files: `page.json`, `blocks` (one after the other) and `index.json`
with their places and a checksum of all. It is written under another name, synced and moved, so it
is whole or absent, and it is found by the paths, sizes and times of all files it was made from. One
that was damaged later is removed when it is opened, and made again. `COUNTERPOINT_CACHE` moves the
cache or turns it off; the pages not used for the longest time are removed when it is large.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import mmap
import os
import shutil
import tempfile
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, Final

from counterpoint.core.cache import cache_directory
from counterpoint.core.parsing import parse_json
from counterpoint.view.page import FORMAT, LivePage

_MOST_FILES: Final = 10_000
_MOST_BYTES: Final = 4_000_000_000
_PACKAGE: Final = Path(__file__).parents[1]
_INDEX: Final = "index.json"
_PART: Final = ".part-"
_ABANDONED_S: Final = 3600
_BLOCKS: Final = "blocks"
_PAGE: Final = "page.json"


class PreparedPage:
    """A page from the cache, with the face of a LivePage whose levels are all computed."""

    complete = True
    is_empty = False

    def __init__(self, directory: Path) -> None:
        index = parse_json((directory / _INDEX).read_bytes())
        self.title = str(index["title"])
        self._places: dict[str, tuple[int, int]] = {
            str(name): (int(at), int(size)) for name, (at, size) in index["blocks"].items()
        }
        self._page = (directory / _PAGE).read_bytes()
        with (directory / _BLOCKS).open("rb") as file:
            self._blocks = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        if index["checksum"] != _checksum(
            zlib.crc32(self._blocks), self._page, self.title, self._places
        ):
            raise ValueError("the page is not the one of the index")

    def compute(self) -> None:
        """Do nothing: the levels are there."""

    def page_json(self) -> bytes:
        """Return the page."""
        return self._page

    def block(self, name: str) -> bytes | None:
        """Return a block by its name; None if there is none."""
        if (place := self._places.get(name)) is None:
            return None
        at, size = place
        return self._blocks[at : at + size]


def key_of(paths: Sequence[str], options: Mapping[str, object]) -> str | None:
    """Return the key of a page: a hash of all that it is made from, and of the code that makes it.

    None: nothing is kept, because a path is none on this machine, or holds too many files.
    """
    files: list[tuple[str, int, int]] = []
    for path in paths:
        try:
            for file in _files(Path(path)):
                stat = file.stat()
                files.append((str(file.resolve()), stat.st_size, stat.st_mtime_ns))
                if len(files) > _MOST_FILES:
                    return None
        except OSError:
            return None
    parts = [FORMAT, _code(), sorted(options.items()), list(paths), files]
    return hashlib.sha256(json.dumps(parts, default=str).encode()).hexdigest()[:32]


def _code() -> list[tuple[str, int, int]]:
    """Return what identifies the code, without what Python writes beside it while it runs."""
    stats = [(file.name, file.stat()) for file in sorted(_PACKAGE.rglob("*.py"))]
    return [(name, stat.st_size, stat.st_mtime_ns) for name, stat in stats]


def _files(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        yield path
        return
    for directory, names, files in os.walk(path):
        names.sort()
        yield from (Path(directory, name) for name in sorted(files))


def find_page(key: str | None) -> PreparedPage | None:
    """Return the page that was kept, if it is there and whole."""
    directory = _directory(key)
    if directory is None:
        return None
    try:
        if not directory.is_dir():  # which fails in a cache that belongs to somebody else
            return None
        page = PreparedPage(directory)
    except PermissionError:
        return None
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        shutil.rmtree(directory, ignore_errors=True)  # so that it can be made again
        return None
    with contextlib.suppress(OSError):
        os.utime(directory)
    return page


def keep_page(key: str | None, page: LivePage) -> None:
    """Write a page whose levels are computed; a cache that can't be written is left alone."""
    directory = _directory(key)
    if directory is None:
        return
    with contextlib.suppress(OSError):
        if directory.exists():
            return
        directory.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        _sweep(directory.parent)
        part = Path(tempfile.mkdtemp(prefix=_PART, dir=directory.parent))
        try:
            _write(part, page)
            part.replace(directory)
        finally:
            shutil.rmtree(part, ignore_errors=True)
        _remove_oldest(directory.parent, directory)


def _sweep(cache: Path) -> None:
    """Remove what processes that ended while they wrote have left."""
    for part in cache.glob(f"{_PART}*"):
        if time.time() - part.stat().st_mtime > _ABANDONED_S:
            shutil.rmtree(part, ignore_errors=True)


def _write(directory: Path, page: LivePage) -> None:
    places: dict[str, tuple[int, int]] = {}
    at, of_blocks, whole = 0, 0, page.page_json()
    with (directory / _BLOCKS).open("wb") as file:
        for name in page.block_names():
            block = page.block(name) or b""
            file.write(block)
            places[name] = (at, len(block))
            at, of_blocks = at + len(block), zlib.crc32(block, of_blocks)
        _sync(file)
    checksum = _checksum(of_blocks, whole, page.title, places)
    index = {"title": page.title, "blocks": places, "checksum": checksum}
    for name, content in ((_PAGE, whole), (_INDEX, json.dumps(index).encode())):
        with (directory / name).open("wb") as file:
            file.write(content)
            _sync(file)


def _sync(file: BinaryIO) -> None:
    """Bring a file to the disk: a rename may reach it before what was written to the file."""
    file.flush()
    os.fsync(file.fileno())


def _checksum(
    of_blocks: int, page: bytes, title: str, places: Mapping[str, tuple[int, int]]
) -> int:
    rest = json.dumps([title, [*places.items()]]).encode()
    return zlib.crc32(rest, zlib.crc32(page, of_blocks))


def _directory(key: str | None) -> Path | None:
    cache = cache_directory("view")
    return None if key is None or cache is None else cache / key


def _remove_oldest(cache: Path, newest: Path) -> None:
    """Remove the pages that were not used for the longest time, except the newest."""
    pages = [(each.stat().st_mtime, _size(each), each) for each in cache.iterdir()]
    total = sum(size for _, size, _ in pages)
    for _, size, each in sorted(pages):
        if total <= _MOST_BYTES:
            return
        if each != newest:
            shutil.rmtree(each, ignore_errors=True)
            total -= size


def _size(directory: Path) -> int:
    with contextlib.suppress(OSError):
        return sum(file.stat().st_size for file in directory.iterdir())
    return 0
