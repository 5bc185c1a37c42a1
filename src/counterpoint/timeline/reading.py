"""`read`: any profile, from any location, as one Timeline."""

from __future__ import annotations

import io
import json
import re
import signal
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Final, cast

from counterpoint.core import InputError, UsageError
from counterpoint.core.machine import whole_memory
from counterpoint.core.unpacking import PACKED_ENDING, is_packed, member, open_archive, unpack
from counterpoint.timeline.formats import (
    FORMATS,
    ProfileBytes,
    endings_in_zip,
    supported_formats,
)
from counterpoint.timeline.hosts.assemble import Gathered, finish, gather
from counterpoint.timeline.model import Timeline
from counterpoint.timeline.parallel_reading import (
    is_little,
    one_ahead,
    read_in_parallel,
    worthwhile_jobs,
    write_parcel,
)
from counterpoint.timeline.recording import RecordedPart, Recording
from counterpoint.timeline.source import ProfileSource, find_sources
from counterpoint.timeline.step_range import StepRange, narrow, step_range
from counterpoint.timeline.storage.parquet import is_timeline, read_parquet

__all__ = ["Progress", "default_memory", "read", "read_source", "serve"]

Progress = Callable[[str, int, int], None]
"""Callback that receives a source name, the bytes of it done, and its total bytes."""


def _silent(what: str, done: int, total: int) -> None:
    del what, done, total


def default_memory() -> int:
    """Return half of the machine's memory, in bytes, or of what the container may use."""
    return whole_memory() // 2


def read(
    *paths: str | PathLike[str],
    progress: Progress = _silent,
    jobs: int | None = 1,
    memory_bytes: int | None = None,
    steps: str | range | None = None,
    last: int | None = None,
) -> Timeline:
    """Read profiles into one Timeline.

    A path may be a file in a known format (docs/formats), a profile directory, a stored Timeline, a
    zip, a glob, or a URL that fsspec knows. Several files are several hosts of one run. `jobs` is
    the number of processes that read them (None: as many as are worthwhile). `memory_bytes` limits
    the memory for captures written piece by piece, of which the last pieces are then left out; by
    default half of the machine's. `steps` or `last` keep only some steps: see `step_range`.
    """
    names = _names(paths)
    wanted = step_range(steps, last)
    memory_bytes = memory_bytes or default_memory()
    timeline, part = _timeline(names, progress, jobs, memory_bytes, wanted)
    if wanted is None:
        return timeline
    if part is not None:
        if narrowed := _narrowed_part(timeline, wanted, part):
            return narrowed
        timeline, _ = _timeline(names, progress, jobs, memory_bytes, None)
    return narrow(timeline, wanted)


def _narrowed_part(timeline: Timeline, wanted: StepRange, part: RecordedPart) -> Timeline | None:
    """Return the steps of a Timeline that was read in part; None if it lacks any of them."""
    whole = set(timeline.steps.filter("whole")["step"].to_list())
    chosen = wanted.of([*part.whole])
    rule = timeline.step_rule
    if not whole.issuperset(chosen) or not rule.startswith(part.own_marks):
        return None
    if not whole.issubset(part.whole):  # the end of the last one was recorded, too
        return None
    rule = part.marks + rule.removeprefix(part.own_marks)
    return narrow(replace(timeline, step_rule=rule), wanted, part.whole)


def _timeline(
    names: list[str],
    progress: Progress,
    jobs: int | None,
    memory_bytes: int,
    wanted: StepRange | None,
) -> tuple[Timeline, RecordedPart | None]:
    """Return the Timeline; of one large capture, perhaps only the part with the wanted steps."""
    if len(names) == 1 and is_timeline(Path(names[0])):
        return read_parquet(Path(names[0])), None
    sources, notes = _sources(names)
    gathered = Gathered()
    part = None
    empty: list[Recording] = []
    failures: list[InputError] = []
    for source, result in zip(
        sources, _read_all(sources, jobs, progress, memory_bytes, wanted), strict=True
    ):
        if isinstance(result, InputError):
            if not source.found:
                raise result
            failures.append(result)
            continue
        for recording in result:
            part = recording.part
            if len(recording.spans):
                gather(gathered, recording, alone=len(sources) == len(result) == 1)
            else:
                empty.append(recording)
    if not gathered.hosts:
        if not empty:
            raise failures[0]
        for recording in empty:
            gather(gathered, recording)
        empty.clear()
    notes += [f"left out: {failure.what}" for failure in failures]
    notes += [f"left out: {recording.source}: it holds no device activity" for recording in empty]
    return finish(gathered, [_shown_name(name) for name in names], notes), part


def _shown_name(name: str) -> str:
    """Return a name without what may be secret of a URL."""
    if "://" not in name:
        return name
    from counterpoint.timeline.remote import shown_url

    return shown_url(name)


def _sources(names: list[str]) -> tuple[list[ProfileSource], list[str]]:
    """Return every source once, and notes on the selection."""
    by_identity: dict[str, ProfileSource] = {}
    notes: list[str] = []
    for name in names:
        sources, source_notes = find_sources(name)
        notes += source_notes
        for source in sources:
            if source.identity in by_identity:
                notes.append(f"{source.name} is given twice; it is read once")
            by_identity.setdefault(source.identity, source)
    return list(by_identity.values()), notes


def _read_all(
    sources: list[ProfileSource],
    jobs: int | None,
    progress: Progress,
    memory_bytes: int,
    wanted: StepRange | None,
) -> Iterator[list[Recording] | InputError]:
    """Yield the Recordings of each source, or the error that prevents reading it."""
    count = len(sources)

    def tell(number: int, done: int, total: int) -> None:
        of = f" (host {number + 1} of {count})" if count > 1 else ""
        progress(f"{sources[number].name}{of}", done, total)

    def read_one(number: int) -> list[Recording] | InputError:
        tell(number, 0, 1)  # a bundle is read in one go, without progress reports
        try:
            recordings = read_source(
                sources[number],
                lambda _, done, of: tell(number, done, of),
                memory_bytes // count,
                wanted if count == 1 else None,
            )
        except InputError as failure:
            return failure
        tell(number, 1, 1)
        return recordings

    many = min(count, worthwhile_jobs(sources) if jobs is None else jobs)
    if many > 1:
        yield from read_in_parallel(sources, many, memory_bytes // count, tell)
    elif jobs is None and count > 1 and is_little(sources):
        yield from one_ahead(read_one, count)
    else:
        yield from map(read_one, range(count))


def _names(paths: tuple[object, ...]) -> list[str]:
    if not paths:
        raise InputError("no profile given", next="counterpoint explain PATH")
    names: list[str] = []
    for path in paths:
        kind = type(path).__name__
        name = fspath(cast("str", path)) if isinstance(path, str | PathLike) else None
        if not isinstance(name, str):
            raise UsageError(
                f"read takes paths as str or Path, not {kind}",
                next="read(path), or read(*paths) for a list of them",
            )
        if not name:
            raise UsageError("the name of a profile is empty", next="counterpoint explain PATH")
        names.append(name)
    return names


def read_source(
    source: ProfileSource,
    progress: Progress,
    memory_bytes: int,
    wanted: StepRange | None = None,
) -> list[Recording]:
    """Read one source: a Recording for each host, process or rank in it.

    Steps that are not `wanted` may be left out.
    """
    try:
        came = partial(progress, source.name)
        with source.opened(came) as (data, give_back):

            def reached(offset: int) -> None:
                progress(source.name, offset, len(data))
                give_back(offset)

            profile = ProfileBytes(
                data=data,
                name=source.name,
                memory_bytes=memory_bytes,
                is_file=source.is_file,
                reached=reached,
                wanted=wanted,
            )
            return list(_read_bytes(profile))
    except PermissionError:
        raise InputError(f"{source.name}: no permission to read this file") from None
    except IsADirectoryError:
        raise InputError(f"{source.name}: a directory; a file was expected") from None
    except OSError as failure:
        raise InputError(f"{source.name}: can't be read: {failure.strerror or failure}") from None


def _read_bytes(profile: ProfileBytes) -> Iterator[Recording]:
    head, name = profile.head, profile.name
    refuse_others(head, name, size_known=profile.is_file)
    for known in FORMATS:
        if known.recognizes(profile):
            yield from known.read(profile)
            return
    if head.startswith(b"PK"):
        yield from _read_zip(profile)
    elif is_packed(head):
        plain = memoryview(unpack(profile.data, name))
        yield from _read_bytes(_inside(profile, plain, PACKED_ENDING.sub("", name)))
    elif name.endswith(".extract.parquet"):
        raise InputError(
            f"{name}: extracts of profiles, and not a profile", next="use --executor local"
        )
    else:
        raise InputError(
            f"{name}: not a known profile format; it starts with {_shown(head[:16])}",
            why=f"supported: {supported_formats()}, a stored Timeline (written by"
            " `counterpoint convert`)",
            next="name a profile, or the log directory given to jax.profiler.start_trace",
        )


def _inside(profile: ProfileBytes, data: memoryview, name: str) -> ProfileBytes:
    """Return a profile that was unpacked from another, or found in an archive."""
    return ProfileBytes(data=data, name=name, memory_bytes=profile.memory_bytes)


def _shown(head: bytes) -> str:
    """Return the first bytes of a file as a user would see them: text, or hexadecimal."""
    text = head.decode("utf-8", errors="replace").rstrip("\ufffd")
    return repr(text) if text.replace("\n", " ").isprintable() else f"the bytes {head.hex(' ')}"


def _read_zip(zipped: ProfileBytes) -> Iterator[Recording]:
    name = zipped.name
    with open_archive(io.BytesIO(zipped.data), name) as archive:
        for profile in _profiles(archive, name):
            content = memoryview(member(archive, profile, name))
            if bytes(content[:2]) == b"PK":
                raise InputError(f"{name}/{profile}: an archive inside an archive is not read")
            yield from _read_bytes(_inside(zipped, content, f"{name}/{profile}"))


def _profiles(archive: zipfile.ZipFile, name: str) -> list[str]:
    members = archive.namelist()
    for endings in endings_in_zip():
        if best := sorted({member for member in members if member.endswith(endings)}):
            return best
    raise InputError(
        f"{name}: no profile in this archive ({len(members)} other files)",
        why=f"looked for {', '.join(ending for endings in endings_in_zip() for ending in endings)}",
        next="name the profile itself, or the log directory given to jax.profiler.start_trace",
    )


def refuse_others(head: bytes, name: str, *, size_known: bool) -> None:
    """Raise the error for a file that starts like a known other format."""
    if not head:
        size_known = size_known or "://" in name
        capture = size_known and name.endswith(".pb")
        raise InputError(
            f"{name}: the file is empty (0 bytes)",
            why="a capture above 2 GB can't be written as one protobuf and leaves an empty file"
            if capture
            else None,
            next="capture fewer steps, or set python_tracer_level=0 and host_tracer_level=1; except"
            " on GPUs, JAX 0.11.1 and later write more, piece by piece (`counterpoint run`"
            " with --profile-in-pieces)"
            if capture
            else "name the profile itself"
            if size_known
            else "check the command that writes into this pipe",
        )
    start = head.lstrip()[:64].lower()
    if start.startswith((b"<!doctype html", b"<html", b"<?xml")):
        own = b'content="Counterpoint"' in head
        why = "Counterpoint wrote it" if own else "the download saved the page that shows the file"
        what = "open it in a browser, or name the profile it was made from"
        raise InputError(
            f"{name}: a web page, not a profile",
            why=why,
            next=what if own else "download the raw file",
        )
    if start.startswith(b"version https://git-lfs"):
        raise InputError(f"{name}: a Git LFS pointer, not the file itself", next="git lfs pull")
    if head[257:262] == b"ustar":
        raise InputError(
            f"{name}: a tar archive, which cannot be read",
            next="unpack it with `tar xf`, and name the directory with the profile",
        )
    _refuse_relatives(head, name)


def _refuse_relatives(head: bytes, name: str) -> None:
    """Refuse files around a profile that are not the profile: a trace made from it, its HLO."""
    kind = _kind(head)
    if kind == "trace" or name.endswith((".pftrace", ".perfetto-trace")):
        raise InputError(
            f"{name}: a Perfetto trace, which can be viewed but not read",
            next="name the profile it was made from",
        )
    if kind == "module":
        raise InputError(
            f"{name}: an HLO module, not a profile",
            why="it describes the computation and contains no times",
            next="name a profile (.xplane.pb); counterpoint.read_program reads this file",
        )


def _kind(head: bytes) -> str | None:
    """Detect the kind from the first field, which XPlane profiles, traces and HLO all number 1."""
    if head.lstrip().startswith(b"HloModule "):
        return "module"
    if head[:1] != b"\x0a":
        return None
    size, at = 0, 1
    while at < min(len(head), 6):
        size |= (head[at] & 0x7F) << 7 * (at - 1)
        at += 1
        if head[at - 1] < 0x80:
            break
    first, behind = head[at : at + size], head[at + size : at + size + 1]
    if first[:1] == b"\x0a" and first[2:3].isalnum():  # an HloProto: its module, the module's name
        return "module"
    if behind == b"\x12" and len(first) == size and re.fullmatch(rb"[\w.\-]+", first):
        return "module"  # a bare HloModuleProto: its name, its entry's name
    return "trace" if first[:1] in (b"\x40", b"\x50") else None  # a packet's time or sequence


_PAUSE: Final = 0.2
"""Minimum seconds between two progress reports on a source."""


def serve() -> None:
    """Read profiles for another process, until stdin ends; interrupts are left to that process.

    Each line of stdin names a source, its number, and the memory for it: `{"name": ...,
    "number": 3, "memory_bytes": ...}`. Answers go to stdout, a line of JSON each: progress (`at`,
    `of`), and finally either the number of Recordings written to the directory (`made`), or the
    error.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    directory = Path(sys.argv[1])
    for line in sys.stdin:
        _answer(_serve_one(json.loads(line), directory))


def _serve_one(task: dict[str, Any], directory: Path) -> dict[str, Any]:
    answered = 0.0

    def progress(what: str, done: int, total: int) -> None:
        nonlocal answered
        del what
        if time.monotonic() - answered > _PAUSE:
            answered = time.monotonic()
            _answer({"at": done, "of": total})

    source = ProfileSource(task["name"], url=task["url"])
    try:
        recordings = read_source(source, progress, task["memory_bytes"])
        for part, recording in enumerate(recordings):
            place = directory / f"{task['number']}-{part}"
            write_parcel(recording, place, directory / "hlo")
    except InputError as failure:
        return {"failed": [failure.what, failure.why, failure.next and str(failure.next)]}
    except OSError as failure:
        return {"lost": f"{failure.strerror or failure}"}
    return {"made": len(recordings)}


def _answer(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()
