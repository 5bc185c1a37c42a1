"""Shortlist: the few predicted candidates that are worth a measurement.

The best one comes first. The model may be wrong about a change that several candidates share, so
the others should differ from those before them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, TypeAlias

from counterpoint.tune.arm import Arm, Predicted
from counterpoint.tune.search.predicted_step import are_tied, behind
from counterpoint.tune.study.records import CandidateSeen

_LEAST_SHARE_OF_BEST: Final = 0.25
"""Share of the best gain below which a candidate is not measured."""
_COPIES_DIFFER_BY: Final = 0.002
"""Share of the base's step by which the gains of near-copies differ at most."""
_COPIES_SHARE: Final = 0.9  # of the gain from the changes of both
_LEAST_WEIGHT: Final = 0.001  # minimum weight of a change
Weights: TypeAlias = Mapping[tuple[str, str], float]
"""Gains of the choices of dimensions, as shares of the base's step."""
_NONE: Weights = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Shortlist:
    """The arms worth measuring; `tied` names those that may be as fast as the best."""

    arms: tuple[Arm, ...]
    tied: tuple[str, ...]
    effect: bool  # whether the best arm's predicted gain is large enough to matter


def shortlist(
    base: CandidateSeen,
    candidates: Iterable[CandidateSeen],
    winner: CandidateSeen,
    *,
    most: int,
    indifferent: float,
    weights: Weights = _NONE,
) -> Shortlist:
    """Return at most `most` arms, each with a different program.

    `weights` are the gains of the changes: arms that owe their gain to the same changes are alike.
    The model may be wrong about a change that several candidates share, so the arms after the best
    one should differ from those before them.
    """
    start, best = base.arm.predicted, winner.arm.predicted
    if start is None or best is None:
        return Shortlist((), (), effect=False)
    rescued = start.fits is False and best.fits is not False
    effect = rescued or best.gain > indifferent
    rivals = [seen for seen in _distinct([winner, *candidates]) if _is_rival(seen, start)]
    tied = [seen.arm.name for seen in rivals if are_tied(_figures(seen), best)]
    if not effect:
        rivals = [seen for seen in rivals if _figures(seen).gain_range.high > indifferent]
    least = -float("inf") if rescued else max(0.0, _LEAST_SHARE_OF_BEST * best.gain)
    worth = [seen for seen in rivals if _figures(seen).gain > least]
    picked = _picked(winner, worth, most, weights)
    return Shortlist(tuple(seen.arm for seen in _ordered(picked, best)), tuple(tied), effect)


def _distinct(candidates: Iterable[CandidateSeen]) -> list[CandidateSeen]:
    """Return the candidate with the fewest changes for each program; the first of several."""
    found: dict[str, CandidateSeen] = {}
    for seen in candidates:
        if seen.arm.predicted is None or seen.arm.is_base:
            continue
        known = found.get(seen.arm.predicted.program)
        if known is None or len(seen.arm.changes) < len(known.arm.changes):
            found[seen.arm.predicted.program] = seen
    return list(found.values())


def _is_rival(seen: CandidateSeen, base: Predicted) -> bool:
    """Return whether it fits, and differs from the base in its program or in that it fits."""
    figures = _figures(seen)
    if figures.fits is False:
        return base.fits is False and figures.program != base.program
    return figures.program != base.program or base.fits is False


def _picked(
    winner: CandidateSeen, worth: Sequence[CandidateSeen], most: int, weights: Weights
) -> list[CandidateSeen]:
    """Pick candidates one by one: those that gain most and are least like the ones picked."""
    best = _figures(winner)
    left = sorted(worth, key=lambda seen: (-_figures(seen).gain, len(seen.arm.changes)))
    picked: list[CandidateSeen] = []
    first = next((seen for seen in left if _figures(seen).program == best.program), None)
    while left and len(picked) < most:
        chosen = first or max(left, key=lambda seen: _value(seen, picked, best.gain, weights))
        first = None
        left.remove(chosen)
        if not any(_is_copy(chosen, earlier, weights) for earlier in picked):
            picked.append(chosen)
    return picked


def _value(
    one: CandidateSeen, picked: Sequence[CandidateSeen], best_gain: float, weights: Weights
) -> float:
    alike = max((_alike(one.arm, earlier.arm, weights) for earlier in picked), default=0.0)
    return _figures(one).gain - abs(best_gain) * alike


def _alike(one: Arm, other: Arm, weights: Weights) -> float:
    """Return the gain of the common changes as a share of that of all changes of both."""
    mine, theirs = _changes(one), _changes(other)
    every = sum(max(_LEAST_WEIGHT, weights.get(change, 0.0)) for change in mine | theirs)
    return sum(max(_LEAST_WEIGHT, weights.get(change, 0.0)) for change in mine & theirs) / every


def _is_copy(one: CandidateSeen, other: CandidateSeen, weights: Weights) -> bool:
    if abs(_figures(one).gain - _figures(other).gain) >= _COPIES_DIFFER_BY:
        return False
    apart = len(_changes(one.arm) ^ _changes(other.arm))
    return apart <= 1 or _alike(one.arm, other.arm, weights) >= _COPIES_SHARE


def _changes(arm: Arm) -> frozenset[tuple[str, str]]:
    return frozenset((change.dimension, change.choice) for change in arm.changes) or frozenset(
        (("arm", arm.name),)
    )


def _ordered(picked: Sequence[CandidateSeen], best: Predicted) -> list[CandidateSeen]:
    """Return the best candidate, those tied with it by number of changes, then the rest by gain."""
    if not picked:
        return []

    def order(seen: CandidateSeen) -> tuple[bool, int, float]:
        figures = _figures(seen)
        tied = are_tied(figures, best)
        return not tied, len(seen.arm.changes) if tied else 0, behind(figures, best).low

    return [picked[0], *sorted(picked[1:], key=order)]


def _figures(seen: CandidateSeen) -> Predicted:
    if seen.arm.predicted is None:
        raise ValueError(f"{seen.arm.name} was not predicted")
    return seen.arm.predicted
