"""What a merge has put together: of which programs the costs are, and what XLA makes of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from counterpoint.pgle.origin import count
from counterpoint.pgle.profile import Profile

_SHOWN: Final = 3
_DIGITS: Final = 8  # of a fingerprint, where a module's name stands beside it


def told_of_merge(profiles: Sequence[Profile]) -> str:
    """One sentence on the programs of the profiles that were merged."""
    holders = Counter(it for profile in profiles for it in profile.fingerprints)
    if not holders:
        return _bare(profiles)
    names = _names(profiles)
    said = ", ".join(names[it] for it in list(holders)[:_SHOWN])
    more = f" and {len(holders) - _SHOWN:,} more" if len(holders) > _SHOWN else ""
    if len(holders) == 1:
        return f"one program, {said}: XLA takes these costs when it compiles that one"
    shared = sum(number > 1 for number in holders.values())
    some = f"{shared:,} in more than one file" if shared else "none in more than one file"
    return (
        f"{count(len(holders), 'program')}, kept apart, {some}: {said}{more}; XLA takes for each"
        " only its own costs"
    )


def _bare(profiles: Sequence[Profile]) -> str:
    """Without fingerprints nobody knows of which program a name is."""
    holders = Counter(it for profile in profiles for it in {cost.name for cost in profile.costs})
    shared = sum(number > 1 for number in holders.values())
    mixed = ", mixed even where their programs differ" if shared else ""
    return (
        f"names without a program, {shared:,} of {len(holders):,} in more than one file{mixed};"
        " XLA takes each for the instruction of that name in any program"
    )


def _names(profiles: Sequence[Profile]) -> dict[str, str]:
    """Of each fingerprint, with the module's name where a profile's head tells it."""
    found: dict[str, str] = {}
    for profile in profiles:
        for it in profile.fingerprints:
            name = profile.origin.get(f"module {it}", "").partition(",")[0]
            if name or it not in found:
                found[it] = f"{name} ({it[:_DIGITS]})" if name else it
    return found
