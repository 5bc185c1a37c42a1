"""The scheduler used a PGLE profile of another program.

## What it does

Compares the profile named by the settings with the program that ran.

## Why it costs time

XLA looks up costs by instruction names, which it numbers as it creates instructions. In another
build the same name is another operation: the scheduler then uses wrong costs, which can be worse
than none. It ignores a profile whose names have another fingerprint, and estimates the costs.

## How it is detected

On GPUs, if the profile of the step holds the HLO and the PGLE profile is still at its path. The
fingerprint that the program had before scheduling is in the profile's names, or in the header that
`counterpoint pgle make` writes; another one means another program. The saving is at most the
exposed time of asynchronous collectives (also part of STEP101; the two do not add up).

## Example

```text
profile    made of 1f0c...    (before the batch was doubled)
program    97c3...
```

## Fix

Make the profile again from a run of this program, under the flags it will be used with:
`counterpoint pgle make`, then `counterpoint pgle check`.

## Fix safety

Numbers do not change; the schedule and its memory do, as with any profile.

## False alarms

The profile may have been replaced since the run. If the program differs little, most costs are
still right. Ranks may have different builds of one program: the profile may be from another rank.

## References

- https://github.com/openxla/xla/blob/main/xla/service/profile_guided_latency_estimator.cc
- docs/guide/pgle-check.md
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from counterpoint.core import Range
from counterpoint.diagnose.environment import advise
from counterpoint.diagnose.exposure.causes import evidence, exposed_ms, hiding
from counterpoint.diagnose.finding import Finding, ms_text
from counterpoint.diagnose.pgle_use import used_profile
from counterpoint.diagnose.step_data import StepData

CODE: Final = "STEP603"
NAME: Final = "pgle-stale"
SINCE: Final = "0.1"


def check(data: StepData) -> Iterator[Finding]:
    """Yield at most one finding."""
    used = used_profile(data)
    if used is None:
        return
    from counterpoint.pgle.staleness import ProfileFit

    rows, path, coverage = used
    if coverage.staleness.fit not in (ProfileFit.STALE, ProfileFit.FOREIGN):
        return
    staleness = coverage.staleness
    saving = hiding(data, rows)
    yield Finding(
        code=CODE,
        title=f"the PGLE profile is of another program; {ms_text(exposed_ms(rows))} are exposed",
        detail="; ".join((f"{path}: {staleness.reason}", *staleness.differences)),
        saves_ms=Range(0.0, saving.ms.high),
        basis=saving.basis,
        evidence=evidence(data, rows),
        remedy=advise(
            data,
            "make a new profile from this recording: counterpoint pgle make; or run without one",
        ),
        doubt="the file may have been replaced since",
    )
