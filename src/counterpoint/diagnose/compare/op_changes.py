"""Rows: each match with its cost on both sides, and whether the difference exceeds the noise."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from counterpoint.diagnose.compare.compared_op import ComparedOp
from counterpoint.diagnose.compare.matching import MatchStage, OpMatch
from counterpoint.runs.scores import RUN_TO_RUN_NOISE, student_t

_MIN_REPORTED_SHARE: Final = 0.001  # of the step
_LARGE: Final = 1000  # degrees of freedom from which Student's t equals the normal distribution


@dataclass(frozen=True, slots=True, kw_only=True)
class OpChange:
    """One match. `a_ms` and `b_ms` are the shares of its ops in a median step of each side.

    `noise_ms` is the difference that two identical runs may show in any of the rows, 0.0 if A and B
    are one measurement. None if it cannot be separated from the difference: there is only one step,
    or noise may be all that the row holds. A difference within it, or below a thousandth of the
    step, is not `clear`.
    """

    match: OpMatch
    a_ms: float
    b_ms: float
    a_self_ms: float  # including hidden time
    b_self_ms: float
    noise_ms: float | None
    clear: bool

    @property
    def difference_ms(self) -> float:
        """The amount by which this row makes the step of B longer."""
        return self.b_ms - self.a_ms

    @property
    def calls(self) -> tuple[float, float]:
        """How often its ops run on each side, per device in what is compared."""
        a, b = (math.fsum(item.count for item in items) for items in (self.match.a, self.match.b))
        return a, b

    @property
    def shown(self) -> ComparedOp:
        """The item that represents the row: the most expensive one, of A if there is one."""
        return max(self.match.a or self.match.b, key=lambda item: item.held_ms)

    @property
    def volume(self) -> int | None:
        """Bytes of a collective: of one execution, of all in a group."""
        few = min(filter(None, (self.match.a, self.match.b)), key=len)
        sizes = [size.bytes for size in few]
        return None if None in sizes else sum(size for size in sizes if size is not None)

    @property
    def how(self) -> MatchStage:
        return self.match.how


@dataclass(frozen=True, slots=True, kw_only=True)
class OpNoise:
    """Parameters of a row's noise. `steps` is the number measured on the side with fewer."""

    step_ms: float
    steps: int
    runs_differ: float  # relative difference possible between the steps of identical runs
    rows: int = 1  # number of rows judged: together they are to show no difference by chance
    collectives_ms: float = 0.0  # time of all collectives in a step

    def of(self, match: OpMatch, held_ms: float) -> float | None:
        """Return the noise of a row, from the scatter of steps and from run-to-run differences.

        Run-to-run differences appear where devices wait for each other: the collectives share the
        noise of the whole step in proportion to their time. No row differs by more than it holds.
        """
        if self.steps < 2 or not math.isfinite(self.runs_differ):
            return None
        items = (*match.a, *match.b)
        freedom = 2 * (self.steps - 1)
        each = student_t(freedom, self.rows) * math.hypot(*(item.error_ms or 0.0 for item in items))
        affected_ms = held_ms
        if any(item.is_collective for item in items) and self.collectives_ms:
            affected_ms *= self.step_ms / self.collectives_ms
        return min(math.hypot(each, self._runs_differ * affected_ms), held_ms)

    @property
    def _runs_differ(self) -> float:
        """The minimum run-to-run difference, which shifts all rows, with a random part added."""
        more = math.sqrt(max(self.runs_differ**2 - RUN_TO_RUN_NOISE**2, 0.0))
        chances = student_t(_LARGE, self.rows) / student_t(_LARGE)
        return math.hypot(RUN_TO_RUN_NOISE, more * chances)


def rows_of(
    matches: Sequence[OpMatch], step_ms: float, steps: int | None, runs_differ: float
) -> tuple[OpChange, ...]:
    """Return rows, largest difference first; `steps` is the number measured, None: no noise."""
    noise = None
    if steps is not None:
        least = _MIN_REPORTED_SHARE * step_ms
        judged = sum(max(_held(match.a), _held(match.b)) > least for match in matches)
        noise = OpNoise(
            step_ms=step_ms,
            steps=steps,
            runs_differ=runs_differ,
            rows=judged,
            collectives_ms=_held_by_collectives(matches),
        )
    rows = [_row(match, step_ms, noise) for match in matches]
    return tuple(sorted(rows, key=lambda row: (-abs(row.difference_ms), row.shown.op)))


def _held_by_collectives(matches: Sequence[OpMatch]) -> float:
    """Return the time of collectives on the side where it is larger."""
    sides = ((match.a for match in matches), (match.b for match in matches))
    return max(
        math.fsum(item.held_ms for items in side for item in items if item.is_collective)
        for side in sides
    )


def _row(match: OpMatch, step_ms: float, noise_model: OpNoise | None) -> OpChange:
    a_ms, b_ms = _held(match.a), _held(match.b)
    noise = 0.0 if noise_model is None else noise_model.of(match, max(a_ms, b_ms))
    difference = abs(b_ms - a_ms)
    worth_a_word = difference > _MIN_REPORTED_SHARE * step_ms
    if noise is not None and noise >= max(a_ms, b_ms) and worth_a_word:
        noise = None
    return OpChange(
        match=match,
        a_ms=a_ms,
        b_ms=b_ms,
        a_self_ms=math.fsum(item.self_ms for item in match.a),
        b_self_ms=math.fsum(item.self_ms for item in match.b),
        noise_ms=noise,
        clear=noise is not None and difference > noise and worth_a_word,
    )


def _held(items: Iterable[ComparedOp]) -> float:
    return math.fsum(item.held_ms for item in items)
