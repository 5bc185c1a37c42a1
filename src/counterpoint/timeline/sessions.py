"""Finds the profiles in a log directory that belong to one run.

JAX writes a session to `plugins/profile/<time>/<host>.xplane.pb`, and each process uses the time at
which it stopped: hosts of one run may lie in directories that are seconds apart, or in log
directories of their own. So sessions that lie close together belong to one run as long as no host
occurs twice; a host's older session is of an earlier run. Reference:
tsl/profiler/rpc/client/save_profile.cc (GetCurrentTimeStampAsString).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Final

from counterpoint.core import InputError, UsageError

_STAMP: Final = re.compile(r"\d{4}(_\d{2}){5}")
_STAMPED: Final = "%Y_%m_%d_%H_%M_%S"
_LOGS: Final = ("plugins/profile/*", "*/plugins/profile/*", "*/*/plugins/profile/*")
"""Locations of sessions: in the log directory itself, or in one for each host."""

_CLOSE_S: Final = 300.0
"""Hosts stop at the same step, but writing a large profile may take minutes."""

_LISTED: Final = 3
_DIGITS: Final = re.compile(r"(\d+)")

ProfilesIn = Callable[[Path], list[Path]]


@dataclass(frozen=True, slots=True)
class Session:
    """Profiles that one or more hosts wrote into one directory."""

    directory: Path
    log: Path  # two files of the same name in one log are of one host
    written: float
    profiles: tuple[Path, ...]

    @property
    def hosts(self) -> frozenset[tuple[Path, str]]:
        """The hosts whose profiles it holds."""
        return frozenset((self.log, path.name) for path in self.profiles)


def in_order(paths: Iterable[Path]) -> list[Path]:
    """Sort by name, with host-2 before host-10: the usual order of devices."""

    def key(path: Path) -> list[tuple[int, str]]:
        parts = _DIGITS.split(str(path))
        return [(int(part) if at % 2 else 0, part) for at, part in enumerate(parts)]

    return sorted(paths, key=key)


def find_sessions(directory: Path, profiles_in: ProfilesIn) -> list[Session]:
    """Return all sessions below a directory, oldest first; `profiles_in` lists one's profiles."""
    for pattern in _LOGS:
        found = [path for path in directory.glob(pattern) if path.is_dir()]
        if found:
            return _sessions(((path, path.parents[2]) for path in found), profiles_in)
    copied = (path for path in directory.iterdir() if _STAMP.fullmatch(path.name) and path.is_dir())
    return _sessions(((path, directory) for path in copied), profiles_in)


def _sessions(places: Iterable[tuple[Path, Path]], profiles_in: ProfilesIn) -> list[Session]:
    sessions = [
        Session(place, log, _written(place), tuple(profiles_in(place))) for place, log in places
    ]
    return sorted(
        (session for session in sessions if session.profiles),
        key=lambda session: (session.written, str(session.directory)),
    )


def _written(place: Path) -> float:
    if _STAMP.fullmatch(place.name):
        try:
            return datetime.strptime(place.name, _STAMPED).timestamp()  # noqa: DTZ007 - local time
        except ValueError:
            pass  # a month 13
    return place.stat().st_mtime


def newest_run(sessions: list[Session]) -> tuple[list[Path], list[str]]:
    """Return the profiles of the latest run, and notes on the others."""
    run = [sessions[-1]]
    others: list[Session] = []
    hosts = set(sessions[-1].hosts)
    for session in reversed(sessions[:-1]):
        if run[-1].written - session.written <= _CLOSE_S and not hosts & session.hosts:
            run.append(session)
            hosts |= session.hosts
        else:
            others.insert(0, session)
    profiles = in_order(path for session in run for path in session.profiles)
    return profiles, _notes(run[::-1], others)


def _notes(run: list[Session], others: list[Session]) -> list[str]:
    newest = run[-1].directory.name
    notes: list[str] = []
    if len(run) > 1:
        apart = run[-1].written - run[0].written
        notes.append(
            f"{len(run)} sessions are read as one run: each holds other hosts, and they were"
            f" written within {apart:,.0f} s, the last in {newest}"
        )
    if others:
        names = ", ".join(dict.fromkeys(session.directory.name for session in others[-_LISTED:]))
        notes.append(
            f"{len(others) + 1} runs found, the newest is read: {newest} (others: {names})"
            if len(run) == 1
            else f"left out, of earlier runs: {names}"
        )
    return notes


def refuse_url(path: str | Path) -> None:
    """Refuse a URL as an output path; a Path has only one slash left of it."""
    scheme = re.match(r"[A-Za-z][A-Za-z0-9+.-]+:(?=/)", str(path))
    if scheme and not Path(scheme.group()).is_dir():
        raise UsageError(
            f"can't write {path}: URLs can be read, not written",
            next="write to a local path, and copy it from there",
        )


def fetch(url: str) -> bytes:
    """Return all bytes behind a URL that fsspec supports."""
    if "*" in url:
        raise _not_one_file(url, "it is a pattern")
    fsspec = import_module("fsspec")
    try:
        with fsspec.open(url, "rb") as file:
            return bytes(file.read())
    except IsADirectoryError:
        raise _not_one_file(url, "it is a directory") from None
    except FileNotFoundError:
        if _is_directory(url, fsspec):
            raise _not_one_file(url, "it is a directory") from None
        raise InputError(f"{url}: nothing is there, or it can't be reached") from None
    except ImportError as failure:
        raise InputError(
            f"{url} can't be opened: {_first_line(failure)}", next=_driver(url, str(failure))
        ) from None
    except ValueError as failure:
        raise InputError(
            f"{url} can't be opened: {_first_line(failure)}",
            next="check how the URL begins: https://, gs:// and s3:// are known, for example",
        ) from None
    except Exception as failure:  # noqa: BLE001 - every driver raises its own kinds
        raise InputError(f"{url} can't be read: {_first_line(failure)}") from None


def _not_one_file(url: str, why: str) -> InputError:
    return InputError(
        f"{url}: a URL must name one file", why=why, next="name each profile by its own URL"
    )


def _is_directory(url: str, fsspec: ModuleType) -> bool:
    try:
        filesystem, path = fsspec.core.url_to_fs(url)
        return bool(filesystem.isdir(path))
    except Exception:  # noqa: BLE001 - every driver raises its own kinds
        return False


def _driver(url: str, told: str) -> str:
    """Return the package to install, from fsspec's message."""
    if url.startswith(("http://", "https://")):
        return "pip install aiohttp requests"
    named = re.search(r"[Ii]nstall[: ]+[\"'`]?([a-z][\w-]*)", told) or re.search(
        r"[\"'`]([a-z][\w-]*)[\"'`]", told
    )
    return f"pip install {named.group(1)}" if named else "install fsspec's driver for such URLs"


def _first_line(failure: Exception) -> str:
    return next(iter(str(failure).strip().splitlines()), type(failure).__name__)


def refuse_others(head: bytes, name: str, *, size_known: bool) -> None:
    """Raise the error for a file that starts like a known other format."""
    if not head:
        capture = size_known and name.endswith(".pb")
        raise InputError(
            f"{name}: the file is empty (0 bytes)",
            why="a capture above 2 GB can't be written as one protobuf and leaves an empty file"
            if capture
            else None,
            next="capture fewer steps, or set python_tracer_level=0 and host_tracer_level=1"
            if capture
            else "name the profile itself, or check the command that writes into this pipe",
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
    if head[257:262] == b"ustar":
        raise InputError(
            f"{name}: a tar archive, which is not looked into",
            next="unpack it with `tar xf`, and name the directory with the profile",
        )
    _refuse_relatives(head, name)


def _refuse_relatives(head: bytes, name: str) -> None:
    """Refuse files around a profile that are not the profile: a trace made from it, its HLO."""
    kind = _kind(head)
    if kind == "trace" or name.endswith((".pftrace", ".perfetto-trace")):
        raise InputError(
            f"{name}: a Perfetto trace, which is for looking at and is not read",
            next="name the profile it was made from",
        )
    if kind == "module":
        raise InputError(
            f"{name}: an HLO module, not a profile",
            why="it tells what is computed, and no times",
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
