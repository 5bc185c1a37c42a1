"""Estimates of gains, with error rates shared between looks and arms.

Several looks at several arms give chance several chances to produce a false positive. So each look
has a share of the rate, which it alone can use, and arms share that by Holm's procedure. The shares
add up to the rate, which therefore holds whatever stops the study and however looks depend on each
other (Bonferroni). Boundaries that use the correlation of looks would save a few percent of the
runs, but need a known noise and arms that are never dropped. See docs/concepts/statistics.md.

`judge` makes a verdict of the ranges; `rows_needed` says how many rows a gain takes to be detected.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from statistics import geometric_mean
from typing import Final

from counterpoint.core import Range, Unknown
from counterpoint.tune.arm import gain_text

_SPENDING_EXPONENT: Final = 2
"""After a share t of the rows, t**2 of the error rate is spent: little on the first looks."""
_TIE: Final = 1e-9
WIDEST_NO_EFFECT: Final = 0.05
"""Rule of thumb: if an effect this large can't be ruled out, "no effect" is not claimed."""
WANTED_POWER: Final = 0.9
_MOST: Final = 1000


@dataclass(frozen=True, slots=True)
class Observation:
    """The median step of one run, with its arm and its row.

    A row is one pass through the base and the arms; rows are of one allocation each.
    """

    arm: str
    row: int
    seconds: float


class ArmVerdict(StrEnum):
    """The conclusion about an arm."""

    FASTER = "faster"
    SLOWER = "slower"
    SAME = "no effect"
    OPEN = "not decided"


@dataclass(frozen=True, slots=True)
class Pair:
    """The steps of an arm and of the base in one row; geometric means if there are several runs."""

    row: int
    seconds: float
    base_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GainEstimate:
    """The gain of an arm, with its range and verdict.

    `gain` is the share of the base's step that the arm saves: 0.03 is 3% faster. It is computed
    from `pairs` alone: 1 - `step_s` / `base_s`, their geometric means, which is the mean of the
    logarithms of their ratios.

    `range` and `p` hold with the study's confidence for all arms and looks together. `rows` counts
    the pairs. An arm without a common row with the base has a gain of NaN, and its range has the
    reason. `why` explains the verdict in a few words, or is empty.
    """

    arm: str
    gain: float
    range: Range | Unknown
    p: float | None
    rows: int
    verdict: ArmVerdict
    decided: bool  # True if more rows are not worth their time
    why: str = ""
    futile: bool = False  # no relevant gain is to be expected; claims nothing
    pairs: tuple[Pair, ...] = ()

    @property
    def step_s(self) -> float | None:
        """The arm's step, over the pairs."""
        return geometric_mean(pair.seconds for pair in self.pairs) if self.pairs else None

    @property
    def base_s(self) -> float | None:
        """The base's step in the same rows."""
        return geometric_mean(pair.base_seconds for pair in self.pairs) if self.pairs else None


def shows_no_effect(estimate: GainEstimate) -> bool:
    """Return whether the range is narrow enough to call an arm without effect."""
    reach = estimate.range
    return isinstance(reach, Range) and max(-reach.low, reach.high) <= WIDEST_NO_EFFECT


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionRule:
    """The parameters of the decision.

    Args:
        confidence: Of the study as a whole: 1 - its rate of false positives.
        indifferent: Gains and losses within this share are irrelevant.
        cap: The maximum number of rows.
        looks: The numbers of rows after which results are examined; the last is the cap.
        arms: The number of arms that share the confidence.
    """

    confidence: float = 0.95
    indifferent: float = 0.005
    cap: int = 6
    looks: tuple[int, ...] = (2, 4, 6)
    arms: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RunNoise:
    """The noise of this study: sigma of the log ratio of two identical runs."""

    sigma: float | Unknown
    freedom: int
    floor: float  # the smallest change that this machine can show


@dataclass(frozen=True, slots=True)
class GainRanges:
    """The gain of an arm with two ranges.

    `together` holds for all arms and looks, and decides whether there is a change. `alone` is of
    this arm at this look, and decides whether to give up on an arm, which is no claim.
    """

    gain: float
    together: Range
    alone: Range


@dataclass(frozen=True, slots=True)
class ArmDecision:
    """The verdict on an arm after a look, and whether the arm is decided by it."""

    verdict: ArmVerdict
    decided: bool
    why: str = ""
    futile: bool = False


def judge(
    reach: GainRanges, floor: float, rule: DecisionRule, *, looked: bool, last: bool
) -> ArmDecision:
    """Decide on an arm.

    Args:
        reach: The gain with its ranges.
        floor: The usual difference between two identical runs.
        rule: The parameters of the decision.
        looked: True at one of the planned looks, where decisions may be made.
        last: True if no more rows come, so that a decision is required.
    """
    together, alone = reach.together, reach.alone
    futile = alone.high < rule.indifferent
    over = last or (looked and futile)
    if _within(together, rule.indifferent):
        return ArmDecision(ArmVerdict.SAME, looked or last, _at_most(together))
    slight = abs(reach.gain) <= rule.indifferent
    small = slight and _within(together, floor)
    if together.low > 0 and not small:
        return ArmDecision(ArmVerdict.FASTER, last or (looked and together.low > rule.indifferent))
    if together.high < 0 and not small and (last or together.high < -rule.indifferent):
        return ArmDecision(ArmVerdict.SLOWER, over)
    none_seen = slight or alone.low <= 0 <= alone.high
    if small or (over and none_seen and _within(alone, floor)):
        return ArmDecision(ArmVerdict.SAME, over, _at_most(together))
    if futile:
        why = f"a gain of {rule.indifferent:.1%} or more is unlikely"
    else:
        why = f"anything from {together.low:+.1%} to {together.high:+.1%} is possible"
    return ArmDecision(ArmVerdict.OPEN, over, why, futile)


def _within(reach: Range, share: float) -> bool:
    return -share <= reach.low and reach.high <= share


def _at_most(reach: Range) -> str:
    return f"no effect beyond {max(-reach.low, reach.high):.2%}"


@dataclass(frozen=True, slots=True)
class HolmStep:
    """An arm's step in Holm's order: its adjusted p, and the number of arms sharing the rate."""

    p: float
    among: int


def looks(rule: DecisionRule) -> tuple[int, ...]:
    """Return the numbers of rows after which results are examined, ascending, with the cap."""
    return (*sorted({rows for rows in rule.looks if 0 < rows < rule.cap}), rule.cap)


def share(rule: DecisionRule, rows: int) -> float:
    """Return the part of the rate for a look after so many rows; between looks, the next look's."""
    planned = looks(rule)
    ends = [0.0, *((look / rule.cap) ** _SPENDING_EXPONENT for look in planned)]
    parts = [after - before for before, after in pairwise(ends)]
    return next(
        (part for look, part in zip(planned, parts, strict=True) if rows <= look), parts[-1]
    )


def holm(ps: Sequence[float], arms: int) -> tuple[HolmStep, ...]:
    """Return Holm's steps of these p, in the order given, if `arms` arms share the rate.

    An arm is different if its adjusted p is at most the rate. A range of 1 - rate / among excludes
    no change in exactly that case: all arms after the first that is not different use its share.
    """
    arms = max(arms, len(ps))
    order = sorted(range(len(ps)), key=lambda index: ps[index])
    found: dict[int, HolmStep] = {}
    highest, tied, among = 0.0, -1.0, arms
    for rank, index in enumerate(order):
        if ps[index] > tied * (1 + _TIE):
            tied, among = ps[index], arms - rank
        highest = max(highest, min(1.0, among * ps[index]))
        found[index] = HolmStep(highest, among)
    return tuple(found[index] for index in range(len(ps)))


def shared_as(steps: Sequence[HolmStep], rate: float) -> tuple[int, ...]:
    """Return the number of arms with which the range of each arm shares the rate."""
    undecided = [step.among for step in steps if step.p > rate]
    most = max(undecided, default=0)
    return tuple(max(step.among, most) if step.p > rate else step.among for step in steps)


def rows_needed(
    noise: RunNoise, gain: float, rule: DecisionRule, *, most: int = _MOST
) -> int | Unknown:
    """Return the number of rows after which a gain is detected in nine of ten studies.

    This is at the last look of the rule, for an arm that shares the rate with `rule.arms` arms, and
    by its own pairs alone. For a confirmation, use `DecisionRule(looks=(), arms=1)`. Unknown beyond
    `most`.
    """
    if isinstance(noise.sigma, Unknown):
        return noise.sigma
    if not 0 < abs(gain) < 1:
        return Unknown(f"a gain of {gain:.1%} can't be shown by any number of rows")
    level = (1 - rule.confidence) * share(rule, rule.cap) / max(rule.arms, 1)
    size = abs(math.log1p(-gain)) / noise.sigma
    for rows in range(2, most + 1):
        if _power(rows, size, level) >= WANTED_POWER:
            return rows
    return Unknown(f"to show {gain:.2%} here takes more than {most} rows")


def _power(rows: int, size: float, level: float) -> float:
    """Return the power of the paired t-test, for an effect of `size` sigmas of a pair."""
    from scipy.special import nctdtr, stdtrit  # pyright: ignore[reportMissingTypeStubs]

    freedom = rows - 1
    reached = float(nctdtr(freedom, size * math.sqrt(rows), float(stdtrit(freedom, 1 - level / 2))))
    return 1 - reached if math.isfinite(reached) else 1.0


def estimate_text(estimate: GainEstimate) -> str:
    """Format the gain of an estimate with its range: `+3.1% [+2.3%, +3.9%]`."""
    return gain_text(estimate.gain, estimate.range)
