"""Sources of profiles: files, directories, globs, archives and URLs, as named bytes."""

from __future__ import annotations

import glob
import mmap
import os
import shlex
import stat
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from counterpoint.core import InputError
from counterpoint.timeline.sessions import fetch, find_sessions, in_order, newest_run
from counterpoint.timeline.storage.parquet import MANIFEST, is_timeline

ENDINGS: Final = (
    (".xplane.pb", ".xplane.pb.gz"),
    (".nsys-rep",),
    (".sqlite",),
    (".zip",),
    (".trace.json.gz", ".trace.json"),
)
"""File endings to look for in a directory, best first: only the best kind found is read."""


@dataclass(frozen=True, slots=True)
class ProfileSource:
    """One profile to be read. `found` is true if the user named its directory, not the file."""

    name: str
    found: bool = False

    @property
    def path(self) -> Path:
        """The local file; only for a source that is not a URL."""
        return Path(self.name)

    @property
    def is_url(self) -> bool:
        """Return whether the source is a URL."""
        return "://" in self.name

    @property
    def identity(self) -> str:
        """A string that is equal for two names of one file."""
        return self.name if self.is_url else str(self.path.resolve())

    @property
    def is_file(self) -> bool:
        """Return whether it is an ordinary local file, which can be reopened by name."""
        return not self.is_url and self.path.is_file()

    @contextmanager
    def opened(self) -> Generator[tuple[memoryview, Callable[[int], None]]]:
        """Yield the source's bytes, and a function that releases them up to an offset."""
        if self.is_url:
            yield memoryview(fetch(self.name)), _keep
            return
        with self.path.open("rb") as file:
            about = os.fstat(file.fileno())
            # A pipe's size is unknown until its end.
            if not stat.S_ISREG(about.st_mode) or not about.st_size:
                yield memoryview(file.read()), _keep
                return
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        view = memoryview(mapped)
        try:
            yield view, lambda offset: _give_back(mapped, offset)
        finally:
            # After an error its traceback may still read the bytes; they are then released with it.
            with suppress(BufferError):
                view.release()
                mapped.close()


def _keep(offset: int) -> None:
    del offset


def _give_back(mapped: mmap.mmap, offset: int) -> None:
    """Let the kernel drop pages that were read, so that memory does not grow with the file."""
    whole = offset // mmap.PAGESIZE * mmap.PAGESIZE
    if whole:
        mapped.madvise(mmap.MADV_DONTNEED, 0, whole)


def find_sources(path: str) -> tuple[list[ProfileSource], list[str]]:
    """Return the profiles that a path stands for, and notes on the selection."""
    if "://" in path:
        return [ProfileSource(path)], []
    try:
        return _find(path)
    except OSError as failure:
        reason = failure.strerror or failure
        raise InputError(f"{path}: can't be looked up: {reason}") from None


def _find(path: str) -> tuple[list[ProfileSource], list[str]]:
    if not Path(path).exists() and glob.has_magic(path):
        matches = sorted(glob.glob(path, recursive=True))  # noqa: PTH207 - may be absolute
        if not matches:
            raise InputError(f"{path}: nothing matches", next="check the pattern with `ls`")
        parts = [find_sources(match) for match in matches]
        sources = [ProfileSource(source.name, found=True) for found, _ in parts for source in found]
        return sources, [note for _, notes in parts for note in notes]
    if not Path(path).exists():
        raise InputError(f"{path}: no such file or directory", next=_nearest(Path(path)))
    return _in_directory(Path(path)) if Path(path).is_dir() else ([ProfileSource(path)], [])


def _nearest(path: Path) -> str:
    parent = path.absolute()
    while not parent.exists():
        parent = parent.parent
    return f"{parent} exists: look there with `ls {shlex.quote(str(parent))}`"


def _in_directory(directory: Path) -> tuple[list[ProfileSource], list[str]]:
    """Return the newest run in a log directory, or the profiles directly in the directory."""
    try:
        _refuse_timeline(directory)
        profiles, notes = _profiles_in(directory), list[str]()
        # Profiles in the log directory's own layout take precedence over files beside it.
        if not profiles or (directory / "plugins").is_dir():
            sessions = find_sessions(directory, _profiles_in)
            profiles, notes = newest_run(sessions) if sessions else (profiles, notes)
        if profiles:
            return [ProfileSource(str(path), found=True) for path in profiles], notes
        names = sorted(p.name for p in directory.iterdir())
        inside = ", ".join(names[:5]) or "nothing"
    except PermissionError as failure:
        raise InputError(f"{failure.filename}: no permission to read this directory") from None
    if any(name.endswith(".parquet") for name in names):
        raise InputError(
            f"{directory}: not a whole stored Timeline: {MANIFEST} is missing",
            why=f"it holds {inside}",
            next="write it again with `counterpoint convert`",
        )
    looked_for = ", ".join(ending for endings in ENDINGS for ending in endings)
    raise InputError(
        f"{directory}: no profile in this directory (it holds {inside})",
        why=f"looked for {looked_for}, and for runs under plugins/profile/",
        next="name the profile itself, or the log directory given to jax.profiler.start_trace",
    )


def _profiles_in(directory: Path) -> list[Path]:
    """Return the profiles directly in the directory, all of one kind."""
    files = list(directory.iterdir())
    for endings in ENDINGS:
        if found := [path for path in files if path.name.endswith(endings)]:
            return in_order(found)
    return []


def _refuse_timeline(directory: Path) -> None:
    """Refuse a stored Timeline: it can only be opened alone."""
    if is_timeline(directory):
        raise InputError(
            f"{directory}: a stored Timeline can't be combined with others",
            why="it is already what several profiles become",
            next=f"counterpoint explain {shlex.quote(str(directory))}",
        )
