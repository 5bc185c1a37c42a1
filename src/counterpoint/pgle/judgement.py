"""Whether a profile is good enough for a program, and what to do if not."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from counterpoint.core.basis import Unknown
from counterpoint.pgle.check import Coverage, Part
from counterpoint.pgle.staleness import Fit

COVERAGE: Final = 0.9
TIME: Final = 0.9
"""Shares below which a profile is not good enough, unless asked otherwise."""

_SHOWN: Final = 3
_UNNAMED: Final = "logdir"  # as in the guides
_NO_TIME: Final = "the share of time it covers is not known"
_TIMES: Final = (
    "counterpoint run -- python train.py"
    "   # then name its Run as --program: only a recording tells times"
)


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict. `reasons` say what is wrong, `remarks` what is worth knowing anyway."""

    passed: bool
    reasons: tuple[str, ...]
    remarks: tuple[str, ...]
    next: str


def judge(
    coverage: Coverage,
    min_coverage: float = COVERAGE,
    min_time: float | None = None,
    recording: str | None = None,
) -> Judgement:
    """Hold a profile against its program. A `min_time` that was asked for needs known times.

    `recording` is what the program was found in, if a profile can be made of it.
    """
    reasons = tuple(
        filter(
            None,
            (
                _stale(coverage),
                _too_few("instructions", coverage.instructions, min_coverage),
                _collectives(coverage, min_coverage),
                _too_short(coverage, min_time),
            ),
        )
    )
    return Judgement(
        passed=not reasons,
        reasons=reasons,
        remarks=tuple(_remarks(coverage)),
        next=_next(coverage, reasons, recording) if reasons else "",
    )


def _stale(coverage: Coverage) -> str | None:
    fit = coverage.staleness
    return f"{fit.fit}: {fit.reason}" if fit.fit in (Fit.STALE, Fit.FOREIGN) else None


def _too_few(what: str, part: Part, least: float) -> str | None:
    if part.share >= least:
        return None
    return (
        f"it has costs of {part.found:,.0f} of {part.whole:,.0f} {what} ({part.share:.0%}), "
        f"fewer than {least:.0%}"
    )


def _collectives(coverage: Coverage, least: float) -> str | None:
    reason = _too_few("collectives", coverage.collectives, least)
    names = {it.name for it in coverage.answers if it.lookup.collective}
    misnamed = next((it for it in coverage.extra if it.meant in names), None)
    if reason is None or misnamed is None:
        return reason
    return f"{reason}; {misnamed.name} should be {misnamed.meant}, which is what XLA looks for"


def _too_short(coverage: Coverage, least: float | None) -> str | None:
    time = coverage.time
    if isinstance(time, Unknown):
        if least is None:
            return None
        return f"{_NO_TIME}: {time.reason}"
    wanted = TIME if least is None else least
    if time.share >= wanted:
        return None
    return f"its costs are of {time.share:.0%} of the measured time, less than {wanted:.0%}"


def _remarks(coverage: Coverage) -> Iterator[str]:
    fit = coverage.staleness
    if fit.fit is Fit.UNTOLD:
        yield f"whether it was made of this very program can't be told: {fit.reason}"
    yield from fit.differences
    if coverage.duplicates:
        yield f"stand in it more than once, the last counts: {_some(coverage.duplicates)}"
    if coverage.latencies:
        many = coverage.latencies > 1
        which = f"{coverage.latencies:,} latencies" if many else "one latency"
        yield f"XLA:GPU leaves its {which} out"
    if not coverage.collectives.whole:
        yield "the program has no collectives: a profile can hide nothing in it"


def _some(names: Sequence[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more:,} more" if more > 0 else "")


def _next(coverage: Coverage, reasons: Sequence[str], recording: str | None) -> str:
    if all(reason.startswith(_NO_TIME) for reason in reasons):
        return _TIMES
    make = shlex.join(["counterpoint", "pgle", "make", recording or _UNNAMED, "-o", "step.pbtxt"])
    if coverage.staleness.fit is Fit.STALE and coverage.staleness.differences:
        return f"{make}   # run under the flags it is to be used under"
    return make
