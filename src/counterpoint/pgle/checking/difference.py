"""Compares two profiles: `diff_profiles` returns the changes, the largest first."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from counterpoint.pgle.lookups import effective_costs, same_costs
from counterpoint.pgle.profiles.profile import InstructionCost, Profile


@dataclass(frozen=True, slots=True)
class CostDifference:
    """A key that both profiles have."""

    key: str
    a_us: float
    b_us: float

    @property
    def difference_us(self) -> float:
        return self.b_us - self.a_us

    @property
    def ratio(self) -> float | None:
        """The second over the first; None if the first is zero."""
        return self.b_us / self.a_us if self.a_us else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileDiff:
    """Two profiles side by side, with the one cost per key that XLA uses.

    `by_name` is true if all fingerprints differ, so that instructions are compared by bare names.
    """

    changes: tuple[CostDifference, ...]  # sorted by the size of the difference
    only_a: tuple[InstructionCost, ...]  # sorted by cost
    only_b: tuple[InstructionCost, ...]
    by_name: bool
    bare: tuple[str, ...] = ()  # which of "A" and "B" has only bare names

    def __repr__(self) -> str:
        alone = f"{len(self.only_a):,} in A alone, {len(self.only_b):,} in B alone"
        return f"<Diff of {len(self.changes):,} costs in both, {alone}>"

    @property
    def a_us(self) -> float:
        """Sum of the common costs in the first."""
        return sum(change.a_us for change in self.changes)

    @property
    def b_us(self) -> float:
        """Sum of the common costs in the second."""
        return sum(change.b_us for change in self.changes)

    @property
    def equal(self) -> int:
        """Number of keys with the same cost in both."""
        return sum(change.a_us == change.b_us for change in self.changes)


def diff_profiles(a: Profile, b: Profile) -> ProfileDiff:
    """Compare by key; by bare names if two profiles of one module each share no key."""
    a_costs, b_costs = _counted_once(a, b)
    by_name = not a_costs.keys() & b_costs.keys() and _one_module(a_costs) and _one_module(b_costs)
    if by_name:
        a_costs = {cost.name: cost for cost in a_costs.values()}
        b_costs = {cost.name: cost for cost in b_costs.values()}
    changes = [
        CostDifference(key, cost.us, b_costs[key].us)
        for key, cost in a_costs.items()
        if key in b_costs
    ]
    return ProfileDiff(
        changes=tuple(sorted(changes, key=lambda change: (-abs(change.difference_us), change.key))),
        only_a=_by_cost(cost for key, cost in a_costs.items() if key not in b_costs),
        only_b=_by_cost(cost for key, cost in b_costs.items() if key not in a_costs),
        by_name=by_name,
        bare=tuple(name for name, profile in (("A", a), ("B", b)) if not profile.fingerprints),
    )


def _counted_once(
    a: Profile, b: Profile
) -> tuple[dict[str, InstructionCost], dict[str, InstructionCost]]:
    """Return the costs of both; of fingerprints that are one module in both, only the first."""
    a_costs, b_costs = effective_costs(a), effective_costs(b)
    first_of = [
        {
            fingerprint: group[0]
            for group in same_costs(profile, taken).values()
            for fingerprint in group
        }
        for profile, taken in ((a, a_costs), (b, b_costs))
    ]
    seen: dict[tuple[str | None, ...], str | None] = {}
    for fingerprint in dict.fromkeys((*first_of[0], *first_of[1])):
        seen.setdefault(tuple(first.get(fingerprint, "") for first in first_of), fingerprint)
    kept = set(seen.values())
    return _only_of(a_costs, kept), _only_of(b_costs, kept)


def _only_of(
    costs: Mapping[str, InstructionCost], kept: Collection[str | None]
) -> dict[str, InstructionCost]:
    return {key: cost for key, cost in costs.items() if cost.fingerprint in kept}


def _one_module(costs: Mapping[str, InstructionCost]) -> bool:
    """Return whether names can't clash: all bare, or all of one fingerprint."""
    return len({cost.fingerprint for cost in costs.values()}) == 1


def _by_cost(costs: Iterable[InstructionCost]) -> tuple[InstructionCost, ...]:
    return tuple(sorted(costs, key=lambda cost: (-cost.us, cost.key)))
