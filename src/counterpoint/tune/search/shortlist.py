"""Shortlist: the few candidates that are worth real time, of many that were predicted.

The best one first. A model may be wrong about one thing that several candidates share, so those
that follow are to differ: a gain that rests on other changes is worth more than a copy with one
change less.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, TypeAlias

from counterpoint.tune.arm import Arm, Predicted
from counterpoint.tune.journal.records import CandidateSeen
from counterpoint.tune.search.predicted import are_tied, behind

_WORTH: Final = 0.25
"""Of the best gain: whoever is predicted to bring less is not looked at for real."""
_COPY: Final = 0.002
"""Of the base's step: what changes little, and is predicted to bring no more."""
_COPIED: Final = 0.9  # of what the changes of both bring
_LITTLE: Final = 0.001  # what a change counts that nobody knows to bring more

Weights: TypeAlias = Mapping[tuple[str, str], float]
"""What choices of dimensions bring, as shares of the base's step."""
_NONE: Weights = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Shortlist:
    """`arms` are worth real time. `tied`: nobody can say that they are behind the best one."""

    arms: tuple[Arm, ...]
    tied: tuple[str, ...]
    effect: bool  # whether the best one is predicted to be faster by what counts


def shortlist(
    base: CandidateSeen,
    candidates: Iterable[CandidateSeen],
    winner: CandidateSeen,
    *,
    most: int,
    indifferent: float,
    weights: Weights = _NONE,
) -> Shortlist:
    """At most so many, none with the same program as another.

    `weights` say which changes matter: two arms are alike that owe their gain to the same ones.
    """
    start, best = base.arm.predicted, winner.arm.predicted
    if start is None or best is None:
        return Shortlist((), (), effect=False)
    rescued = start.fits is False and best.fits is not False
    effect = rescued or best.gain > indifferent
    rivals = [it for it in _distinct([winner, *candidates]) if _runs(it, start)]
    tied = [it.arm.name for it in rivals if are_tied(_figures(it), best)]
    if not effect:
        rivals = [it for it in rivals if _figures(it).gain_range.high > indifferent]
    least = -float("inf") if rescued else max(0.0, _WORTH * best.gain)
    worth = [it for it in rivals if _figures(it).gain > least]
    picked = _picked(winner, worth, most, weights)
    return Shortlist(tuple(it.arm for it in _ordered(picked, best)), tuple(tied), effect)


def _distinct(candidates: Iterable[CandidateSeen]) -> list[CandidateSeen]:
    """One for each program, of the fewest changes; the first of several such."""
    found: dict[str, CandidateSeen] = {}
    for it in candidates:
        if it.arm.predicted is None or it.arm.is_base:
            continue
        known = found.get(it.arm.predicted.program)
        if known is None or len(it.arm.changes) < len(known.arm.changes):
            found[it.arm.predicted.program] = it
    return list(found.values())


def _runs(seen: CandidateSeen, base: Predicted) -> bool:
    """Whether it fits, and is another program than the base, or one that now fits."""
    figures = _figures(seen)
    if figures.fits is False:
        return base.fits is False and figures.program != base.program
    return figures.program != base.program or base.fits is False


def _picked(
    winner: CandidateSeen, worth: Sequence[CandidateSeen], most: int, weights: Weights
) -> list[CandidateSeen]:
    """One after another, whoever brings most and is least like those that are picked."""
    best = _figures(winner)
    left = sorted(worth, key=lambda it: (-_figures(it).gain, len(it.arm.changes)))
    picked: list[CandidateSeen] = []
    first = next((it for it in left if _figures(it).program == best.program), None)
    while left and len(picked) < most:
        it = first or max(left, key=lambda one: _value(one, picked, best.gain, weights))
        first = None
        left.remove(it)
        if not any(_is_copy(it, other, weights) for other in picked):
            picked.append(it)
    return picked


def _value(
    one: CandidateSeen, picked: Sequence[CandidateSeen], best_gain: float, weights: Weights
) -> float:
    alike = max((_alike(one.arm, it.arm, weights) for it in picked), default=0.0)
    return _figures(one).gain - abs(best_gain) * alike


def _alike(one: Arm, other: Arm, weights: Weights) -> float:
    """What common changes bring, of what the changes of both do."""
    mine, theirs = _changes(one), _changes(other)
    every = sum(max(_LITTLE, weights.get(it, 0.0)) for it in mine | theirs)
    return sum(max(_LITTLE, weights.get(it, 0.0)) for it in mine & theirs) / every


def _is_copy(one: CandidateSeen, other: CandidateSeen, weights: Weights) -> bool:
    if abs(_figures(one).gain - _figures(other).gain) >= _COPY:
        return False
    apart = len(_changes(one.arm) ^ _changes(other.arm))
    return apart <= 1 or _alike(one.arm, other.arm, weights) >= _COPIED


def _changes(arm: Arm) -> frozenset[tuple[str, str]]:
    return frozenset((it.dimension, it.choice) for it in arm.changes) or frozenset(
        (("arm", arm.name),)
    )


def _ordered(picked: Sequence[CandidateSeen], best: Predicted) -> list[CandidateSeen]:
    """The best one, those tied with it by their changes, then the rest by what they bring."""
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
