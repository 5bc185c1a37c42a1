"""How the rate of false positives is shared: between looks by spending, among arms by Holm.

Looking several times, and at several arms, gives chance several chances. Each look has a share of
the rate that only its own rows can use; at each look, arms share it by Holm's steps. Shares add up
to one, so whatever makes a study stop, and however looks depend on each other, the rate holds
(Bonferroni). Boundaries that use the correlation of looks would spare a few per cent of the runs,
and need noise that is known and arms that are never dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from counterpoint.tune.statistics.estimate import Rule

_POWER: Final = 2
"""Spent after a share t of the rows is t**2 of the rate: little is wasted on the first ones."""
_TIE: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Step:
    """An arm's place in Holm's order: its adjusted p, and among how many arms it shares."""

    p: float
    among: int


def looks(rule: Rule) -> tuple[int, ...]:
    """After which rows it is looked at, in order; the cap is always one."""
    return (*sorted({it for it in rule.looks if 0 < it < rule.cap}), rule.cap)


def share(rule: Rule, rows: int) -> float:
    """Which part of the rate the look after so many rows may use; between looks, the next one's."""
    planned = looks(rule)
    ends = [0.0, *((it / rule.cap) ** _POWER for it in planned)]
    parts = [after - before for before, after in pairwise(ends)]
    return next(
        (part for look, part in zip(planned, parts, strict=True) if rows <= look), parts[-1]
    )


def holm(ps: Sequence[float], arms: int) -> tuple[Step, ...]:
    """Holm's steps of these p, of as many `arms` as share the rate; in the order given.

    An arm is different where its adjusted p is at most the rate. A range of 1 - rate / among
    excludes no change just then: arms behind the first that is not different share as it does.
    """
    arms = max(arms, len(ps))
    order = sorted(range(len(ps)), key=lambda it: ps[it])
    found: dict[int, Step] = {}
    highest, tied, among = 0.0, -1.0, arms
    for rank, it in enumerate(order):
        if ps[it] > tied * (1 + _TIE):
            tied, among = ps[it], arms - rank
        highest = max(highest, min(1.0, among * ps[it]))
        found[it] = Step(highest, among)
    return tuple(found[it] for it in range(len(ps)))


def shared_as(steps: Sequence[Step], rate: float) -> tuple[int, ...]:
    """Among how many arms each one's range shares the rate."""
    kept = [it.among for it in steps if it.p > rate]
    most = max(kept, default=0)
    return tuple(max(it.among, most) if it.p > rate else it.among for it in steps)
