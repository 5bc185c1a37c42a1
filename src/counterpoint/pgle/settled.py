"""A profile with one cost per key, as XLA settles it: of duplicates, and of recomputed clones."""

from __future__ import annotations

from counterpoint.pgle.needed import costs_found
from counterpoint.pgle.profile import Cost, Profile


def settled(profile: Profile) -> dict[str, Cost]:
    """Costs by key, each module's in the order of the file."""
    by_module: dict[str | None, list[Cost]] = {}
    for cost in profile.costs:
        by_module.setdefault(cost.fingerprint, []).append(cost)
    found = (
        Cost(name, us, fingerprint)
        for fingerprint, own in by_module.items()
        for name, us in costs_found(own, fingerprint).items()
    )
    return {cost.key: cost for cost in found}
