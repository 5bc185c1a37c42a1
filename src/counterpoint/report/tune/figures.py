"""Format figures of a study: gains (the share of a step saved, + is faster), durations, budgets."""

from __future__ import annotations

from typing import Final

from counterpoint.core import Range, Unknown
from counterpoint.core.printable import counted_noun
from counterpoint.report import units
from counterpoint.report.document import printable
from counterpoint.tune.plan import Budget
from counterpoint.tune.race import DECIDED, SPENT

_MINUTE: Final = 60
_HOUR: Final = 3600


def gain_text(gain: float | None) -> str:
    """Format a gain as `+3.1%`; one that rounds to zero has no sign."""
    figure = units.known(gain)
    if figure is None:
        return units.UNKNOWN
    shown = f"{figure * 100:.1f}"
    return "0.0%" if float(shown) == 0 else f"{figure * 100:+.1f}%"


def gain_range_text(reach: Range | Unknown | None) -> str:
    """Format a range of gains as `[+2.3%, +3.9%]`."""
    if reach is None or isinstance(reach, Unknown):
        return units.UNKNOWN
    return f"[{gain_text(reach.low)}, {gain_text(reach.high)}]"


def plain(text: str) -> str:
    """Return output of a compiler or program as one printable line."""
    return printable(" ".join(text.split()))


def end_text(why: str) -> str:
    """Describe why a study ended; the race calls an arm decided even if its rows show nothing."""
    texts = {DECIDED: "no arm is due for more runs", SPENT: "the budget has no room for more runs"}
    return texts.get(why, why)


def duration(seconds: float | None) -> str:
    """Format a duration for planning: `1 h 23 min`, `4 min`, `38 s`."""
    figure = units.known(seconds)
    if figure is None:
        return units.UNKNOWN
    whole = round(max(figure, 0.0))
    if whole < 2 * _MINUTE:
        return f"{whole} s"
    minutes = round(whole / _MINUTE)
    if minutes < _MINUTE:
        return f"{minutes} min"
    hours, rest = divmod(minutes, _MINUTE)
    return f"{hours:,} h {rest:02} min"


def clock(seconds: float) -> str:
    """Format an elapsed time: `2:07`, `1:02:07`."""
    minutes, rest = divmod(int(seconds), _MINUTE)
    hours, minutes = divmod(minutes, _MINUTE)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def node_hours(seconds: float | None) -> str:
    """Format seconds of nodes as `2.8 node hours`."""
    figure = units.known(seconds)
    if figure is None:
        return f"{units.UNKNOWN} node hours"
    return f"{units.column([figure / _HOUR], 1)[0]} node hours"


def budget_text(budget: Budget) -> str:
    """Format a budget: `at most 20 trials, and 2 h 00 min of trials`; empty if there is none."""
    limits = [
        "" if budget.trials is None else counted_noun(budget.trials, "trial"),
        "" if budget.seconds is None else f"{duration(budget.seconds)} of trials",
    ]
    joined = ", and ".join(limit for limit in limits if limit)
    return f"at most {joined}" if joined else ""
