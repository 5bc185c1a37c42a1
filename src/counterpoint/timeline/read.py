"""`read`: any profile, from anywhere, as one Timeline."""

from __future__ import annotations

import gzip
import io
import zipfile
from collections.abc import Callable, Iterator
from os import PathLike, fspath
from pathlib import Path
from typing import Final

from counterpoint.core.errors import InputError
from counterpoint.timeline.assemble import assemble
from counterpoint.timeline.model import Timeline
from counterpoint.timeline.parquet import is_timeline, read_parquet
from counterpoint.timeline.recording import Recording
from counterpoint.timeline.source import Source, find_sources
from counterpoint.timeline.xplane.reader import is_xplane, read_xplane

Progress = Callable[[str, int, int], None]
"""Told what is being read, how many bytes of it are done, and of how many."""

Reached = Callable[[int], None]

_HEAD: Final = 4096


def _silent(what: str, done: int, total: int) -> None:
    del what, done, total


def _nowhere(offset: int) -> None:
    """Bytes in memory are neither given back nor worth a word."""
    del offset


def read(*paths: str | PathLike[str], progress: Progress = _silent) -> Timeline:
    """Read profiles into one Timeline.

    A path may be a file (XPlane, Nsight Systems, trace.json), a profile directory, a stored
    Timeline, a zip, a glob, or a URL that fsspec knows. Several files are several hosts of one run.
    """
    if not paths:
        raise InputError("no profile was named", next="counterpoint explain PATH")
    names = [fspath(path) for path in paths]
    if len(names) == 1 and is_timeline(Path(names[0])):
        return read_parquet(Path(names[0]))
    recordings: list[Recording] = []
    notes: list[str] = []
    failures: list[InputError] = []
    for name in names:
        sources, said = find_sources(name)
        notes += said
        for source in sources:
            try:
                recordings += _read_source(source, progress)
            except InputError as failure:
                if not source.found:
                    raise
                failures.append(failure)
    if not recordings:
        raise failures[0]
    notes += [f"left out: {failure.what}" for failure in failures]
    return assemble(recordings, names, notes)


def _read_source(source: Source, progress: Progress) -> list[Recording]:
    try:
        with source.opened() as (data, give_back):

            def reached(offset: int) -> None:
                progress(source.name, offset, len(data))
                give_back(offset)

            return list(_read_bytes(data, source.name, reached))
    except PermissionError:
        raise InputError(f"{source.name}: no permission to read this file") from None
    except IsADirectoryError:
        raise InputError(f"{source.name}: a directory, where a file was expected") from None
    except OSError as failure:
        raise InputError(f"{source.name}: can't be read: {failure.strerror or failure}") from None


def _read_bytes(data: memoryview, name: str, reached: Reached) -> Iterator[Recording]:
    head = bytes(data[:_HEAD])
    _refuse_others(head, name)
    if head.startswith(b"PK"):
        yield from _read_zip(data, name)
    elif head.startswith(b"\x1f\x8b") and not name.endswith((".json.gz", ".json")):
        yield from _read_bytes(_unpacked(data, name), name.removesuffix(".gz"), _nowhere)
    elif head.startswith(b"SQLite format 3"):
        from counterpoint.timeline.nsys import read_sqlite

        yield read_sqlite(Path(name))
    elif name.endswith(".nsys-rep"):
        from counterpoint.timeline.nsys import read_nsys_rep

        yield read_nsys_rep(Path(name))
    elif head.startswith(b"\x1f\x8b") or head.lstrip()[:1] in (b"{", b"["):
        from counterpoint.timeline.chrome import read_trace_json

        yield read_trace_json(data, name, reached)
    elif is_xplane(head):
        yield read_xplane(data, name, reached)
    else:
        raise InputError(
            f"{name}: not a profile that Counterpoint knows (it starts with {head[:16]!r})",
            why="known: XPlane (.xplane.pb), Nsight Systems (.sqlite, .nsys-rep, nsys-jax .zip),"
            " trace.json(.gz), a stored Timeline (.parquet directory)",
        )


def _refuse_others(head: bytes, name: str) -> None:
    """Files that are often taken for a profile, each with the reason it can't be one."""
    if not head:
        raise InputError(
            f"{name}: the file is empty (0 bytes)",
            why="a capture above 2 GB can't be written as one protobuf and leaves an empty file",
            next="capture fewer steps, or set python_tracer_level=0 and host_tracer_level=1",
        )
    start = head.lstrip()[:64].lower()
    if start.startswith((b"<!doctype html", b"<html", b"<?xml")):
        raise InputError(
            f"{name}: a web page, not a profile",
            why="the download saved the page that shows the file",
            next="download the raw file",
        )
    if start.startswith(b"version https://git-lfs"):
        raise InputError(
            f"{name}: a Git LFS pointer, not the file it stands for", next="git lfs pull"
        )
    if name.endswith(".riegeli") or head[:2] == b"\x83\xaf":
        raise InputError(
            f"{name}: XSpace in a Riegeli container, which this version does not read",
            next="capture fewer steps so that the profile stays below 2 GB and is an .xplane.pb",
        )


def _unpacked(data: memoryview, name: str) -> memoryview:
    try:
        with gzip.open(io.BytesIO(data)) as file:
            return memoryview(file.read())
    except (OSError, EOFError) as failure:
        raise InputError(f"{name}: damaged gzip data: {failure}") from None


def _read_zip(data: memoryview, name: str) -> Iterator[Recording]:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            from counterpoint.timeline.nsys import is_nsys_jax, read_nsys_jax_ranks

            if is_nsys_jax(archive):
                yield from read_nsys_jax_ranks(Path(name) if Path(name).is_file() else archive)
                return
            members = [m for m in archive.namelist() if m.endswith((".xplane.pb", ".json.gz"))]
            best = [m for m in members if m.endswith(".xplane.pb")] or members
            if not best:
                raise InputError(
                    f"{name}: no profile in this archive ({len(archive.namelist())} other files)"
                )
            for member in sorted(best):
                content = memoryview(archive.read(member))
                yield from _read_bytes(content, f"{name}/{member}", _nowhere)
    except zipfile.BadZipFile as failure:
        raise InputError(f"{name}: a damaged zip archive: {failure}") from None
