"""Where profiles come from: files, directories, globs, archives and URLs, as named bytes."""

from __future__ import annotations

import glob
import mmap
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from counterpoint.core.errors import InputError

ENDINGS: Final = (
    (".xplane.pb", ".xplane.pb.gz"),
    (".nsys-rep",),
    (".sqlite",),
    (".zip",),
    (".trace.json.gz", ".trace.json"),
)
"""What is looked for in a directory, best first: only the best kind found is read."""


@dataclass(frozen=True, slots=True)
class Source:
    """One profile to be read. `found` tells that the user named its directory, not itself."""

    name: str
    found: bool = False

    @property
    def path(self) -> Path:
        """The local file; only for a source that is not a URL."""
        return Path(self.name)

    @property
    def is_url(self) -> bool:
        """Whether the source lies on another machine."""
        return "://" in self.name

    @contextmanager
    def opened(self) -> Generator[tuple[memoryview, Callable[[int], None]]]:
        """The source's bytes, and a way to say up to where they are no longer needed."""
        if self.is_url:
            yield memoryview(fetch(self.name)), _keep
            return
        with self.path.open("rb") as file:
            if not self.path.stat().st_size:
                yield memoryview(b""), _keep
                return
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        view = memoryview(mapped)
        try:
            yield view, lambda offset: _give_back(mapped, offset)
        finally:
            # After an error its traceback may still look at the bytes; they go with it then.
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


def fetch(url: str) -> bytes:
    """All bytes behind a URL that fsspec knows."""
    fsspec: Any = import_module("fsspec")  # it ships no types
    try:
        with fsspec.open(url, "rb") as file:
            return bytes(file.read())
    except FileNotFoundError:
        raise InputError(f"{url}: nothing is there, or it can't be reached") from None
    except (ImportError, ValueError) as failure:
        raise InputError(
            f"{url} can't be opened: {failure}",
            next="install fsspec's driver for this kind of URL (gcsfs for gs://, s3fs for s3://)",
        ) from None
    except Exception as failure:  # noqa: BLE001 - every driver raises its own kinds
        raise InputError(f"{url} can't be read: {failure}") from None


def find_sources(path: str) -> tuple[list[Source], list[str]]:
    """The profiles that a path stands for, and what should be said about the choice."""
    if "://" in path:
        return [Source(path)], []
    try:
        return _find(path)
    except OSError as failure:
        reason = failure.strerror or failure
        raise InputError(f"{path}: can't be looked up: {reason}") from None


def _find(path: str) -> tuple[list[Source], list[str]]:
    if not Path(path).exists() and glob.has_magic(path):
        matches = sorted(glob.glob(path, recursive=True))  # noqa: PTH207 - may be absolute
        if not matches:
            raise InputError(f"{path}: nothing matches", next="check the pattern with `ls`")
        parts = [find_sources(match) for match in matches]
        sources = [Source(source.name, found=True) for found, _ in parts for source in found]
        return sources, [note for _, notes in parts for note in notes]
    if not Path(path).exists():
        raise InputError(f"{path}: no such file or directory", next=_nearest(Path(path)))
    return _in_directory(Path(path)) if Path(path).is_dir() else ([Source(path)], [])


def _nearest(path: Path) -> str:
    parent = path
    while not parent.exists():
        parent = parent.parent
    return f"{parent} exists: look there with `ls {parent}`"


def _in_directory(directory: Path) -> tuple[list[Source], list[str]]:
    """The newest run in a log directory, or the profiles that lie in the directory itself."""
    try:
        runs = sorted(run for run in directory.glob("plugins/profile/*") if run.is_dir())
        notes: list[str] = []
        if runs:
            directory = runs[-1]
            if len(runs) > 1:
                notes.append(
                    f"{len(runs)} runs found, the newest is read: {directory.name}"
                    f" (others: {', '.join(run.name for run in runs[:-1][-3:])})"
                )
        for endings in ENDINGS:
            matches = sorted(p for p in directory.iterdir() if p.name.endswith(endings))
            if matches:
                return [Source(str(match), found=True) for match in matches], notes
        inside = ", ".join(sorted(p.name for p in directory.iterdir())[:5]) or "nothing"
    except PermissionError as failure:
        raise InputError(f"{failure.filename}: no permission to read this directory") from None
    looked_for = ", ".join(ending for endings in ENDINGS for ending in endings)
    raise InputError(
        f"{directory}: no profile in this directory (it holds {inside})",
        why=f"looked for {looked_for}, and for runs under plugins/profile/",
        next="name the profile itself, or the log directory given to jax.profiler.start_trace",
    )
