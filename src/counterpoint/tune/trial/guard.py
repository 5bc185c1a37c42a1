"""`guard`: whether an arm computes what the base computes, told by its losses.

A faster program that trains another model is no win. Losses are compared step by step with those of
the base's own runs: signed differences, as shares, by their running median, since one odd step is
chance and three in five are not. How far an arm may be off is learned from how far the base's runs
are from each other; it grows with the steps, as rounding in another order does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from counterpoint.tune.trial.report import Losses

Values = npt.NDArray[np.float64]

FEWEST: Final = 5
"""Steps that runs must have in common."""
LEAST: Final = 0.01
"""No arm is another program for less, whatever the base's runs do."""
_LEAST_NORM: Final = 0.25
"""The same of the gradient's norm, which is louder."""
_TIMES: Final = 3.0
"""The tolerance, in differences of the base's runs."""
_WILD: Final = 0.1
"""Where the base's runs differ by more, nothing can be told from losses."""
_DOUBLES: Final = 200
"""Steps within which the tolerance grows by as much as it began with (rule of thumb)."""
_WINDOW: Final = 5
_NEAR_ZERO: Final = 0.05
"""Of the largest loss: shares are of no less."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarded:
    """`deviation` is the largest one, a share, at `step`; `tolerance` is what was allowed there."""

    kind: Literal["same", "other", "unchecked"]
    deviation: float | None = None
    tolerance: float | None = None
    step: int | None = None
    why: str = ""


def guard(base: Sequence[Losses], arm: Losses | None, tolerance: float | None = None) -> Guarded:
    """Whether an arm's losses are the base's.

    Args:
        base: Of the base's runs.
        arm: Of one run of the arm.
        tolerance: A share by which they may differ; None to learn it from the base's runs.
    """
    if arm is None or not arm.steps:
        return Guarded(kind="unchecked", why="it printed no losses")
    runs = [_finite(it.steps, it.values) for it in base]
    for step, value in zip(arm.steps, arm.values, strict=True):
        if not math.isfinite(value):
            why = f"its loss is {value} at step {step}"
            return Guarded(
                kind="other", deviation=math.inf, tolerance=tolerance, step=step, why=why
            )
    told = _compared(runs, _finite(arm.steps, arm.values), tolerance, LEAST, "losses")
    if told.kind == "other" or tolerance is not None or not arm.norms:
        return told
    norms = [_finite(it.norm_steps, it.norms) for it in base]
    mine = _finite(arm.norm_steps, arm.norms)
    of_norms = _compared(norms, mine, None, _LEAST_NORM, "gradient norms")
    return of_norms if of_norms.kind == "other" else told


def _finite(steps: Sequence[int], values: Sequence[float]) -> dict[int, float]:
    pairs = zip(steps, values, strict=True)
    return {step: value for step, value in pairs if math.isfinite(value)}


def _compared(
    base: Sequence[Mapping[int, float]],
    arm: Mapping[int, float],
    tolerance: float | None,
    least: float,
    what: str,
) -> Guarded:
    runs = [it for it in base if len(it) >= FEWEST]
    if not runs:
        return Guarded(kind="unchecked", why=f"no run of the base printed {what} of {FEWEST} steps")
    steps = sorted(set(arm).intersection(*runs))
    if len(steps) < FEWEST:
        why = f"{len(steps)} steps have {what} in all runs, and {FEWEST} are the least"
        return Guarded(kind="unchecked", why=why)
    series = [np.array([run[at] for at in steps]) for run in runs]
    mine = np.array([arm[at] for at in steps])
    scale = _scale(series)
    allowed = _allowed(series, scale, np.array(steps) - steps[0], tolerance, least)
    if isinstance(allowed, str):
        return Guarded(kind="unchecked", why=f"the base's own {what} {allowed}")
    off = np.min([_off(mine, it, scale) for it in series], axis=0)
    at = int(np.argmax(off / allowed))
    found, limit, step = float(off[at]), float(allowed[at]), steps[at]
    if found > limit:
        said = f"its {what} are {found:.1%} off the base's at step {step}, where {limit:.1%}"
        why = f"{said} would be no wonder"
        return Guarded(kind="other", deviation=found, tolerance=limit, step=step, why=why)
    why = f"{what} of {len(steps)} steps are the base's"
    return Guarded(kind="same", deviation=found, tolerance=limit, step=step, why=why)


def _scale(series: Sequence[Values]) -> Values:
    """What differences are shares of; a loss near zero is no measure of anything."""
    level = np.median(np.abs(series), axis=0)
    floor = _NEAR_ZERO * float(np.max(level))
    return np.maximum(level, floor if floor > 0 else 1.0)


def _off(one: Values, other: Values, scale: Values) -> Values:
    """By what share one is off the other: the running median of signed differences."""
    signed = (one - other) / scale
    reach = _WINDOW // 2
    middle = [np.median(signed[max(at - reach, 0) : at + reach + 1]) for at in range(len(signed))]
    return np.abs(np.array(middle))


def _allowed(
    series: Sequence[Values],
    scale: Values,
    since: npt.NDArray[np.int_],
    tolerance: float | None,
    least: float,
) -> Values | str:
    """How far off is no wonder, at each step; in words, where the base tells nothing."""
    if tolerance is not None:
        return np.full(len(scale), tolerance)
    apart = [_off(one, other, scale) for one, other in combinations(series, 2)]
    widest: Values = np.max(apart, axis=0) if apart else np.zeros(len(scale))
    if (most := float(np.max(widest))) > max(_WILD, least):
        return f"differ by up to {most:.0%} from run to run: give it a fixed seed"
    grown = least * (1 + since / _DOUBLES)
    return np.maximum(grown, _TIMES * np.maximum.accumulate(widest))
