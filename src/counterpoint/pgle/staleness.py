"""Staleness: whether a profile was made from the program that it is used for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from counterpoint.hlo.model.program import Program
from counterpoint.hlo.provenance import stable_key
from counterpoint.pgle.lookups import xla_lookups
from counterpoint.pgle.profiles.profile import Profile

_FINGERPRINT: Final = re.compile(r"\b[0-9a-f]{32}\b")
_SAME_WORKLOAD: Final = 0.5  # share of names: below it, another model's names match by chance
_SHOWN: Final = 3


class ProfileFit(StrEnum):
    """The relation of a profile to a program."""

    FITS = "fits"
    STALE = "stale"  # XLA takes its costs, which are of other operations
    FOREIGN = "foreign"  # XLA takes none of its costs, or almost none
    UNTOLD = "untold"


@dataclass(frozen=True, slots=True)
class Staleness:
    """The verdict, its reason, and known differences between making and using."""

    fit: ProfileFit
    reason: str
    differences: tuple[str, ...] = ()


def staleness(
    profile: Profile,
    program: Program,
    circumstances: Mapping[str, str] | None = None,
) -> Staleness:
    """Judge a profile by fingerprints.

    `circumstances` describe the program as origin does the profile.

    Keys in both the profile's origin and the circumstances (versions, flags) are compared: they
    explain why a fingerprint differs, or, without one, that it may.

    XLA numbers fusions and collectives as it creates them, so different programs share most names:
    after `xla_gpu_disable_async_collectives`, another combine threshold or another autotune level,
    every name in the profile still exists but stands for another operation. XLA then silently
    schedules by wrong costs. Only the fingerprint of the module before scheduling tells them apart.
    """
    differences = tuple(_differences(profile.origin, circumstances or {}))
    fit, reason = _by_fingerprint(profile, program, differences)
    return Staleness(fit, reason, differences)


def source_fingerprints(profile: Profile) -> tuple[str, ...]:
    """Return fingerprints of the modules that a profile was made from, by its costs and head."""
    words = [
        word for entry in profile.origin.items() for word in _FINGERPRINT.findall(" ".join(entry))
    ]
    return tuple(dict.fromkeys((*profile.fingerprints, *words)))


def names_in_common(profile: Profile, program: Program) -> float:
    """Return the share of the program's lookups that have a name in the profile, of any module."""
    lookups = xla_lookups(program)
    names = {cost.name for cost in profile.costs}
    return sum(any(name in names for name in lookup.names) for lookup in lookups) / max(
        len(lookups), 1
    )


def reused_names(before: Program, after: Program) -> tuple[str, ...]:
    """Return names that both programs look up, but that stand for different operations."""
    old = {lookup.names[0]: lookup.instruction for lookup in xla_lookups(before)}
    return tuple(
        lookup.names[0]
        for lookup in xla_lookups(after)
        if lookup.names[0] in old
        and stable_key(before, old[lookup.names[0]]) != stable_key(after, lookup.instruction)
    )


def _by_fingerprint(
    profile: Profile, program: Program, differences: tuple[str, ...]
) -> tuple[ProfileFit, str]:
    sources = source_fingerprints(profile)
    if program.fingerprint is None:
        return ProfileFit.UNTOLD, (
            "the program has no fingerprint: XLA:GPU before jaxlib 0.5 wrote none, and compilers"
            " for other devices never do"
        )
    if program.fingerprint in sources:
        return ProfileFit.FITS, f"made from this program (fingerprint {program.fingerprint})"
    if not sources:
        untold = "its names are bare and it does not state the module it was made from"
        return (
            (ProfileFit.STALE, f"made under different conditions; {untold}")
            if differences
            else (
                ProfileFit.UNTOLD,
                untold,
            )
        )
    made_of = ", ".join(sources[:_SHOWN]) + (" and others" if len(sources) > _SHOWN else "")
    share = names_in_common(profile, program)
    other = f"made from {made_of}, but this program is {program.fingerprint}"
    if all(cost.fingerprint is not None for cost in profile.costs):
        return (
            ProfileFit.FOREIGN,
            f"{other}; XLA drops each of its costs ({share:.0%} of names match)",
        )
    if share < _SAME_WORKLOAD:
        return ProfileFit.FOREIGN, f"{other}; {share:.0%} of the names match"
    return ProfileFit.STALE, (
        f"{other}: {share:.0%} of the names match, but in another build they may stand for other "
        "operations, and XLA uses their costs silently"
    )


def _differences(origin: Mapping[str, str], circumstances: Mapping[str, str]) -> Iterator[str]:
    for key, value in circumstances.items():
        if key in origin and origin[key] != value:
            yield f"{key}: {origin[key] or 'none'} when made, {value or 'none'} now"
