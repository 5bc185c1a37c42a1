"""Causes of idle time of devices, and what the names of host events say of them (causes.toml)."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import Final

import polars as pl

from counterpoint.diagnose.step_data import StepData

_FEW: Final = 300
"""Names up to which Python tries the patterns sooner than polars has compiled them."""

_NVTX_DOMAIN: Final = "TSL:"


class IdleCause(StrEnum):
    """The cause of idle time of a device."""

    PROFILER = "profiler"
    COMPILE = "compile"
    BLOCKED = "blocked"  # the host waits for a result and launches nothing
    SETTLING = "settling"  # no op is left, and the result that the host waits for is not ready yet
    RUNTIME = "runtime"  # the runtime blocks the host
    INPUT = "input"
    THREAD = "thread"  # the host waits for another of its threads
    TRANSFER = "transfer"  # to a device
    DISPATCH = "dispatch"
    EAGER = "eager"  # launching one of many little programs
    LAUNCHING = "launching"  # of the kernels of a run that has begun
    PYTHON = "python"  # a recorded event that is none of the above
    CONTENDED = "contended"  # another thread holds the interpreter's lock nearly all the time
    OTHERS = "others"  # the host waits while other devices are busy
    DEVICE = "device"  # already launched: from one kernel to the next
    UNMATCHED = "unmatched"  # whether the host had launched the next run is not known
    UNKNOWN = "unknown"  # nothing recorded on the launching thread


@cache
def _patterns() -> tuple[tuple[IdleCause, str], ...]:
    text = files("counterpoint.diagnose.host").joinpath("causes.toml").read_text(encoding="utf-8")
    return tuple(
        (
            IdleCause(entry["name"]),
            "|".join(f"(?:{alternative})" for alternative in _plain(entry)),
        )
        for entry in tomllib.loads(text)["cause"]
    )


def _plain(entry: dict[str, list[str]]) -> list[str]:
    """Limit a flag in the middle of a pattern to its own alternative."""
    return [
        f"(?i:{pattern.removeprefix('(?i)')})" if pattern.startswith("(?i)") else pattern
        for pattern in entry["patterns"]
    ]


def causes_of(names: Sequence[str]) -> list[IdleCause | None]:
    """Return the cause that events of each name indicate.

    Some profiles have thousands of names; polars tries the patterns on all of them at once.
    """
    if len(names) <= _FEW:
        patterns = [(cause, re.compile(pattern)) for cause, pattern in _patterns()]
        bare_names = (name.removeprefix(_NVTX_DOMAIN) for name in names)
        return [
            next((cause for cause, pattern in patterns if pattern.search(name)), None)
            for name in bare_names
        ]
    bare = pl.DataFrame({"name": names}, schema={"name": pl.String}).select(
        pl.col("name").str.strip_prefix(_NVTX_DOMAIN)
    )
    first = pl.coalesce(
        pl.when(pl.col("name").str.contains(pattern)).then(pl.lit(str(cause)))
        for cause, pattern in _patterns()
    )
    matched: list[str | None] = bare.select(first).to_series().to_list()
    return [None if cause is None else IdleCause(cause) for cause in matched]


CAUSES: Final = tuple(IdleCause)


def own_causes(data: StepData) -> list[IdleCause | None]:
    """Return the cause per name, which all hosts share."""
    return causes_of(data.timeline.host_names)


def matching(names: Sequence[str], pattern: re.Pattern[str]) -> list[int]:
    """Return the indices of the names in which the pattern is found."""
    if len(names) <= _FEW:
        return [index for index, name in enumerate(names) if pattern.search(name)]
    matched = pl.Series(names, dtype=pl.String).str.contains(pattern.pattern)
    return matched.arg_true().to_list()
