"""The check of an arm's losses against the base's: training another model faster is no gain.

Deviations are running medians of signed differences, step by step: one odd step is chance, three in
five are not. The tolerance is learned from how far the base's runs are apart. It grows with the
steps, as the effect of rounding in another order does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from counterpoint.core.frozen import frozen
from counterpoint.tune.trial.report import Losses

Values = npt.NDArray[np.float64]
FEWEST: Final = 5
"""The minimum number of steps that runs must have in common."""
LEAST: Final = 0.01
"""The smallest tolerance: a smaller deviation never marks an arm as another program."""
_LEAST_NORM: Final = 0.25
"""The same for the gradient norm, which is noisier."""
_TIMES: Final = 3.0
"""The tolerance, as a multiple of the difference between the base's runs."""
_WILD: Final = 0.1
"""If the base's runs differ by more, losses allow no conclusion."""
_DOUBLES: Final = 200
"""Steps after which the tolerance has doubled (rule of thumb)."""
_WINDOW: Final = 5
_NEAR_ZERO: Final = 0.05
"""Share of the largest loss: the smallest denominator of a deviation."""


@frozen(kw_only=True)
class LossCheck:
    """The verdict on an arm's losses.

    `deviation` is the largest one, a share, at `step`; `tolerance` is the allowed deviation there.
    """

    kind: Literal["same", "other", "unchecked"]
    deviation: float | None = None
    tolerance: float | None = None
    step: int | None = None
    why: str = ""


def check_losses(
    base: Sequence[Losses], arm: Losses | None, tolerance: float | None = None
) -> LossCheck:
    """Compare an arm's losses with the base's.

    Args:
        base: The losses of the base's runs.
        arm: The losses of one run of the arm.
        tolerance: A share by which they may differ; None to derive it from the base's runs.
    """
    if arm is None or not arm.steps:
        return LossCheck(kind="unchecked", why="it printed no losses")
    runs = [_finite(losses.steps, losses.values) for losses in base]
    for step, value in zip(arm.steps, arm.values, strict=True):
        if not math.isfinite(value):
            why = f"its loss is {value} at step {step}"
            return LossCheck(
                kind="other", deviation=math.inf, tolerance=tolerance, step=step, why=why
            )
    of_losses = _compared(runs, _finite(arm.steps, arm.values), tolerance, LEAST, "losses")
    if of_losses.kind == "other" or tolerance is not None or not arm.norms:
        return of_losses
    norms = [_finite(losses.norm_steps, losses.norms) for losses in base]
    mine = _finite(arm.norm_steps, arm.norms)
    of_norms = _compared(norms, mine, None, _LEAST_NORM, "gradient norms")
    return of_norms if of_norms.kind == "other" else of_losses


def _finite(steps: Sequence[int], values: Sequence[float]) -> dict[int, float]:
    pairs = zip(steps, values, strict=True)
    return {step: value for step, value in pairs if math.isfinite(value)}


def _compared(
    base: Sequence[Mapping[int, float]],
    arm: Mapping[int, float],
    tolerance: float | None,
    least: float,
    what: str,
) -> LossCheck:
    runs = [run for run in base if len(run) >= FEWEST]
    if not runs:
        return LossCheck(
            kind="unchecked", why=f"no run of the base printed {what} for {FEWEST} steps or more"
        )
    steps = sorted(set(arm).intersection(*runs))
    if len(steps) < FEWEST:
        why = f"{len(steps)} steps have {what} in all runs; at least {FEWEST} are required"
        return LossCheck(kind="unchecked", why=why)
    series = [np.array([run[at] for at in steps]) for run in runs]
    mine = np.array([arm[at] for at in steps])
    scale = _scale(series)
    allowed = _allowed(series, scale, np.array(steps) - steps[0], tolerance, least)
    if isinstance(allowed, str):
        return LossCheck(kind="unchecked", why=f"the base's own {what} {allowed}")
    off = np.min([_off(mine, values, scale) for values in series], axis=0)
    at = int(np.argmax(off / allowed))
    found, limit, step = float(off[at]), float(allowed[at]), steps[at]
    if found > limit:
        fact = f"its {what} are {found:.1%} off the base's at step {step}, where {limit:.1%}"
        why = f"{fact} is the most to be expected"
        return LossCheck(kind="other", deviation=found, tolerance=limit, step=step, why=why)
    why = f"{what} of {len(steps)} steps match the base's"
    return LossCheck(kind="same", deviation=found, tolerance=limit, step=step, why=why)


def _scale(series: Sequence[Values]) -> Values:
    """Return the denominators of deviations; they are bounded, as a loss may be near zero."""
    level = np.median(np.abs(series), axis=0)
    floor = _NEAR_ZERO * float(np.max(level))
    return np.maximum(level, floor if floor > 0 else 1.0)


def _off(one: Values, other: Values, scale: Values) -> Values:
    """Return the relative deviation of two series: the running median of signed differences."""
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
    """Return the allowed deviation at each step, or why the base gives none."""
    if tolerance is not None:
        return np.full(len(scale), tolerance)
    apart = [_off(first, second, scale) for first, second in combinations(series, 2)]
    widest: Values = np.max(apart, axis=0) if apart else np.zeros(len(scale))
    if (most := float(np.max(widest))) > max(_WILD, least):
        return f"differ by up to {most:.0%} from run to run: use a fixed seed"
    grown = least * (1 + since / _DOUBLES)
    return np.maximum(grown, _TIMES * np.maximum.accumulate(widest))
