"""The PGLE profile lacks costs that the scheduler needs.

## What it does

Counts the instructions, collectives and measured time of the step's program for which the given
profile has a cost.

## Why it costs time

XLA prices the rest with its own model. For small work that suffices; but the scheduler can't hide a
collective without a cost well, and it does not use a long kernel without a cost to hide anything.

## How it is detected

On GPUs, if the profile of the step holds the HLO, and the PGLE profile is still at its path and
belongs to this program (otherwise STEP603). Costs are looked up as XLA does. The rule reports if
fewer than nine of ten collectives, or less than nine tenths of the measured time, have a cost, in a
step that waits for asynchronous collectives. The saving is at most their exposed time (also part of
STEP101; the two do not add up).

## Example

```text
costs of 2,104 of 2,130 instructions, of 12 of 23 collectives
```

## Fix

Make the profile from a recording without command buffers (`--xla_gpu_enable_command_buffer=`), of
whole steps and all hosts; then verify it with `counterpoint pgle check`.

## Fix safety

Numbers do not change; the schedule and its memory do, as with any profile.

## False alarms

Missing costs may not matter: XLA's model of them may be right.

## References

- https://github.com/openxla/xla/blob/main/xla/service/profile_guided_latency_estimator.cc
- docs/guide/pgle-check.md
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from counterpoint.core import Range, Unknown
from counterpoint.diagnose.environment import advise
from counterpoint.diagnose.exposure.causes import hiding
from counterpoint.diagnose.finding import Finding
from counterpoint.diagnose.pgle_use import missing_costs, used_profile
from counterpoint.diagnose.step_data import StepData

if TYPE_CHECKING:
    from counterpoint.pgle.checking.check import Coverage

CODE: Final = "STEP604"
NAME: Final = "pgle-coverage"
SINCE: Final = "0.1"


def check(data: StepData) -> Iterator[Finding]:
    """Yield at most one finding."""
    used = used_profile(data)
    if used is None:
        return
    from counterpoint.pgle.staleness import ProfileFit

    rows, path, coverage = used
    if coverage.staleness.fit in (ProfileFit.STALE, ProfileFit.FOREIGN):
        return
    lacking = _lacking(coverage)
    if lacking is None:
        return
    saving = hiding(data, rows)
    yield Finding(
        code=CODE,
        title=f"the PGLE profile lacks the cost of {lacking}",
        detail=f"{path} has costs of {_counted(coverage)}; XLA estimates the others",
        saves_ms=Range(0.0, saving.ms.high),
        basis=saving.basis,
        evidence=missing_costs(data, coverage),
        remedy=advise(
            data,
            "make the profile from whole steps of all hosts, recorded without command buffers, and"
            " verify it: counterpoint pgle check",
            {"xla_gpu_enable_command_buffer": ""},
        ),
    )


def _lacking(coverage: Coverage) -> str | None:
    """Describe what is missing, if it is too much."""
    from counterpoint.pgle.checking.verdict import COVERAGE, TIME

    collectives, time = coverage.collectives, coverage.time
    if collectives.share < COVERAGE:
        return (
            f"{collectives.whole - collectives.found:,.0f} of {collectives.whole:,.0f} collectives"
        )
    if not isinstance(time, Unknown) and time.share < TIME:
        return f"work that takes {1 - time.share:.0%} of the measured time"
    return None


def _counted(coverage: Coverage) -> str:
    parts = ((coverage.instructions, "instructions"), (coverage.collectives, "collectives"))
    counts = [f"{count.found:,.0f} of {count.whole:,.0f} {what}" for count, what in parts]
    if not isinstance(coverage.time, Unknown):
        counts.append(f"{coverage.time.share:.0%} of the measured time")
    return ", ".join(counts)
