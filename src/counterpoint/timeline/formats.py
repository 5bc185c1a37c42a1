"""Formats: the profiles that can be read, and the reader of each. No other module names a format.

A new one is an entry of FORMATS: the endings of its files, what its content looks like, and the
function that calls its reader, which is imported when it is used.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from counterpoint.core import InputError
from counterpoint.core.scratch import scratch_directory
from counterpoint.core.unpacking import open_archive

if TYPE_CHECKING:
    from counterpoint.timeline.recording import Recording
    from counterpoint.timeline.step_range import StepRange

_HEAD: Final = 4096


def nowhere(offset: int) -> None:
    """Ignore progress: bytes in memory need neither release nor progress reports."""
    del offset


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileBytes:
    """A profile that is to be read."""

    data: memoryview
    name: str  # that errors and notes show
    memory_bytes: int  # that reading it may take
    is_file: bool = False  # `name` is an ordinary local file
    reached: Callable[[int], None] = nowhere  # is told the offset up to which it has been read
    wanted: StepRange | None = None  # steps that do; others may be left out

    @property
    def head(self) -> bytes:
        return bytes(self.data[:_HEAD])


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """One format of profiles. Endings are looked for in directories and archives."""

    name: str
    endings: tuple[str, ...]
    # The order in which kinds are looked for: only profiles of the best kind found are read.
    in_directory: int
    in_zip: int | None  # None: not looked for
    endings_in_zip: tuple[str, ...] = ()  # if others are looked for there
    is_copy: bool = False  # made of another profile, beside which it is not missed
    recognizes: Callable[[ProfileBytes], bool]
    read: Callable[[ProfileBytes], Iterable[Recording]]
    page: str  # that describes it, in docs/formats


def _is_bundle(profile: ProfileBytes) -> bool:
    from counterpoint.timeline.nsys.archive import is_nsys_jax

    if not profile.head.startswith(b"PK"):
        return False
    with open_archive(io.BytesIO(profile.data), profile.name) as archive:
        return is_nsys_jax(archive)


def _read_bundle(profile: ProfileBytes) -> Iterator[Recording]:
    from counterpoint.timeline.nsys.bundle import read_nsys_jax_ranks

    with open_archive(io.BytesIO(profile.data), profile.name) as archive:
        yield from read_nsys_jax_ranks(Path(profile.name) if profile.is_file else archive)


def _read_sqlite(profile: ProfileBytes) -> Iterator[Recording]:
    from counterpoint.timeline.nsys.sqlite import read_sqlite

    yield _from_file(read_sqlite, profile)


def _read_report(profile: ProfileBytes) -> Iterator[Recording]:
    from counterpoint.timeline.nsys.sqlite import read_nsys_rep

    yield _from_file(read_nsys_rep, profile)


def _is_trace_json(profile: ProfileBytes) -> bool:
    head = profile.head
    if head.startswith(b"\x1f\x8b"):  # its reader unpacks it piece by piece
        return profile.name.endswith((".json.gz", ".json"))
    return head.lstrip()[:1] in (b"{", b"[")


def _read_trace_json(profile: ProfileBytes) -> Iterator[Recording]:
    from counterpoint.timeline.chrome.reader import read_trace_json

    yield read_trace_json(profile.data, profile.name, profile.reached)


def _is_in_pieces(profile: ProfileBytes) -> bool:
    from counterpoint.core.riegeli import is_riegeli

    return is_riegeli(profile.head) or profile.name.endswith(".riegeli")


def _is_xplane(profile: ProfileBytes) -> bool:
    from counterpoint.timeline.xplane.reader import is_xplane

    return _is_in_pieces(profile) or is_xplane(profile.head)


def _read_xplane(profile: ProfileBytes) -> Iterator[Recording]:
    from counterpoint.timeline.xplane.reader import read_pieces, read_xplane

    data, name = profile.data, profile.name
    if _is_in_pieces(profile):
        yield read_pieces(data, name, profile.memory_bytes, profile.reached)
    else:
        yield read_xplane(data, name, profile.reached, profile.wanted)


def _from_file(reader: Callable[[Path], Recording], profile: ProfileBytes) -> Recording:
    """Read with a reader that needs a file, using a temporary copy if the profile is not a file."""
    name = profile.name
    if profile.is_file:
        return reader(Path(name))
    with scratch_directory("profile") as directory:
        copy = directory / (Path(name).name or "profile")
        copy.write_bytes(profile.data)
        try:
            recording = reader(copy)
        except InputError as failure:
            texts = (failure.what, failure.why or "", str(failure.next or ""))
            what, why, next_ = (text.replace(str(copy), name) for text in texts)
            raise InputError(what, why=why or None, next=next_ or None) from None
    notes = tuple(note.replace(str(copy), name) for note in recording.notes)
    return replace(recording, source=name, notes=notes)


BUNDLE: Final = Format(
    name="nsys-jax bundle",
    endings=(".zip",),  # so are other archives, whose profiles are looked for
    in_directory=4,
    in_zip=None,
    recognizes=_is_bundle,
    read=_read_bundle,
    page="nsys.md",
)
NSYS_EXPORT: Final = Format(
    name="Nsight Systems export",
    endings=(".sqlite",),
    in_directory=3,
    in_zip=3,
    recognizes=lambda profile: profile.head.startswith(b"SQLite format 3"),
    read=_read_sqlite,
    page="nsys.md",
)
NSYS_REPORT: Final = Format(
    name="Nsight Systems report",
    endings=(".nsys-rep",),
    in_directory=2,
    in_zip=4,
    recognizes=lambda profile: profile.name.endswith(".nsys-rep"),
    read=_read_report,
    page="nsys.md",
)
TRACE_JSON: Final = Format(
    name="trace.json",
    endings=(".trace.json.gz", ".trace.json"),
    in_directory=5,
    in_zip=2,
    endings_in_zip=(".json.gz",),
    is_copy=True,
    recognizes=_is_trace_json,
    read=_read_trace_json,
    page="trace-json.md",
)
XPLANE: Final = Format(
    name="XPlane",
    endings=(".xplane.pb", ".xplane.pb.gz", ".xplane.riegeli"),
    in_directory=1,
    in_zip=1,
    recognizes=_is_xplane,
    read=_read_xplane,
    page="xplane.md",
)

FORMATS: Final = (BUNDLE, NSYS_EXPORT, NSYS_REPORT, TRACE_JSON, XPLANE)
"""In the order in which a profile is recognized: XPlane's first byte may begin others, too."""

RECORDING_ENDINGS: Final = tuple(ending for it in FORMATS for ending in it.endings)


def is_recording(name: str) -> bool:
    """Return whether a file of this name is a recording, by its ending."""
    return name.endswith((*RECORDING_ENDINGS, *(it for kind in endings_in_zip() for it in kind)))


def kinds_in_directory() -> tuple[Format, ...]:
    """Return the formats, the one first of which profiles in a directory are read."""
    return tuple(sorted(FORMATS, key=lambda it: it.in_directory))


def endings_in_zip() -> tuple[tuple[str, ...], ...]:
    """Return the endings that are looked for in an archive by kind, best first."""
    ranked = [(it.in_zip, it.endings_in_zip or it.endings) for it in FORMATS if it.in_zip]
    return tuple(endings for _, endings in sorted(ranked))


def supported_formats() -> str:
    """Return what can be read, as an error says it."""
    return ", ".join(f"{it.name} ({', '.join(it.endings)})" for it in kinds_in_directory())
