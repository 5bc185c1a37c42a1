"""Sessions in a log directory, and which of them belong to one run.

JAX writes a session to `plugins/profile/<time>/<host>.xplane.pb` (or `.xplane.riegeli`, piece by
piece), and each process uses the time at which it stopped: hosts of one run may lie in directories
that are seconds apart, or in log directories of their own. So sessions that lie close together
belong to one run as long as no host occurs twice; a host's older session is of an earlier run.
Reference: tsl/profiler/rpc/client/save_profile.cc (GetCurrentTimeStampAsString).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from os.path import commonpath
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from counterpoint.timeline.remote import RemotePath

    Place = Path | RemotePath
    """A file or directory, on this machine or in a store."""

__all__ = ["in_order"]


_STAMP: Final = re.compile(r"\d{4}(_\d{2}){5}")
_STAMPED: Final = "%Y_%m_%d_%H_%M_%S"
_LOGS: Final = ("plugins/profile/*", "*/plugins/profile/*", "*/*/plugins/profile/*")
"""Locations of sessions: in the log directory itself, or in one for each host."""

_CLOSE_S: Final = 300.0
"""Hosts stop at the same step, but writing a large profile may take minutes."""

_TOGETHER_S: Final = 30.0
"""Processes of one host stop together; the next run of a host needs longer to start and compile."""

LISTED: Final = 3
"""Names that a note lists before it counts the rest."""

_DIGITS: Final = re.compile(r"(\d+)")

ProfilesIn = Callable[["Place"], list["Place"]]


@dataclass(frozen=True, slots=True)
class Session:
    """Profiles that one or more hosts wrote into one directory."""

    directory: Place
    log: Place  # two files of the same name in one log are of one host
    written: float
    profiles: tuple[Place, ...]

    @property
    def hosts(self) -> frozenset[str]:
        """The hosts whose profiles it holds."""
        return frozenset(_host_file(path) for path in self.profiles)

    def is_beside(self, later: Session) -> bool:
        """Return whether it may be of another process of the run that `later` is of.

        Hosts of different names are, if they wrote minutes apart at most. Of equal names, as
        containers have them, it takes logs that are numbered (worker-0, worker-1) and almost one
        time: otherwise a host ran twice, each time into a directory of its own.
        """
        apart = later.written - self.written
        if not self.hosts & later.hosts:
            return apart <= _CLOSE_S
        numbered = _DIGITS.sub("#", str(self.log)) == _DIGITS.sub("#", str(later.log))
        return self.log != later.log and numbered and apart <= _TOGETHER_S


def _host_file(path: Place) -> str:
    """Return a name that is equal for two profiles of one host: XLA writes two kinds."""
    host, xplane, _ = path.name.partition(".xplane.")
    return host + xplane


def in_order(paths: Iterable[Place]) -> list[Place]:
    """Sort by name, with host-2 before host-10: the usual order of devices."""

    def key(path: Place) -> list[tuple[int, str]]:
        parts = _DIGITS.split(str(path))
        return [(int(part) if at % 2 else 0, part) for at, part in enumerate(parts)]

    return sorted(paths, key=key)


def find_sessions(directory: Place, profiles_in: ProfilesIn) -> list[Session]:
    """Return all sessions below a directory, oldest first; `profiles_in` lists one's profiles."""
    for pattern in _LOGS:
        directories = [path for path in directory.glob(pattern) if path.is_dir()]
        if directories:
            return _sessions(((path, path.parents[2]) for path in directories), profiles_in)
    copied = (path for path in directory.iterdir() if _STAMP.fullmatch(path.name) and path.is_dir())
    return _sessions(((path, directory) for path in copied), profiles_in)


def _sessions(places: Iterable[tuple[Place, Place]], profiles_in: ProfilesIn) -> list[Session]:
    sessions = [
        Session(place, log, _written(place), tuple(profiles_in(place))) for place, log in places
    ]
    return sorted(
        (session for session in sessions if session.profiles),
        key=lambda session: (session.written, str(session.directory)),
    )


def _written(place: Place) -> float:
    if _STAMP.fullmatch(place.name):
        try:
            return datetime.strptime(place.name, _STAMPED).timestamp()  # noqa: DTZ007 - local time
        except ValueError:
            pass  # a month 13
    return place.stat().st_mtime if isinstance(place, Path) else place.written


def newest_run(sessions: list[Session]) -> tuple[list[Place], list[str]]:
    """Return the profiles of the latest run, and notes on the others."""
    run = [sessions[-1]]
    others: list[Session] = []
    for session in reversed(sessions[:-1]):
        close = run[-1].written - session.written <= _CLOSE_S
        if close and all(session.is_beside(later) for later in run):
            run.append(session)
        else:
            others.insert(0, session)
    # Of one log, hosts are in the order of their names, whichever wrote first.
    logs = in_order({session.log for session in run})
    profiles = [path for log in logs for path in _of_log(log, run)]
    return profiles, _notes(run[::-1], others)


def _of_log(log: Place, run: Sequence[Session]) -> list[Place]:
    by_name = {path.name: path for each in run if each.log == log for path in each.profiles}
    names = in_order(Path(name) for name in by_name)
    return [by_name[str(name)] for name in names]


def _notes(run: list[Session], others: list[Session]) -> list[str]:
    logs = commonpath({str(session.log) for session in (*run, *others)})
    newest = _name(run[-1], logs)
    notes: list[str] = []
    if len(run) > 1:
        apart = run[-1].written - run[0].written
        notes.append(
            f"{len(run)} sessions are read as one run: they hold different hosts and were"
            f" written within {apart:,.0f} s, the newest in {newest}"
        )
    if others:
        names = ", ".join(dict.fromkeys(_name(session, logs) for session in others[-LISTED:]))
        notes.append(
            f"{len(others) + 1} runs found, the newest is read: {newest} (others: {names})"
            if len(run) == 1
            else f"left out, of earlier runs: {names}"
        )
    return notes


def _name(session: Session, logs: str) -> str:
    """Return what names a session: its directory, and its log's place among several logs."""
    log = str(session.log).removeprefix(logs).strip("/")
    return f"{log}/{session.directory.name}" if log else session.directory.name
