"""`merge_profiles`: merges profiles of several hosts, or of repeated runs, into one.

Costs of one key become one by the stated statistic. Keys of different fingerprints are different
modules and stay separate; a bare name stands for every module, so files with bare names and files
with fingerprints have nothing in common to merge.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import PurePath
from typing import Final

import numpy as np

from counterpoint import __version__
from counterpoint.core import InputError
from counterpoint.core.printable import some
from counterpoint.pgle.lookups import effective_costs
from counterpoint.pgle.making.origin import chips_recorded, count, name_of_statistic
from counterpoint.pgle.profiles.profile import (
    MEDIAN,
    InstructionCost,
    Latency,
    Profile,
    check_percentile,
    rounded_us,
)


def merge_profiles(
    profiles: Sequence[Profile],
    percentile: float = MEDIAN,
    names: Sequence[str] = (),
    least: Collection[str] = (),
) -> Profile:
    """Merge profiles; duplicates of a key within a file are resolved as XLA does.

    `names` are those of the files, for the head of the new one. Of the instructions in `least` the
    lowest cost counts, whatever the percentile.
    """
    check_percentile(percentile)
    if not profiles:
        raise InputError("no profiles to merge", next="counterpoint pgle merge FILE... -o FILE")
    _refuse_mixture(profiles)
    _refuse_chips(profiles)
    by_module: dict[str | None, dict[str, list[InstructionCost]]] = {}
    for profile in profiles:
        for key, cost in effective_costs(profile).items():
            by_module.setdefault(cost.fingerprint, {}).setdefault(key, []).append(cost)
    costs = tuple(
        InstructionCost(
            same[0].name,
            _statistic([it.us for it in same], 0.0 if same[0].name in least else percentile),
            fingerprint,
        )
        for fingerprint, by_key in by_module.items()
        for same in by_key.values()
    )
    return Profile(costs, _latencies(profiles, percentile), _origin(profiles, percentile, names))


def _refuse_mixture(profiles: Sequence[Profile]) -> None:
    bare = next((c.name for p in profiles for c in p.costs if c.fingerprint is None), None)
    keyed = next((c.key for p in profiles for c in p.costs if c.fingerprint is not None), None)
    if bare is None or keyed is None:
        return
    raise InputError(
        f"names without a fingerprint ({bare}) and with one ({keyed}) are not merged",
        why="a bare name matches that instruction of every module, so its owner is unknown",
        next="make each of them again from its recording with `counterpoint pgle make`",
    )


def _refuse_chips(profiles: Sequence[Profile]) -> None:
    """Refuse to merge costs of different chips: no average holds for both."""
    chips = {chip.name for profile in profiles for chip in chips_recorded(profile.origin)}
    if len(chips) > 1:
        raise InputError(
            f"costs of {' and of '.join(sorted(chips))} are not merged",
            why="an average would be right for neither",
            next="merge profiles of one chip only",
        )


def _statistic(values: Sequence[float], percentile: float) -> float:
    return rounded_us(float(np.percentile(values, percentile))) if len(values) > 1 else values[0]


def _latencies(profiles: Sequence[Profile], percentile: float) -> tuple[Latency, ...]:
    by_pair: dict[tuple[str, str], list[float]] = {}
    for profile in profiles:
        last = {(latency.source, latency.target): latency.us for latency in profile.latencies}
        for pair, us in last.items():
            by_pair.setdefault(pair, []).append(us)
    return tuple(
        Latency(source, target, _statistic(values, percentile))
        for (source, target), values in by_pair.items()
    )


def _origin(profiles: Sequence[Profile], percentile: float, names: Sequence[str]) -> dict[str, str]:
    origin = {
        "made by": f"counterpoint {__version__}",
        "merged from": ", ".join(PurePath(name).name for name in names)
        or count(len(profiles), "profile"),
        "statistic": f"{name_of_statistic(percentile)} over {count(len(profiles), 'profile')}",
    }
    for key in dict.fromkeys(key for profile in profiles for key in profile.origin):
        values = dict.fromkeys(source.origin[key] for source in profiles if key in source.origin)
        if key == "statistic":
            origin["statistic of each"] = "; ".join(values)
        elif key not in origin:
            origin[key] = "; ".join(values)
    return origin


_SHOWN: Final = 3
_DIGITS: Final = 8  # shown digits of a fingerprint beside a module's name


def describe_merge(profiles: Sequence[Profile]) -> str:
    """Return one sentence on the programs of the merged profiles."""
    holders = Counter(fingerprint for profile in profiles for fingerprint in profile.fingerprints)
    if not holders:
        return _bare(profiles)
    names = _names(profiles)
    listed = some([names[fingerprint] for fingerprint in holders], _SHOWN)
    if len(holders) == 1:
        return f"one program, {listed}: XLA uses these costs when it compiles that program"
    shared = sum(number > 1 for number in holders.values())
    several = f"{shared:,} in more than one file" if shared else "none in more than one file"
    return (
        f"{count(len(holders), 'program')}, kept apart, {several}: {listed}; XLA uses for each"
        " only its own costs"
    )


def _bare(profiles: Sequence[Profile]) -> str:
    """Describe profiles without fingerprints, whose programs are unknown."""
    holders = Counter(
        name for profile in profiles for name in {cost.name for cost in profile.costs}
    )
    shared = sum(number > 1 for number in holders.values())
    mixed = ", mixed even if their programs differ" if shared else ""
    return (
        f"names without a program, {shared:,} of {len(holders):,} in more than one file{mixed};"
        " XLA uses each for the instruction of that name in any program"
    )


def _names(profiles: Sequence[Profile]) -> dict[str, str]:
    """Return a label of each fingerprint, with the module's name if a profile's head has it."""
    labels: dict[str, str] = {}
    for profile in profiles:
        for fingerprint in profile.fingerprints:
            name = profile.origin.get(f"module {fingerprint}", "").partition(",")[0]
            if name or fingerprint not in labels:
                labels[fingerprint] = f"{name} ({fingerprint[:_DIGITS]})" if name else fingerprint
    return labels
