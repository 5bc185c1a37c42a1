"""Findings: losses of time with their evidence, cost and remedy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Final

from counterpoint.core import Basis, Range, Unknown
from counterpoint.core.field import Field

MIN_REPORTED_SHARE: Final = 0.01
"""Share of the step below which losses are left out."""

WORTH_SHARE: Final = 0.03
"""Share of the step below which a loss is a note, not worth a user's time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One diagnosis.

    `saves_ms` is the gain on a median step, or on the mean one if `mean_step_ms` is given, from the
    certain to the possible; Unknown if the finding is not about time but about how reliable the
    profile is. `basis` applies to `saves_ms`: measured if it is a sum of spans, predicted if the
    simulator computed it. `evidence` names the ops or lines that show it, with rows of the
    Timeline's spans.
    """

    code: str
    title: str
    detail: str
    saves_ms: Range | Unknown
    basis: Basis
    evidence: tuple[Evidence, ...]
    remedy: Remedy
    takes_ms: float | None = None
    """What all that it names takes in a median step, if that is known: it saves no more."""
    mean_step_ms: float | None = None
    """The mean step, if `saves_ms` is a gain on that one: the median step does not show the loss.

    What only a few steps lose, such as those that compile, a median step does not contain.
    """
    doubt: str | None = None
    """Reason to suspect a false alarm in this profile."""
    share: float | None = None
    """The most it saves by the step, or by the mean one; `judge` fills it in."""
    is_small: bool = False
    """Whether it saves at most 3% of the step, or no more than the noise of the steps: a note."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What shows the finding, and its cost in a median step.

    Of an op, `spans` are rows of a few of its spans; of idle time, which has none, `gaps` are the
    worst gaps; of the host's work, `events` and `transfers` are rows of a few of its events and of
    its transfers between slices, the longest first.
    """

    what: Annotated[str, Field("what was seen")]
    ms: Annotated[float | None, Field("its time; null: it is no time")]
    spans: Annotated[
        tuple[int, ...],
        Field("rows of `Timeline.spans`, of which only those of `chosen_steps` are read"),
    ] = ()
    gaps: Annotated[tuple[Gap, ...], Field("the worst of idle time")] = ()
    events: Annotated[
        tuple[int, ...], Field("the host's work, as rows of `Timeline.host_events`")
    ] = ()
    transfers: Annotated[tuple[int, ...], Field("rows of `Timeline.transfers`")] = ()


@dataclass(frozen=True, slots=True)
class Gap:
    """A time in which a device is idle; `start_ps` as in the Timeline's spans."""

    device: Annotated[int, Field("row of `Timeline.devices`")]
    start_ps: Annotated[int, Field("its start on the Timeline")]
    dur_ps: Annotated[int, Field("its length")]


@dataclass(frozen=True, slots=True)
class Remedy:
    """The advice in words, and as settings to add if settings help.

    `flags` are XLA flags as name and value, without dashes. Remedies are built by `advise`, which
    drops flags that the user's version lacks.
    """

    text: str
    flags: tuple[tuple[str, str], ...] = ()
    environment: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        return self.text


def ms_text(ms: float) -> str:
    """Format a time of a finding: `3.63 ms`; a short one with two digits: `0.0013 ms`, not 0.00."""
    if not 0 < abs(ms) < 0.1:
        return f"{ms:,.2f} ms"
    return f"{ms:.{1 - math.floor(math.log10(abs(ms)))}f}".rstrip("0") + " ms"


def range_text(reach: Range) -> str:
    """Format a range of times: `0.56 to 0.62 ms`, or one time if both ends look alike."""
    low, high = ms_text(reach.low), ms_text(reach.high)
    return high if high == low else f"{low.removesuffix(' ms')} to {high}"


_SIZES: Final = (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("KB", 1e3))


def bytes_text(size: float) -> str:
    """Format bytes of a finding with three digits: `25.5 GB`, `2.36 MB`."""
    # A size that rounds to a thousand has the next unit.
    unit, one = next(((u, one) for u, one in _SIZES if size >= 0.9995 * one), ("bytes", 1.0))
    if unit == "bytes":
        return f"{size:,.0f} bytes"
    return f"{size / one:#,.3g}".rstrip(".") + f" {unit}"
