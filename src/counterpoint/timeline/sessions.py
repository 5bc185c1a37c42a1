"""Which profiles in a log directory are of one run.

JAX writes a session to `plugins/profile/<time>/<host>.xplane.pb`, and each process names the time
at which it stopped: hosts of one run may lie in directories that are seconds apart, or in log
directories of their own. So sessions that lie close together belong to one run as long as no host
comes twice; a host's older session is of an earlier run.
Reference: tsl/profiler/rpc/client/save_profile.cc (GetCurrentTimeStampAsString).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

_STAMP: Final = re.compile(r"\d{4}(_\d{2}){5}")
_STAMPED: Final = "%Y_%m_%d_%H_%M_%S"
_LOGS: Final = ("plugins/profile/*", "*/plugins/profile/*", "*/*/plugins/profile/*")
"""Where sessions lie: in the log directory itself, or in one for each host."""

_CLOSE_S: Final = 300.0
"""Hosts stop at the same step, but writing a large profile may take minutes."""

_LISTED: Final = 3
_DIGITS: Final = re.compile(r"(\d+)")

ProfilesIn = Callable[[Path], list[Path]]


@dataclass(frozen=True, slots=True)
class Session:
    """Profiles that one or more hosts wrote into one directory."""

    directory: Path
    log: Path  # two files of one name in one log are of one host
    written: float
    profiles: tuple[Path, ...]

    @property
    def hosts(self) -> frozenset[tuple[Path, str]]:
        """Whose profiles it holds."""
        return frozenset((self.log, path.name) for path in self.profiles)


def in_order(paths: Iterable[Path]) -> list[Path]:
    """By name, with host-2 before host-10: the order in which devices are usually numbered."""

    def key(path: Path) -> list[tuple[int, str]]:
        parts = _DIGITS.split(str(path))
        return [(int(part) if at % 2 else 0, part) for at, part in enumerate(parts)]

    return sorted(paths, key=key)


def find_sessions(directory: Path, profiles_in: ProfilesIn) -> list[Session]:
    """All sessions below a directory, oldest first; `profiles_in` looks into one."""
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
    """The profiles of the run that was recorded last, and what should be said about the others."""
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
        names = ", ".join(dict.fromkeys(one.directory.name for one in others[-_LISTED:]))
        notes.append(
            f"{len(others) + 1} runs found, the newest is read: {newest} (others: {names})"
            if len(run) == 1
            else f"left out, of earlier runs: {names}"
        )
    return notes
