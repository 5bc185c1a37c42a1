"""The compilation cache is missing, or can't be used as configured.

## What it does

Checks `JAX_COMPILATION_CACHE_DIR`: that the directory is writable, its file system, its free space,
and that no other setting disables the cache.

## Why it costs time

Without a cache every start compiles again, which takes minutes on all hosts at once. If the
directory is not writable, JAX continues without a cache after one warning in the log.

## How it is detected

The check reads the setting, and examines the directory (or the closest existing parent) and its
file system. Addresses (`gs://...`) are not tested.

## Example

```sh
export JAX_COMPILATION_CACHE_DIR=/nonexistent/cache
```

## Fix

Use a directory that all hosts share: JAX lets the first process write entries for all.

## Fix safety

Entries are keyed by the program, versions and flags, so an entry of another program is not used. Of
a PGLE profile the key holds the path and not the content: under an old name, the executable of the
old profile is loaded (FLAG406).

## False alarms

A run that compiles once and then runs for hours needs no cache: a missing cache is only a note.

## References

- https://docs.jax.dev/en/latest/persistent_compilation_cache.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.doctor.facts import HostFacts, RunDirectory, is_remote
from counterpoint.doctor.result import CheckResult, Status, ok, unknown

CODE: Final = "DOC301"
NAME: Final = "compilation-cache"
SINCE: Final = "0.1"

SETTING: Final = "JAX_COMPILATION_CACHE_DIR"
_SWITCH: Final = "JAX_ENABLE_COMPILATION_CACHE"
_LEAST_SECONDS: Final = "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"
_SOURCE: Final = "https://docs.jax.dev/en/latest/persistent_compilation_cache.html"
_ROOM: Final = 2**30
"""Entries are tens of MB each; less than 1 GiB holds only a few programs. Rule of thumb."""
_LONG_SECONDS: Final = 60.0
"""With a higher minimum, compilations under a minute, including most steps, are not cached."""


def check(facts: HostFacts) -> Iterator[CheckResult]:
    """Yield the faults of the cache directory, or its state."""
    path = facts.environment.get(SETTING, "")
    if not path:
        yield _bad(
            Status.NOTE,
            "no compilation cache: every start compiles again",
            "a directory that all hosts share",
            f"export {SETTING}=$HOME/.cache/jax   # or a shared directory",
        )
        return
    if facts.environment.get(_SWITCH, "").lower() in ("0", "false", "no", "off"):
        yield _bad(Status.WARNING, f"{_SWITCH} disables the cache", "on", f"unset {_SWITCH}")
    if "://" in path:
        yield unknown(f"{path} is an address, which is not tested")
        return
    place = next((directory for directory in facts.places if directory.named_by == SETTING), None)
    faults = [*_of_place(place, facts.hosts), *_of_time(facts)]
    yield from faults
    if not faults and place is not None:
        yield ok(f"{place.path} is writable, {_size(place.free_bytes)} free")


def _of_place(place: RunDirectory | None, hosts: int) -> Iterator[CheckResult]:
    if place is None:
        yield unknown("the directory could not be examined")
    elif not place.writable:
        yield _bad(
            Status.WARNING,
            f"{place.path} is not writable: JAX continues without a cache",
            "a directory that this user can write",
            f"export {SETTING}=$HOME/.cache/jax",
        )
    elif place.free_bytes is not None and place.free_bytes < _ROOM:
        yield _bad(
            Status.WARNING,
            f"{_size(place.free_bytes)} free at {place.path}",
            "1 GiB (rule of thumb)",
            f"du -sh {place.path}",
        )
    elif hosts > 1 and not is_remote(place.filesystem):
        yield _bad(
            Status.NOTE,
            f"{place.path} is local ({place.filesystem or '?'}), and {hosts} hosts run together",
            "a directory that all hosts share",
            f"export {SETTING}=/shared/jax-cache",
        )


def _of_time(facts: HostFacts) -> Iterator[CheckResult]:
    text = facts.environment.get(_LEAST_SECONDS, "")
    try:
        seconds = float(text) if text else 0.0
    except ValueError:
        return  # the `flags` check reports it
    if seconds > _LONG_SECONDS:
        yield _bad(
            Status.NOTE,
            f"{_LEAST_SECONDS}={text}: shorter compilations are not cached",
            "1, the default",
            f"unset {_LEAST_SECONDS}",
        )


def _bad(status: Status, found: str, wanted: str, remedy: str) -> CheckResult:
    return CheckResult(
        status=status,
        found=found,
        wanted=wanted,
        why="programs compiled before would load in seconds",
        remedy=remedy,
        source=_SOURCE,
    )


def _size(size: int | None) -> str:
    return "?" if size is None else f"{size / 2**30:,.1f} GiB"
