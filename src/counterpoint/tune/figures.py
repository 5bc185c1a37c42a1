"""Figures as people read them: gains in per cent, with their ranges."""

from __future__ import annotations

from counterpoint.core.basis import Range, Unknown
from counterpoint.tune.arm import Arm, Origin
from counterpoint.tune.statistics.estimate import Estimate


def gain_text(gain: float, reach: Range | Unknown | None = None) -> str:
    """`+3.1 % [2.3, 3.9]`."""
    text = f"{100 * gain:+.1f} %"
    if not isinstance(reach, Range):
        return text
    return f"{text} [{100 * reach.low:.1f}, {100 * reach.high:.1f}]"


def estimate_text(estimate: Estimate) -> str:
    """The same of an estimate."""
    return gain_text(estimate.gain, estimate.range)


def share_text(share: float) -> str:
    """`0.6 %`; never less than it is."""
    return f"{100 * share + 0.04999:.1f} %"


def what_text(arm: Arm) -> str:
    """`all-gather threshold 512 MiB + pipelined all-gather`."""
    if arm.origin is Origin.HAND:
        return arm.name
    return " + ".join(map(str, arm.changes)) or arm.name


def several(count: int, noun: str) -> str:
    """`1 setting`, `2 settings`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"
