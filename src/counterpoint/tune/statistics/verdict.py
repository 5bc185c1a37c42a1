"""From ranges to what may be said of an arm, and to whether more rows are worth their time."""

from __future__ import annotations

from dataclasses import dataclass

from counterpoint.core.basis import Range
from counterpoint.tune.statistics.estimate import Rule, Verdict


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
