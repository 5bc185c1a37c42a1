"""`diff_profiles`: what changed from one profile to another, the largest change first."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from counterpoint.pgle.making.samples import same_costs, settled
from counterpoint.pgle.profiles.profile import Cost, Profile


@dataclass(frozen=True, slots=True)
class Change:
    """A key that both profiles have."""

    key: str
    a_us: float
    b_us: float

    @property
    def difference_us(self) -> float:
        return self.b_us - self.a_us

    @property
    def ratio(self) -> float | None:
        """The second over the first; None where the first is zero."""
        return self.b_us / self.a_us if self.a_us else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Diff:
    """Two profiles side by side, one cost per key in each, as XLA settles it.

    `by_name`: fingerprints differ throughout, so instructions are compared by their bare names.
    """

    changes: tuple[Change, ...]  # sorted by the size of the difference
    only_a: tuple[Cost, ...]  # sorted by cost
    only_b: tuple[Cost, ...]
    by_name: bool
    bare: tuple[str, ...] = ()  # which of "A" and "B" has bare names throughout

    def __repr__(self) -> str:
        alone = f"{len(self.only_a):,} in A alone, {len(self.only_b):,} in B alone"
        return f"<Diff of {len(self.changes):,} costs in both, {alone}>"

    @property
    def a_us(self) -> float:
        """All costs that both have, of the first."""
        return sum(change.a_us for change in self.changes)

    @property
    def b_us(self) -> float:
        """All costs that both have, of the second."""
        return sum(change.b_us for change in self.changes)

    @property
    def equal(self) -> int:
        """How many keys cost the same in both."""
        return sum(change.a_us == change.b_us for change in self.changes)


def diff_profiles(a: Profile, b: Profile) -> Diff:
    """Compare key by key; by bare names where two profiles of one module each share no key."""
    mine, theirs = _counted_once(a, b)
    by_name = not mine.keys() & theirs.keys() and _one_module(mine) and _one_module(theirs)
    if by_name:
        mine = {cost.name: cost for cost in mine.values()}
        theirs = {cost.name: cost for cost in theirs.values()}
    changes = [Change(key, cost.us, theirs[key].us) for key, cost in mine.items() if key in theirs]
    return Diff(
        changes=tuple(sorted(changes, key=lambda it: (-abs(it.difference_us), it.key))),
        only_a=_by_cost(cost for key, cost in mine.items() if key not in theirs),
        only_b=_by_cost(cost for key, cost in theirs.items() if key not in mine),
        by_name=by_name,
        bare=tuple(name for name, it in (("A", a), ("B", b)) if not it.fingerprints),
    )


def _counted_once(a: Profile, b: Profile) -> tuple[dict[str, Cost], dict[str, Cost]]:
    """The costs of both, of fingerprints that are one module in both the first alone."""
    mine, theirs = settled(a), settled(b)
    first_of = [
        {it: group[0] for group in same_costs(profile, taken).values() for it in group}
        for profile, taken in ((a, mine), (b, theirs))
    ]
    seen: dict[tuple[str | None, ...], str | None] = {}
    for fingerprint in dict.fromkeys((*first_of[0], *first_of[1])):
        seen.setdefault(tuple(it.get(fingerprint, "") for it in first_of), fingerprint)
    kept = set(seen.values())
    return _only_of(mine, kept), _only_of(theirs, kept)


def _only_of(costs: Mapping[str, Cost], kept: Collection[str | None]) -> dict[str, Cost]:
    return {key: cost for key, cost in costs.items() if cost.fingerprint in kept}


def _one_module(costs: Mapping[str, Cost]) -> bool:
    """Whether names can't clash: all bare, or all of one fingerprint."""
    return len({cost.fingerprint for cost in costs.values()}) == 1


def _by_cost(costs: Iterable[Cost]) -> tuple[Cost, ...]:
    return tuple(sorted(costs, key=lambda it: (-it.us, it.key)))
