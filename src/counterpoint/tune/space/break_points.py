"""Break points: the combine thresholds at which this very program comes out otherwise."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from counterpoint.flags import Settings
from counterpoint.flags.advice.combiner import DEFAULT
from counterpoint.flags.advice.thresholds import Combining, Step
from counterpoint.tune.space.draft import Pick
from counterpoint.tune.space.situation import Situation
from counterpoint.tune.space.standing import given

MOST: Final = 4
_KIB: Final = 1024
_SIZE: Final = re.compile(r"(\d+)\s*(B|KiB|MiB|GiB)?", re.IGNORECASE)
_UNITS: Final = {"": 1, "b": 1, "kib": _KIB, "mib": _KIB**2, "gib": _KIB**3}


def break_points(combining: Combining, here: Situation) -> Mapping[str, tuple[Pick, ...]]:
    """At most four thresholds that merge otherwise than the base does, by rising size.

    First come the least that merges all of a loop's body, and the default where the base has
    another value; then nothing merged, all merged, and what lies between.
    """
    said = given(combining.flag, here)
    now = int(said) if said is not None and said.strip().isdigit() else DEFAULT
    powers = [it.threshold for it in combining.candidates]
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
        if outcome not in seen and len(found) < MOST:
            seen.add(outcome)
            found[outcome] = threshold
    return picks(combining.flag, sorted(found.values()))


def picks(flag: str, thresholds: Iterable[int]) -> Mapping[str, tuple[Pick, ...]]:
    """A choice for each of these thresholds."""
    return MappingProxyType(
        {name_of(it): (Pick(settings=Settings(((flag, str(it)),))),) for it in thresholds}
    )


def name_of(threshold: int) -> str:
    """512 MiB; `default`; exact bytes where it is no round number."""
    if threshold == DEFAULT:
        return "default"
    for unit in ("GiB", "MiB", "KiB"):
        if threshold and threshold % _UNITS[unit.lower()] == 0:
            return f"{threshold // _UNITS[unit.lower()]} {unit}"
    return f"{threshold} B" if threshold else "0"


def size_of(text: str) -> int | None:
    """The bytes that a user means by 512 MiB, 536870912 or default; None for anything else."""
    if text.strip().casefold() == "default":
        return DEFAULT
    match = _SIZE.fullmatch(text.strip())
    return int(match[1]) * _UNITS[(match[2] or "").lower()] if match else None


def _outcome(threshold: int, combining: Combining) -> tuple[int, int | None, int]:
    step: Step = combining.default if threshold == DEFAULT else combining.at(threshold)
    return step.collectives, step.launches, step.largest


def _outside_in(sorted_: list[int]) -> list[int]:
    """The middle first, then what is farther from it."""
    middle = len(sorted_) // 2
    return sorted(sorted_, key=lambda it: abs(sorted_.index(it) - middle))
