"""The verdict on a profile, from its coverage of a program."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from counterpoint.core import Unknown
from counterpoint.pgle.checking.check import Coverage, CoveredPart
from counterpoint.pgle.staleness import ProfileFit

COVERAGE: Final = 0.9
TIME: Final = 0.9
"""Default minimum shares for a profile to pass."""

_SHOWN: Final = 3
_UNNAMED: Final = "logdir"  # the name used in the guides
_NO_TIME: Final = "the covered share of time is unknown"
_TIMES: Final = (
    "counterpoint run -- python train.py"
    "   # then pass its Run as --program: only a recording has times"
)


@dataclass(frozen=True, slots=True)
class CoverageVerdict:
    """The verdict. `reasons` are its problems, `remarks` other useful facts."""

    passed: bool
    reasons: tuple[str, ...]
    remarks: tuple[str, ...]
    next: str


def judge(
    coverage: Coverage,
    min_coverage: float = COVERAGE,
    min_time: float | None = None,
    recording: str | None = None,
) -> CoverageVerdict:
    """Judge a profile against its program. An explicit `min_time` requires known times.

    `recording` is the file the program was found in, if a profile can be made from it.
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
    return CoverageVerdict(
        passed=not reasons,
        reasons=reasons,
        remarks=tuple(_remarks(coverage)),
        next=_next(coverage, reasons, recording) if reasons else "",
    )


def _stale(coverage: Coverage) -> str | None:
    fit = coverage.staleness
    return f"{fit.fit}: {fit.reason}" if fit.fit in (ProfileFit.STALE, ProfileFit.FOREIGN) else None


def _too_few(what: str, part: CoveredPart, least: float) -> str | None:
    if part.share >= least:
        return None
    return (
        f"it has costs of {part.found:,.0f} of {part.whole:,.0f} {what} ({part.share:.0%}), "
        f"fewer than {least:.0%}"
    )


def _collectives(coverage: Coverage, least: float) -> str | None:
    reason = _too_few("collectives", coverage.collectives, least)
    names = {answer.name for answer in coverage.answers if answer.lookup.collective}
    misnamed = next((extra for extra in coverage.extra if extra.meant in names), None)
    if reason is None or misnamed is None:
        return reason
    return f"{reason}; {misnamed.name} should be {misnamed.meant}, the name that XLA looks up"


def _too_short(coverage: Coverage, least: float | None) -> str | None:
    time = coverage.time
    if isinstance(time, Unknown):
        if least is None:
            return None
        return f"{_NO_TIME}: {time.reason}"
    wanted = TIME if least is None else least
    if time.share >= wanted:
        return None
    return f"its costs cover {time.share:.0%} of the measured time, less than {wanted:.0%}"


def _remarks(coverage: Coverage) -> Iterator[str]:
    fit = coverage.staleness
    if fit.fit is ProfileFit.UNTOLD:
        yield f"it is unknown whether it was made from this program: {fit.reason}"
    yield from fit.differences
    if coverage.duplicates:
        yield f"duplicates, of which the last counts: {_some(coverage.duplicates)}"
    if coverage.latencies:
        many = coverage.latencies > 1
        which = f"{coverage.latencies:,} latencies" if many else "one latency"
        yield f"XLA:GPU ignores its {which}"
    if not coverage.collectives.whole:
        yield "the program has no collectives, so a profile has nothing to hide"


def _some(names: Sequence[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more:,} more" if more > 0 else "")


def _next(coverage: Coverage, reasons: Sequence[str], recording: str | None) -> str:
    if all(reason.startswith(_NO_TIME) for reason in reasons):
        return _TIMES
    make = shlex.join(["counterpoint", "pgle", "make", recording or _UNNAMED, "-o", "step.pbtxt"])
    if coverage.staleness.fit is ProfileFit.STALE and coverage.staleness.differences:
        return f"{make}   # recorded with the flags it will be used with"
    return make
