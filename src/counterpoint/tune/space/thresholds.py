"""Thresholds: sizes up to which XLA combines collectives, as choices of a dimension.

Break points are the thresholds at which this very program compiles differently.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from counterpoint.flags.combiner import DEFAULT
from counterpoint.flags.settings import Settings
from counterpoint.flags.thresholds import KindThresholds, ThresholdResult
from counterpoint.tune.space.context import SpaceContext
from counterpoint.tune.space.current_settings import base_value
from counterpoint.tune.space.dimensions import Pick

MOST_THRESHOLDS: Final = 4
_KIB: Final = 1024
_SIZE: Final = re.compile(r"(\d+)\s*(B|KiB|MiB|GiB)?", re.IGNORECASE)
_UNITS: Final = {"": 1, "b": 1, "kib": _KIB, "mib": _KIB**2, "gib": _KIB**3}


def break_points(combining: KindThresholds, here: SpaceContext) -> Mapping[str, tuple[Pick, ...]]:
    """Return at most four thresholds that merge differently from the base, in ascending order.

    First come the least that merges all of a loop's body, and the default if the base has another
    value; then nothing merged, all merged, and those between.
    """
    current = base_value(combining.flag, here)
    now = int(current) if current is not None and current.strip().isdigit() else DEFAULT
    powers = [candidate.threshold for candidate in combining.candidates]
    wanted = [
        *([combining.choice] if combining.choice is not None else []),
        DEFAULT,
        *powers[-1:],
        0,
        *_outside_in(powers[:-1]),
    ]
    found: dict[tuple[int, int | None, int], int] = {}
    seen = {_outcome(now, combining)}
    for threshold in wanted:
        outcome = _outcome(threshold, combining)
        if outcome not in seen and len(found) < MOST_THRESHOLDS:
            seen.add(outcome)
            found[outcome] = threshold
    return threshold_choices(combining.flag, sorted(found.values()))


def threshold_choices(flag: str, thresholds: Iterable[int]) -> Mapping[str, tuple[Pick, ...]]:
    """Make a choice of each threshold."""
    return MappingProxyType(
        {
            threshold_name(threshold): (Pick(settings=Settings(((flag, str(threshold)),))),)
            for threshold in thresholds
        }
    )


def threshold_name(threshold: int) -> str:
    """Format a threshold: `512 MiB`; `default`; exact bytes if it is not a round number."""
    if threshold == DEFAULT:
        return "default"
    for unit in ("GiB", "MiB", "KiB"):
        if threshold and threshold % _UNITS[unit.lower()] == 0:
            return f"{threshold // _UNITS[unit.lower()]} {unit}"
    return f"{threshold} B" if threshold else "0"


def threshold_bytes(text: str) -> int | None:
    """Parse `512 MiB`, `536870912` or `default` as bytes; None for anything else."""
    if text.strip().casefold() == "default":
        return DEFAULT
    match = _SIZE.fullmatch(text.strip())
    return int(match[1]) * _UNITS[(match[2] or "").lower()] if match else None


def _outcome(threshold: int, combining: KindThresholds) -> tuple[int, int | None, int]:
    step: ThresholdResult = combining.default if threshold == DEFAULT else combining.at(threshold)
    return step.collectives, step.launches, step.largest


def _outside_in(sorted_: list[int]) -> list[int]:
    """Return the middle first, then what is farther from it."""
    middle = len(sorted_) // 2
    return sorted(sorted_, key=lambda threshold: abs(sorted_.index(threshold) - middle))
