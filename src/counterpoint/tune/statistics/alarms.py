"""Notes on doubtful measurements: a machine that drifts, outliers, and timers that are too coarse.

Nothing is excluded because of them: to drop an outlier because it does not fit is how noise becomes
a gain.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from counterpoint.runs.scores import NEGLIGIBLE_CHANGE
from counterpoint.tune.statistics.estimate import (
    Observation,
)
from counterpoint.tune.statistics.fit import Blocks, blocks

_LEVEL: Final = 0.01
_ROWS: Final = 4  # fewer make no trend
_RUNS: Final = 6  # fewer step times may be equal by chance
_FREEDOM: Final = 3


def alarms(observations: Sequence[Observation]) -> tuple[str, ...]:
    """Return the notes on the runs of one allocation, given in the order in which they ran."""
    if not observations:
        return ()
    fit = blocks(observations)
    return (*_drift(fit), *_outliers(fit, observations), *_coarse(observations))


def _drift(fit: Blocks) -> tuple[str, ...]:
    """Find a trend over the rows after removing the effects of the arms."""
    if len(fit.rows) < _ROWS:
        return ()
    # Takes a second to load.
    from scipy import stats  # pyright: ignore[reportMissingTypeStubs]

    found: Any = stats.linregress(np.array(fit.rows, dtype=float), fit.row_effects)  # pyright: ignore[reportUnknownMemberType]
    over = math.expm1(float(found.slope) * (fit.rows[-1] - fit.rows[0]))
    if not (float(found.pvalue) < _LEVEL and abs(over) > NEGLIGIBLE_CHANGE):
        return ()
    word = "slower" if over > 0 else "faster"
    note = f"the machine became {abs(over):.1%} {word} over {len(fit.rows)} rows"
    return (f"{note}; each row runs the base and all arms, so all are affected alike",)


def _outliers(fit: Blocks, observations: Sequence[Observation]) -> tuple[str, ...]:
    """Find runs too far from the fit of their row and arm, judged by the noise of all others."""
    from scipy.special import stdtr  # pyright: ignore[reportMissingTypeStubs]

    freedom = fit.freedom - 1
    if freedom < _FREEDOM:
        return ()
    room = 1 - fit.leverages
    total = float(fit.residuals @ fit.residuals)
    notes: dict[str, None] = {}
    for run, residual, left in zip(observations, fit.residuals, room, strict=True):
        if left < 1e-9:
            continue
        others = max((total - residual**2 / left) / freedom, 1e-12)
        p = 2 * float(stdtr(freedom, -abs(residual) / math.sqrt(others * left)))
        if p * len(observations) < _LEVEL:
            notes[_outlier_note(run, residual / left, fit)] = None
    return tuple(notes)


def _outlier_note(run: Observation, log: float, fit: Blocks) -> str:
    """Return the note on a run; rows have the numbers that the progress display gives them."""
    in_row = fit.counts[fit.rows.index(run.row)]
    others = [arm for arm, count in zip(fit.arms, in_row, strict=True) if count and arm != run.arm]
    if len(others) == 1 and in_row.sum() == 2:  # it is one of the two, and which one is unknown
        pair = " and ".join(sorted((run.arm, others[0])))
        return f"row {run.row + 1}: {pair} differ unusually; the row is still included"
    word = "longer" if log > 0 else "shorter"
    by = abs(math.expm1(log))
    return (
        f"row {run.row + 1}: the run of {run.arm} took {by:.1%} {word} than expected; "
        "it is still included"
    )


def _coarse(observations: Sequence[Observation]) -> tuple[str, ...]:
    figures = {run.seconds for run in observations}
    if len(observations) < _RUNS or 2 * len(figures) > len(observations):
        return ()
    note = f"{len(observations)} runs gave only {len(figures)} different step times"
    return (f"{note}: the timer is too coarse, so small changes may be hidden or spurious",)
