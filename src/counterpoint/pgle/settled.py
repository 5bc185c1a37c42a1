"""A profile with one cost per key, as XLA settles it: of duplicates, and of recomputed clones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from counterpoint.pgle.needed import costs_found
from counterpoint.pgle.profile import Cost, Profile


def settled(profile: Profile) -> dict[str, Cost]:
    """Costs by key, each module's in the order of the file.

    A bare name that comes after a module's own overrides it, as it does in XLA.
    """
    by_module: dict[str | None, list[Cost]] = {}
    for cost in profile.costs:
        by_module.setdefault(cost.fingerprint, []).append(cost)
    mixed = None in by_module and len(by_module) > 1
    return {
        cost.key: cost
        for fingerprint, own in by_module.items()
        for cost in _of_module(fingerprint, own, profile.costs if mixed else own)
    }


def _of_module(
    fingerprint: str | None, own: Iterable[Cost], costs: Iterable[Cost]
) -> Iterable[Cost]:
    found = costs_found(costs, fingerprint)
    names = costs_found(own, fingerprint)
    return (Cost(name, found.get(name, us), fingerprint) for name, us in names.items())


def same_costs(
    profile: Profile, taken: Mapping[str, Cost]
) -> Mapping[str | None, tuple[str | None, ...]]:
    """Fingerprints under which the same costs stand, by the first of them.

    Hosts may compile one module to different fingerprints; `make_profile` writes the costs of all
    hosts under each. They are costs of one module: a sum counts them once. Modules that the file
    names differently stay apart whatever they cost, and so do those of a single instruction, where
    equal costs prove nothing.
    """
    own: dict[str | None, dict[str, float]] = {}
    for cost in taken.values():
        own.setdefault(cost.fingerprint, {})[cost.name] = cost.us
    groups: dict[object, list[str | None]] = {}
    for fingerprint, costs in own.items():
        name = profile.origin.get(f"module {fingerprint}", "").partition(",")[0]
        alone = fingerprint if len(costs) == 1 else None
        groups.setdefault((name, alone, frozenset(costs.items())), []).append(fingerprint)
    return {group[0]: tuple(group) for group in groups.values()}
