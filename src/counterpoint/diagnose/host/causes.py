"""Causes: what a host does, told by the names of its events. The names are in causes.toml."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import Final


class Cause(StrEnum):
    """Why a device has nothing to do."""

    PROFILER = "profiler"
    COMPILE = "compile"
    BLOCKED = "blocked"  # the host waits for a result, and launches nothing meanwhile
    RUNTIME = "runtime"  # the runtime holds the host back
    INPUT = "input"
    TRANSFER = "transfer"  # to a device
    DISPATCH = "dispatch"
    LAUNCHING = "launching"  # of the kernels of a run that has begun
    PYTHON = "python"  # an event, and none of the above
    OTHERS = "others"  # the host waits, and other devices are busy
    DEVICE = "device"  # the host had launched: from one kernel to the next
    UNKNOWN = "unknown"  # nothing recorded on the thread that launches


NAMED: Final = tuple(
    cause
    for cause in Cause
    if cause not in (Cause.LAUNCHING, Cause.PYTHON, Cause.OTHERS, Cause.DEVICE, Cause.UNKNOWN)
)
"""Those that causes.toml has names for."""


@cache
def _patterns() -> tuple[tuple[Cause, re.Pattern[str]], ...]:
    text = files("counterpoint.diagnose.host").joinpath("causes.toml").read_text(encoding="utf-8")
    return tuple(
        (Cause(entry["name"]), re.compile("|".join(f"(?:{it})" for it in _plain(entry))))
        for entry in tomllib.loads(text)["cause"]
    )


def _plain(entry: dict[str, list[str]]) -> list[str]:
    """A flag in the middle of a pattern is for that alternative only."""
    return [
        f"(?i:{it.removeprefix('(?i)')})" if it.startswith("(?i)") else it
        for it in entry["patterns"]
    ]


def cause_of(name: str) -> Cause | None:
    """What an event of this name says of itself."""
    bare = name.removeprefix("TSL:")
    return next((cause for cause, pattern in _patterns() if pattern.search(bare)), None)


def causes_of(names: Sequence[str]) -> list[Cause | None]:
    """The same for many; a profile has thousands of names and millions of events."""
    return [cause_of(name) for name in names]
