"""The check of an arm's losses against the base's: training another model faster is no gain.

Deviations are running medians of signed differences, step by step: one odd step is chance, three in
five are not. The tolerance is what the base's own runs differ by, three times, or what rounding in
another order may do if that is more. It is stated wherever a result depends on it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import combinations
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from counterpoint.tune.trial.report import Losses

Values = npt.NDArray[np.float64]
FEWEST: Final = 5
"""The minimum number of steps that runs must have in common."""
LEAST: Final = 0.001
"""What rounding in another order may do to a loss, even if the base's runs agree to the last digit.

Settings that reorder additions are what is tuned. In float32 they move a loss by about 1e-6, and in
bfloat16 by 1e-4 at first. A wrong mask, scale or precision moves it by more.
"""
_LEAST_NORM: Final = 0.25
"""The same for the gradient norm, which is noisier."""
_TIMES: Final = 3.0
"""The tolerance, as a multiple of the difference between the base's runs."""
_WILD: Final = 0.1
"""If the base's runs differ by more, losses allow no conclusion."""
_DOUBLES: Final = 200
"""Steps after which what rounding may do has doubled (rule of thumb): 0.6% after 1000 steps."""
_WINDOW: Final = 5
_PLACES: Final = 1.5
"""Units of the last printed place that losses may be apart: one is rounding, and two are not."""
_NEAR_ZERO: Final = 0.05
"""Share of the largest loss: the smallest denominator of a deviation."""


@dataclass(frozen=True, slots=True, eq=False)
class _Allowance:
    """The most that losses may deviate at each step, and where that comes from."""

    most: Values
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LossCheck:
    """The verdict on an arm's losses.

    `deviation` is the largest one, a share, at `step`; `tolerance` is the allowed deviation there,
    and `allowed_by` says where that comes from.
    """

    kind: Literal["same", "other", "unchecked"]
    deviation: float | None = None
    tolerance: float | None = None
    step: int | None = None
    why: str = ""
    allowed_by: str = ""


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
    if len(runs) < 2 and tolerance is None:
        why = f"only one run of the base printed {what}, so how much they differ is unknown"
        return LossCheck(kind="unchecked", why=why)
    steps = sorted(set(arm).intersection(*runs))
    if len(steps) < FEWEST:
        why = f"{len(steps)} steps have {what} in all runs; at least {FEWEST} are required"
        return LossCheck(kind="unchecked", why=why)
    series = [np.array([run[at] for at in steps]) for run in runs]
    mine = np.array([arm[at] for at in steps])
    scale = _scale(series)
    found = _allowance(series, scale, np.array(steps) - steps[0], tolerance, least)
    if isinstance(found, str):
        return LossCheck(kind="unchecked", why=f"the base's own {what} {found}")
    off = np.min([_off(mine, values, scale) for values in series], axis=0)
    at = int(np.argmax(off / found.most))
    deviation, limit, step = float(off[at]), float(found.most[at]), steps[at]
    if deviation > limit:
        fact = f"its {what} are {loss_text(deviation)} off the base's at step {step}"
        why = f"{fact}, and {loss_text(limit)} is allowed: {found.why}"
        kind = "other"
    else:
        why, kind = f"{what} of {len(steps)} steps match the base's", "same"
    return LossCheck(
        kind=kind, deviation=deviation, tolerance=limit, step=step, why=why, allowed_by=found.why
    )


def loss_text(share: float) -> str:
    """Format a deviation of losses, which may be very small: `0.003%`."""
    return f"{share:.1%}" if share >= 0.01 else f"{100 * share:.2g}%"


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


def _allowance(
    series: Sequence[Values],
    scale: Values,
    since: npt.NDArray[np.int_],
    tolerance: float | None,
    least: float,
) -> _Allowance | str:
    """Return the allowed deviation at each step, or why the base gives none."""
    if tolerance is not None:
        return _Allowance(np.full(len(scale), tolerance), "by --loss-tolerance")
    apart = [_off(first, second, scale) for first, second in combinations(series, 2)]
    widest: Values = np.maximum.accumulate(np.max(apart, axis=0))
    most = float(widest[-1])
    if most > max(_WILD, least):
        return f"differ by up to {most:.0%} from run to run: use a fixed seed"
    rounding = np.maximum(least * (1 + since / _DOUBLES), _PLACES * _printed_unit(series) / scale)
    differ = f"differ by up to {loss_text(most)}" if most else "agree to the last digit"
    why = f"the base's own runs {differ}"
    if (_TIMES * widest > rounding).any():
        return _Allowance(np.maximum(rounding, _TIMES * widest), f"{why}, {_TIMES:.0f} times that")
    return _Allowance(rounding, f"{why}, and rounding in another order may do this much")


def _printed_unit(series: Sequence[Values]) -> float:
    """Return the last place of the values as they were printed: 0.01 of `2.31`."""
    places = [-int(Decimal(repr(float(it))).as_tuple().exponent) for run in series for it in run]
    return 10.0 ** -max(places)
