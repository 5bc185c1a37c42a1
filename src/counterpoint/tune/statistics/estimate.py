"""Estimates of gains, with error rates shared between looks and arms."""

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


@dataclass(frozen=True, slots=True)
class Observation:
    """The median step of one run, and where it stood: its arm and its row.

    A row is one pass through the base and the arms; rows are of one allocation each.
    """

    arm: str
    row: int
    seconds: float


class Verdict(StrEnum):
    """What may be said of an arm."""

    FASTER = "faster"
    SLOWER = "slower"
    SAME = "no effect"
    OPEN = "not decided"


@dataclass(frozen=True, slots=True)
class Pair:
    """The steps of an arm and of the base in one row; of several runs their geometric mean."""

    row: int
    seconds: float
    base_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """`gain` is the share of the base's step that the arm saves: 0.03 is 3 % faster.

    It is made of `pairs` alone: 1 - `step_s` / `base_s`, their geometric means, which is the mean
    of the logarithms of their ratios.

    `range` holds with the study's confidence for all arms and looks together. `rows` counts the
    pairs. `p` is adjusted in the same way. An arm that never met the base has a gain of
    NaN, and its range says why. `why` is a few words on the verdict, empty where it needs none.
    """

    arm: str
    gain: float
    range: Range | Unknown
    p: float | None
    rows: int
    verdict: Verdict
    decided: bool  # whether more rows are not worth their time
    why: str = ""
    hopeless: bool = False  # no gain that counts is to be expected; claims nothing
    pairs: tuple[Pair, ...] = ()

    @property
    def step_s(self) -> float | None:
        """The arm's step, over the pairs."""
        return geometric_mean(it.seconds for it in self.pairs) if self.pairs else None

    @property
    def base_s(self) -> float | None:
        """The base's step in the same rows."""
        return geometric_mean(it.base_seconds for it in self.pairs) if self.pairs else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What decides.

    Args:
        confidence: Of the study as a whole: 1 - its rate of false positives.
        indifferent: A gain or loss within this share is none that counts.
        cap: Rows at most.
        looks: After which numbers of rows it is looked at; the last is the cap.
        arms: How many arms share the confidence.
    """

    confidence: float = 0.95
    indifferent: float = 0.005
    cap: int = 6
    looks: tuple[int, ...] = (2, 4, 6)
    arms: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """By how much identical runs of this study differ: sigma of the log ratio of two of them."""

    sigma: float | Unknown
    freedom: int
    floor: float  # a change within it is no change that this machine can show


@dataclass(frozen=True, slots=True)
class Reach:
    """What is known of an arm's gain.

    `together` holds for all arms and looks, and decides whether there is a change. `alone` is of
    this arm at this look, and decides whether to give up on one, which is no claim.
    """

    gain: float
    together: Range
    alone: Range


@dataclass(frozen=True, slots=True)
class Judged:
    verdict: Verdict
    decided: bool
    why: str = ""
    hopeless: bool = False


def judge(reach: Reach, floor: float, rule: Rule, *, looked: bool, last: bool) -> Judged:
    """What to say. `looked`: this is one of the planned looks; `last`: no more rows come.

    Args:
        reach: The gain with its ranges.
        floor: By how much two identical runs usually differ.
        rule: What decides.
        looked: Whether decisions may be made now.
        last: Whether they must be.
    """
    together, alone = reach.together, reach.alone
    hopeless = alone.high < rule.indifferent
    over = last or (looked and hopeless)
    if _within(together, rule.indifferent):
        return Judged(Verdict.SAME, looked or last, _at_most(together))
    slight = abs(reach.gain) <= rule.indifferent
    small = slight and _within(together, floor)
    if together.low > 0 and not small:
        return Judged(Verdict.FASTER, last or (looked and together.low > rule.indifferent))
    if together.high < 0 and not small and (last or together.high < -rule.indifferent):
        return Judged(Verdict.SLOWER, over)
    none_seen = slight or alone.low <= 0 <= alone.high
    if small or (over and none_seen and _within(alone, floor)):
        return Judged(Verdict.SAME, over, _at_most(together))
    if hopeless:
        why = f"a gain of {rule.indifferent:.1%} or more is not to be expected"
    else:
        why = f"anything from {together.low:+.1%} to {together.high:+.1%} is possible"
    return Judged(Verdict.OPEN, over, why, hopeless)


def _within(reach: Range, share: float) -> bool:
    return -share <= reach.low and reach.high <= share


def _at_most(reach: Range) -> str:
    return f"no effect beyond {max(-reach.low, reach.high):.2%}"


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


POWER: Final = 0.9
_MOST: Final = 1000


def rows_needed(noise: Noise, gain: float, rule: Rule, *, most: int = _MOST) -> int | Unknown:
    """After how many rows a gain is called one in nine of ten studies.

    At the last look of the rule, for an arm that shares with `rule.arms` of them, by its own pairs
    alone. So for a confirmation: `Rule(looks=(), arms=1)`. Unknown beyond `most`.
    """
    if isinstance(noise.sigma, Unknown):
        return noise.sigma
    if not 0 < abs(gain) < 1:
        return Unknown(f"a gain of {gain:.1%} is none that rows could show")
    level = (1 - rule.confidence) * share(rule, rule.cap) / max(rule.arms, 1)
    size = abs(math.log1p(-gain)) / noise.sigma
    for rows in range(2, most + 1):
        if _power(rows, size, level) >= POWER:
            return rows
    return Unknown(f"to see {gain:.2%} here takes more than {most} rows")


def _power(rows: int, size: float, level: float) -> float:
    """Of the paired t-test, for an effect of so many sigmas of a pair."""
    from scipy.special import nctdtr, stdtrit  # pyright: ignore[reportMissingTypeStubs]

    freedom = rows - 1
    reached = float(nctdtr(freedom, size * math.sqrt(rows), float(stdtrit(freedom, 1 - level / 2))))
    return 1 - reached if math.isfinite(reached) else 1.0


def estimate_text(estimate: Estimate) -> str:
    """`+3.1 % [2.3, 3.9]`: the gain of an estimate with its range."""
    return gain_text(estimate.gain, estimate.range)
