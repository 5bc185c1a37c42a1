"""Whether a profile was made of this very program, or of another whose names look the same.

XLA counts its fusions and collectives as it makes them, so programs that differ share most names:
after `xla_gpu_disable_async_collectives`, another combine threshold or another autotune level each
name of the profile is still there, and stands for another operation. XLA then schedules by costs
that are wrong, and says nothing. Only the fingerprint that a module has before scheduling tells.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from counterpoint.hlo import Program, stable_key
from counterpoint.pgle.needed import needed
from counterpoint.pgle.profile import Profile

_FINGERPRINT: Final = re.compile(r"\b[0-9a-f]{32}\b")
_SAME_WORKLOAD: Final = 0.5  # of the names: below it, another model's names match by chance
_SHOWN: Final = 3


class Fit(StrEnum):
    """What a profile is to a program."""

    FITS = "fits"
    STALE = "stale"  # XLA takes its costs, which are of other operations
    FOREIGN = "foreign"  # XLA takes none of its costs, or hardly any
    UNTOLD = "untold"


@dataclass(frozen=True, slots=True)
class Staleness:
    """The verdict, what it rests on, and what differs between making and using, if known."""

    fit: Fit
    reason: str
    differences: tuple[str, ...] = ()


def staleness(
    profile: Profile,
    program: Program,
    circumstances: Mapping[str, str] | None = None,
) -> Staleness:
    """Judge a profile by fingerprints; `circumstances` are told of the program as origin is.

    Keys that stand in both the profile's origin and the circumstances (versions, flags) are
    compared: they say why a fingerprint differs, or, without one, that it may.
    """
    differences = tuple(_differences(profile.origin, circumstances or {}))
    fit, reason = _by_fingerprint(profile, program, differences)
    return Staleness(fit, reason, differences)


def made_for(profile: Profile) -> tuple[str, ...]:
    """Fingerprints of the modules that a profile was made of, as its costs or its head tell."""
    told = [word for it in profile.origin.items() for word in _FINGERPRINT.findall(" ".join(it))]
    return tuple(dict.fromkeys((*profile.fingerprints, *told)))


def names_in_common(profile: Profile, program: Program) -> float:
    """Share of the program's lookups that bear a name of the profile, whatever its module."""
    lookups = needed(program)
    names = {cost.name for cost in profile.costs}
    return sum(any(name in names for name in it.names) for it in lookups) / max(len(lookups), 1)


def renamed(before: Program, after: Program) -> tuple[str, ...]:
    """Names that both programs ask a profile for, and that stand for different operations."""
    old = {it.names[0]: it.instruction for it in needed(before)}
    return tuple(
        it.names[0]
        for it in needed(after)
        if it.names[0] in old
        and stable_key(before, old[it.names[0]]) != stable_key(after, it.instruction)
    )


def _by_fingerprint(
    profile: Profile, program: Program, differences: tuple[str, ...]
) -> tuple[Fit, str]:
    sources = made_for(profile)
    if program.fingerprint is None:
        return Fit.UNTOLD, (
            "the program bears no fingerprint: XLA:GPU before jaxlib 0.5 wrote none, and compilers"
            " for other devices never do"
        )
    if program.fingerprint in sources:
        return Fit.FITS, f"made of this very program (fingerprint {program.fingerprint})"
    if not sources:
        untold = "its names are bare and it does not say which module it was made of"
        return (
            (Fit.STALE, f"made under other circumstances; {untold}")
            if differences
            else (
                Fit.UNTOLD,
                untold,
            )
        )
    made_of = ", ".join(sources[:_SHOWN]) + (" and others" if len(sources) > _SHOWN else "")
    share = names_in_common(profile, program)
    other = f"made of {made_of}, but this program is {program.fingerprint}"
    if all(cost.fingerprint is not None for cost in profile.costs):
        return Fit.FOREIGN, f"{other}; XLA drops each of its costs ({share:.0%} of names match)"
    if share < _SAME_WORKLOAD:
        return Fit.FOREIGN, f"{other}; {share:.0%} of the names match"
    return Fit.STALE, (
        f"{other}: {share:.0%} of the names match, but of another build they may stand for other "
        "operations, and XLA takes their costs without a word"
    )


def _differences(origin: Mapping[str, str], circumstances: Mapping[str, str]) -> Iterator[str]:
    for key, value in circumstances.items():
        if key in origin and origin[key] != value:
            yield f"{key}: {origin[key] or 'none'} when made, {value or 'none'} now"
