"""Rows: each match with what it costs on both sides, and whether that is more than noise."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from counterpoint.diagnose.compare.matching import How, Match
from counterpoint.diagnose.compare.side import Item
from counterpoint.runs.scores import RUNS_DIFFER, student

_WORTH_A_WORD: Final = 0.001  # of the step
_LARGE: Final = 1000  # degrees of freedom, from where on Student's t is the normal distribution


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One match. `a_ms` and `b_ms` is what its ops hold of a median step of either side.

    `noise_ms` is by how much two identical runs may differ in any of the rows, 0.0 where A and B
    are one measurement. None where it can't be told from the difference: one step tells nothing of
    it, or it may be all that the row holds. A difference within it, or below a thousandth of the
    step, is not `clear`.
    """

    match: Match
    a_ms: float
    b_ms: float
    a_self_ms: float  # hidden or not
    b_self_ms: float
    noise_ms: float | None
    clear: bool

    @property
    def difference_ms(self) -> float:
        """By how much longer the step of B is on its account."""
        return self.b_ms - self.a_ms

    @property
    def shown(self) -> Item:
        """The item that speaks for the row: the dearest, of A where there is one."""
        return max(self.match.a or self.match.b, key=lambda it: it.held_ms)

    @property
    def volume(self) -> int | None:
        """Bytes of a collective: of one execution, of all in a group."""
        few = min(filter(None, (self.match.a, self.match.b)), key=len)
        sizes = [it.bytes for it in few]
        return None if None in sizes else sum(it for it in sizes if it is not None)

    @property
    def how(self) -> How:
        return self.match.how


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """What is needed to tell a row's noise. `steps` is how many were measured at least."""

    step_ms: float
    steps: int
    runs_differ: float  # by what share the steps of identical runs may differ
    rows: int = 1  # that are judged: of so many none is to be called different by chance
    collectives_ms: float = 0.0  # what all collectives hold of a step

    def of(self, match: Match, held_ms: float) -> float | None:
        """What the steps tell, and what runs differ by.

        What runs differ by shows where devices wait for each other: the collectives share the noise
        of the whole step by what they hold. No row differs by more than it holds.
        """
        if self.steps < 2 or not math.isfinite(self.runs_differ):
            return None
        items = (*match.a, *match.b)
        freedom = 2 * (self.steps - 1)
        each = student(freedom, self.rows) * math.hypot(*(it.error_ms or 0.0 for it in items))
        of = held_ms
        if any(it.is_collective for it in items) and self.collectives_ms:
            of *= self.step_ms / self.collectives_ms
        return min(math.hypot(each, self._runs_differ * of), held_ms)

    @property
    def _runs_differ(self) -> float:
        """What the quietest runs differ by moves all rows at once; more than that is by chance."""
        more = math.sqrt(max(self.runs_differ**2 - RUNS_DIFFER**2, 0.0))
        chances = student(_LARGE, self.rows) / student(_LARGE)
        return math.hypot(RUNS_DIFFER, more * chances)


def rows_of(
    matches: Sequence[Match], step_ms: float, steps: int | None, runs_differ: float
) -> tuple[Row, ...]:
    """The largest difference first; `steps` is how many were measured, None: no noise."""
    noise = None
    if steps is not None:
        judged = sum(_is_judged(match, step_ms) for match in matches)
        noise = Noise(
            step_ms=step_ms,
            steps=steps,
            runs_differ=runs_differ,
            rows=judged,
            collectives_ms=_held_by_collectives(matches),
        )
    made = [_row(match, step_ms, noise) for match in matches]
    return tuple(sorted(made, key=lambda row: (-abs(row.difference_ms), row.shown.op)))


def _is_judged(match: Match, step_ms: float) -> bool:
    return max(_held(match.a), _held(match.b)) > _WORTH_A_WORD * step_ms


def _held_by_collectives(matches: Sequence[Match]) -> float:
    """Of the side where they hold more."""
    sides = ((it.a for it in matches), (it.b for it in matches))
    return max(
        math.fsum(it.held_ms for items in side for it in items if it.is_collective)
        for side in sides
    )


def _row(match: Match, step_ms: float, told: Noise | None) -> Row:
    a_ms, b_ms = _held(match.a), _held(match.b)
    noise = 0.0 if told is None else told.of(match, max(a_ms, b_ms))
    difference = abs(b_ms - a_ms)
    worth_a_word = difference > _WORTH_A_WORD * step_ms
    if noise is not None and noise >= max(a_ms, b_ms) and worth_a_word:
        noise = None
    return Row(
        match=match,
        a_ms=a_ms,
        b_ms=b_ms,
        a_self_ms=math.fsum(it.self_ms for it in match.a),
        b_self_ms=math.fsum(it.self_ms for it in match.b),
        noise_ms=noise,
        clear=noise is not None and difference > noise and worth_a_word,
    )


def _held(items: Iterable[Item]) -> float:
    return math.fsum(it.held_ms for it in items)
