"""Directories that a run writes to: where they are, on what file system, and with what room."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from counterpoint.core import CounterpointError
from counterpoint.doctor.checks.compilation_cache import SETTING as CACHE
from counterpoint.doctor.facts import RunDirectory
from counterpoint.doctor.gather.kernel_files import text_of
from counterpoint.flags.settings import inherited_settings

_NOWHERE: Final = ("", "-", "sponge", "test_undeclared_outputs_dir")
"""Values of xla_dump_to that are not directories."""


def gather_places(
    root: Path, environment: Mapping[str, str], here: Path
) -> tuple[RunDirectory, ...]:
    """Return the working directory, the compilation cache and the dump directory."""
    mounts = tuple(_mounts(root))
    return tuple(_place(path, setting, mounts) for path, setting in _wanted(environment, here))


def _wanted(environment: Mapping[str, str], here: Path) -> Iterator[tuple[Path, str]]:
    yield here, ""
    cache = environment.get(CACHE, "")
    if cache and "://" not in cache:
        yield here / Path(cache).expanduser(), CACHE
    try:
        dump = inherited_settings(environment).flags.get("xla_dump_to", "")
    except CounterpointError:
        dump = ""  # the `flags` check reports what is wrong with them
    if dump not in _NOWHERE and "://" not in dump:
        yield here / dump, "xla_dump_to"


def _place(path: Path, setting: str, mounts: tuple[tuple[str, str], ...]) -> RunDirectory:
    existing = next(
        (directory for directory in (path, *path.parents) if directory.is_dir()), Path("/")
    )
    try:
        about = os.statvfs(existing)
        free = about.f_bavail * about.f_frsize if about.f_blocks else None  # /proc has no size
    except OSError:
        free = None
    return RunDirectory(
        path=str(path),
        named_by=setting,
        exists=path.is_dir(),
        writable=_can_write(existing) and (not path.exists() or path.is_dir()),
        filesystem=_filesystem(existing, mounts),
        free_bytes=free,
    )


def _can_write(directory: Path) -> bool:
    """Try an unnamed file: permissions alone allow root, even on /proc or a root-squashing NFS."""
    try:
        with tempfile.TemporaryFile(dir=directory):
            return True
    except OSError:
        return False


def _mounts(root: Path) -> Iterator[tuple[str, str]]:
    for line in (text_of(root / "proc/mounts") or "").splitlines():
        words = line.split()
        if len(words) > 2:
            yield words[1].replace("\\040", " "), words[2]


def _filesystem(path: Path, mounts: tuple[tuple[str, str], ...]) -> str:
    """Return the type of the path's mount: the longest mount point above it; the last one wins."""
    real = os.path.realpath(path)
    best = ("", "")
    for point, kind in mounts:
        inside = real == point or real.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best[0]):
            best = (point, kind)
    return best[1]
