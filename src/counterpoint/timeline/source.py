"""Sources of profiles: files, directories, globs, archives and URLs, as named bytes.

In a log directory the profiles of the newest run are found (sessions.py).
"""

from __future__ import annotations

import glob
import mmap
import os
import shlex
import stat
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from counterpoint.core import InputError
from counterpoint.core.opening import open_input
from counterpoint.core.printable import some
from counterpoint.timeline.formats import FORMATS, kinds_in_directory
from counterpoint.timeline.sessions import LISTED, find_sessions, in_order, newest_run
from counterpoint.timeline.storage.parquet import MANIFEST, is_timeline

if TYPE_CHECKING:
    from counterpoint.timeline.remote import RemotePath
    from counterpoint.timeline.sessions import Place


__all__ = ["ProfileSource", "find_sources"]


def _unheard(done: int, total: int) -> None:
    del done, total


@dataclass(frozen=True, slots=True)
class ProfileSource:
    """One profile to be read: a file, or what is behind a URL.

    `name` is shown; it lacks what may be secret of the URL. `found` is true if the user named its
    directory, not the file. `size` is that of a remote file, if its store tells it.
    """

    name: str
    found: bool = False
    url: str | None = None
    size: int | None = None

    @property
    def path(self) -> Path:
        """The local file; only for a source that is not a URL."""
        return Path(self.name)

    @property
    def identity(self) -> str:
        """A string that is equal for two names of one file."""
        return self.url or str(self.path.resolve())

    @property
    def is_file(self) -> bool:
        """Return whether it is an ordinary local file, which can be reopened by name."""
        return self.url is None and self.path.is_file()

    @contextmanager
    def opened(
        self, reached: Callable[[int, int], None] = _unheard
    ) -> Generator[tuple[memoryview, Callable[[int], None]]]:
        """Yield the source's bytes, and a function that releases them up to an offset.

        `reached` is told how many bytes of how many have come from a remote store.
        """
        with self._file(reached) as file:
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

    def _file(self, reached: Callable[[int, int], None]) -> IO[bytes]:
        if self.url is None:
            return open_input(self.path)
        from counterpoint.timeline.remote_cache import open_copy

        return open_copy(self.url, reached)


def _keep(offset: int) -> None:
    del offset


def _give_back(mapped: mmap.mmap, offset: int) -> None:
    """Let the kernel drop pages that were read, so that memory does not grow with the file."""
    whole = offset // mmap.PAGESIZE * mmap.PAGESIZE
    if whole:
        mapped.madvise(mmap.MADV_DONTNEED, 0, whole)


def find_sources(path: str) -> tuple[list[ProfileSource], list[str]]:
    """Return the profiles that a path stands for, and notes on the selection."""
    if path.startswith("file://"):
        path = unquote(urlsplit(path).path)
    if "://" in path:
        return _remote(path)
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
        parts = [_named(match) for match in matches]
        sources = [ProfileSource(source.name, found=True) for named, _ in parts for source in named]
        return sources, [note for _, notes in parts for note in notes]
    return _named(path)


def _remote(url: str) -> tuple[list[ProfileSource], list[str]]:
    """Return the profiles of a URL: a file, a directory, or a pattern of both."""
    from counterpoint.timeline.remote import is_pattern, match_url, open_url, shown_url

    def at(path: RemotePath, *, found: bool) -> tuple[list[ProfileSource], list[str]]:
        return _in_directory(path) if path.is_dir() else ([_source(path, found=found)], [])

    if not is_pattern(url):
        return at(open_url(url), found=False)
    matches = [at(match, found=True) for match in match_url(url)]
    if not matches:
        raise InputError(f"{shown_url(url)}: nothing matches", next="check the pattern")
    return [source for sources, _ in matches for source in sources], [
        note for _, notes in matches for note in notes
    ]


def _source(path: Place, *, found: bool) -> ProfileSource:
    if isinstance(path, Path):
        return ProfileSource(str(path), found=found)
    return ProfileSource(path.shown, found, str(path), path.entry.size)


def _named(path: str) -> tuple[list[ProfileSource], list[str]]:
    """Return the profiles of an existing path; a name with an asterisk is no pattern here."""
    if not Path(path).exists():
        raise InputError(f"{path}: no such file or directory", next=_nearest(Path(path)))
    return _in_directory(Path(path)) if Path(path).is_dir() else ([ProfileSource(path)], [])


def _nearest(path: Path) -> str:
    parent = path.absolute()
    while not parent.exists():
        parent = parent.parent
    return f"ls {shlex.quote(str(parent))}"


def _in_directory(directory: Place) -> tuple[list[ProfileSource], list[str]]:
    """Return the newest run in a log directory, or the profiles directly in the directory."""
    try:
        _refuse_timeline(directory)
        profiles = _profiles_in(directory)
        notes = _of_other_kinds(directory, profiles)
        # Profiles in the log directory's own layout take precedence over files beside it.
        if not profiles or next(iter(directory.glob("plugins")), None):
            sessions = find_sessions(directory, _profiles_in)
            profiles, notes = newest_run(sessions) if sessions else (profiles, notes)
        if profiles:
            return [_source(path, found=True) for path in profiles], notes
        names = sorted(p.name for p in directory.iterdir())
        inside = ", ".join(names[:5]) or "nothing"
    except PermissionError as failure:
        raise InputError(f"{failure.filename}: no permission to read this directory") from None
    if isinstance(directory, Path) and any(is_timeline(directory / name) for name in names):
        raise InputError(
            f"{directory}: holds stored Timelines of several hosts, and is none itself",
            next=f"counterpoint explain {shlex.quote(str(directory))} --executor local",
        )
    if any(name.endswith(".parquet") for name in names):
        raise InputError(
            f"{directory}: not a complete stored Timeline: {MANIFEST} is missing",
            why=f"it contains {inside}",
            next="write it again with `counterpoint convert`",
        )
    log = _log_above(directory)
    if log is not None:
        raise InputError(
            f"{directory}: no profile in this directory, which contains {inside}",
            why=f"it is a part of the log directory {log}, whose runs are in plugins/profile/",
            next=f"name the log directory: {shlex.quote(str(log))}",
        )
    looked_for = ", ".join(ending for it in kinds_in_directory() for ending in it.endings)
    raise InputError(
        f"{directory}: no profile in this directory, which contains {inside}",
        why=f"looked for {looked_for}, and for runs under plugins/profile/",
        next="name the profile itself, or the log directory given to jax.profiler.start_trace",
    )


def _log_above(directory: Place) -> Path | None:
    """Return the log directory of which this is `plugins` or `plugins/profile`."""
    if not isinstance(directory, Path):
        return None
    whole = directory.absolute()
    for inner, depth in (("plugins", 0), ("plugins/profile", 1)):
        if str(whole).endswith(f"/{inner}"):
            log = whole.parents[depth]
            return log.relative_to(Path.cwd()) if log.is_relative_to(Path.cwd()) else log
    return None


def _profiles_in(directory: Place) -> list[Place]:
    """Return the profiles directly in the directory, all of one kind."""
    files = list(directory.iterdir())
    for kind in kinds_in_directory():
        if profiles := [path for path in files if path.name.endswith(kind.endings)]:
            return in_order(profiles)
    return []


def _of_other_kinds(directory: Place, taken: Sequence[Place]) -> list[str]:
    """Return a note on other profiles there; one that goes by the same name is of the same host."""
    stems = {path.name.partition(".")[0] for path in taken}
    whole = tuple(ending for it in FORMATS if not it.is_copy for ending in it.endings)
    others = sorted(
        path.name
        for path in (directory.iterdir() if taken else ())
        if path.name.endswith(whole) and path.name.partition(".")[0] not in stems
    )
    note = f"left out, since only profiles of one kind are read there: {some(others, LISTED)}"
    return [note] if others else []


def _refuse_timeline(directory: Place) -> None:
    """Refuse a stored Timeline: it can only be opened alone."""
    if not isinstance(directory, Path):
        if any(directory.glob(MANIFEST)):
            raise InputError(
                f"{directory.shown}: a stored Timeline can't be read through a URL",
                next="copy it to this machine, or name the profiles that it was made of",
            )
    elif is_timeline(directory):
        raise InputError(
            f"{directory}: a stored Timeline can't be combined with others",
            why="it already holds all profiles of its run; --executor local takes several",
            next=f"counterpoint explain {shlex.quote(str(directory))}",
        )
