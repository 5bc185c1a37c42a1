"""The largest losses of a step in plain words: what no rule speaks of yet.

A device with nothing to do. The price is an upper bound, since how much can be hidden is not known
from the profile alone: a range from zero.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.core.basis import Basis, Range
from counterpoint.diagnose.finding import Evidence, Finding, Remedy
from counterpoint.diagnose.selection import Selection
from counterpoint.diagnose.step import Breakdown

COUNT: Final = 3
_WORTH_A_WORD: Final = 0.01
"""Losses below this share of the step are not worth a word."""

_HOST: Final = "waits for the host to launch, for input, or for the profiler"
_LOOK: Final = (
    "look at what the host does in the gaps: the input pipeline, logging or block_until_ready in"
    " every step, many small jitted calls, the Python tracer itself"
)
_GAPS: Final = "goes from one kernel to the next; a host that launches late is not predicted"
_LARGER: Final = "fewer and larger kernels: more work per device, or settings that fuse more"


def largest_losses(selection: Selection, breakdown: Breakdown) -> tuple[Finding, ...]:
    """Up to three findings, the dearest first."""
    least = _WORTH_A_WORD * selection.median_ms
    worth = [finding for finding in _idle(selection, breakdown) if _most(finding) > least]
    return tuple(sorted(worth, key=lambda finding: -_most(finding))[:COUNT])


def _most(finding: Finding) -> float:
    return finding.saves_ms.high if isinstance(finding.saves_ms, Range) else 0.0


def _idle(selection: Selection, breakdown: Breakdown) -> Iterator[Finding]:
    if breakdown.idle_ms <= 0:
        return
    predicted = selection.timeline.basis is Basis.PREDICTED
    yield Finding(
        code="idle-device",
        title=f"devices have nothing to do for {breakdown.idle_ms:,.2f} ms per step",
        detail=(
            f"{breakdown.idle_ms / selection.median_ms:.0%} of the step: nothing runs on the"
            f" device, so it {_GAPS if predicted else _HOST}"
        ),
        saves_ms=Range(0.0, breakdown.idle_ms),
        basis=selection.timeline.basis,
        evidence=(Evidence(what="gaps between spans", ms=breakdown.idle_ms),),
        remedy=Remedy(_LARGER if predicted else _LOOK),
    )
