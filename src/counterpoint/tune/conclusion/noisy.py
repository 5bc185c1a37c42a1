"""Noisy: where runs differ so much that `no effect` would promise what nobody saw."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from counterpoint.core.basis import Range
from counterpoint.tune.conclusion.findings import Findings
from counterpoint.tune.figures import share_text
from counterpoint.tune.statistics.estimate import Estimate, Verdict

TELLS_NOTHING: Final = 0.05
"""A rule of thumb: whoever can't rule out so large an effect has not found that there is none."""
NOISY: Final = "too noisy to tell"


def without_vain_claims(found: Findings) -> Findings:
    """The same, where an arm whose range is too wide is not said to have no effect."""
    return replace(
        found,
        raced={name: _said(it) for name, it in found.raced.items()},
        fresh={name: _said(it) for name, it in found.fresh.items()},
    )


def _said(told: Estimate) -> Estimate:
    if told.verdict is not Verdict.SAME or not isinstance(told.range, Range):
        return told
    most = max(abs(told.range.low), abs(told.range.high))
    if most <= TELLS_NOTHING:
        return told
    why = f"{NOISY}: an effect up to {share_text(most)} can't be seen here"
    return replace(told, verdict=Verdict.OPEN, why=why)
